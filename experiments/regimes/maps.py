"""Maps, curves and ``summary.json`` from finished runs."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.regimes.grid import LABELS, Knobs, Values, cells, knobs_of_map, unpack
from hardem_jax.analysis.plots import difference_maps, interval_curves
from hardem_jax.analysis.statistics import Difference, difference, interval
from hardem_jax.data.files import write_json
from hardem_jax.objectives import MML, HardEM, label

#: Score -> label of its axis.
SCORES = {"true z": "most likely mention is true (%)", "answer": "exact match (%)"}
#: Score -> regime and objective -> seed -> ``[N]``, in percent, of every question.
Outcomes = Mapping[str, Mapping[tuple[Knobs, str], Mapping[int, np.ndarray]]]


def draw(
    runs: Iterable[Mapping[str, Any]],
    maps: Sequence[str],
    values: Values,
    base: Knobs,
    *,
    out: Path,
) -> None:
    """Writes ``map-*.png``, ``curve-*.png`` and ``summary.json``; no figure where nothing is known.
    Runs are lines of ``runs.jsonl`` whose questions are the same."""
    outcomes, order = outcomes_of(runs)
    rivals = [name for name in order if name.partition(",")[0] == HardEM.title]
    knobs = sorted({name for pair in maps for name in knobs_of_map(pair)})
    summary: dict[str, dict[str, Any]] = {"maps": {}, "curves": {}}
    for pair in maps:
        # The difference of MML from each rival over two knobs.
        panels = {
            f"{MML.title} minus {rival}": [
                [compared(outcomes["true z"], here, label(MML()), rival) for here in row]
                for row in cells(pair, values, base)
            ]
            for rival in rivals
        }
        rows, columns = (
            (LABELS[name], _ticks(getattr(values, name))) for name in knobs_of_map(pair)
        )
        if any(cell for panel in panels.values() for row in panel for cell in row):
            axes = {"rows": rows, "columns": columns, "label": "difference in true z (points)"}
            difference_maps(panels, **axes, file=out / f"map-{pair}.png")
        summary["maps"][pair] = {title: _plain(panel) for title, panel in panels.items()}
    for name in knobs:
        # The scores of the objectives over one knob.
        line = [dataclasses.replace(base, **{name: value}) for value in getattr(values, name)]
        curves = {
            score: {rival: [_interval(found, here, rival) for here in line] for rival in order}
            for score, found in outcomes.items()
        }
        if any(cell for of in curves.values() for found in of.values() for cell in found):
            interval_curves(
                {SCORES[score]: found for score, found in curves.items()},
                values=(LABELS[name], _ticks(getattr(values, name))),
                file=out / f"curve-{name}.png",
            )
        summary["curves"][name] = {"values": list(getattr(values, name))} | {
            score: {rival: _plain(found) for rival, found in of.items()}
            for score, of in curves.items()
        }
    write_json(out / "summary.json", summary)


def _plain(cells: Any) -> Any:
    """Lists of intervals and differences, or None, as JSON has them."""
    return [_plain(x) for x in cells] if isinstance(cells, list) else cells and cells._asdict()


def outcomes_of(runs: Iterable[Mapping[str, Any]]) -> tuple[Outcomes, list[str]]:
    """The outcomes of runs, and their objectives in the order in which they come."""
    outcomes: dict[str, Any] = {score: defaultdict(dict) for score in SCORES}
    order: dict[str, None] = {}
    for run in runs:
        order.setdefault(run["objective"])
        for score, found in outcomes.items():
            right = unpack(run["outcomes"][score], run["num_dev"])
            found[Knobs(**run["knobs"]), run["objective"]][run["seed"]] = 100.0 * right
    return outcomes, list(order)


def compared(
    outcomes: Mapping[tuple[Knobs, str], Mapping[int, np.ndarray]],
    knobs: Knobs,
    first: str,
    second: str,
) -> Difference | None:
    """The first objective minus the second, on the seeds that both have; None without any."""
    a, b = (outcomes.get((knobs, name), {}) for name in (first, second))
    seeds = sorted(a.keys() & b.keys())
    if not seeds:
        return None
    return difference(*(np.stack([runs[seed] for seed in seeds]) for runs in (a, b)))


def _interval(
    outcomes: Mapping[tuple[Knobs, str], Mapping[int, np.ndarray]], knobs: Knobs, name: str
):
    runs = outcomes.get((knobs, name))
    return interval(np.stack([runs[seed] for seed in sorted(runs)])) if runs else None


def _ticks(values: Iterable[float | None]) -> list[str]:
    return ["as it falls" if value is None else f"{value:g}" for value in values]
