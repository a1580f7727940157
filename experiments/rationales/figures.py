"""Figures and tables of finished runs and of measured gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.rationales.estimators import ESTIMATORS
from experiments.regimes.grid import unpack
from hardem_jax.analysis.plots import learning_curves, logarithmic_curves
from hardem_jax.analysis.statistics import difference, interval
from hardem_jax.data.files import write_json

#: What every objective is compared with.
REFERENCE = "IWAE"


#: Quantities of ``variance.json``, and labels of their axes, all in units of the exact gradient.
QUANTITIES = {
    "squared bias": "squared bias",
    "variance": "variance",
    "mean squared error": "mean squared error",
}


def draw_variance(found: Mapping[str, Any], file: Path) -> None:
    """Draws bias, variance and error of every estimator against K, a column for each model.

    A squared bias is the one that theory gives where it gives one, else the measured one, which is
    left out where it is within its own noise.
    """
    rows: dict[str, dict[str, dict[str, dict[float, float]]]] = {}
    for quantity, label in QUANTITIES.items():
        panels = rows.setdefault(label, {})
        for stage in found["stages"]:
            curves = panels.setdefault(f"{stage['steps']} steps, p = {stage['p']:.2f}", {})
            for name in filter(stage["estimators"].get, ESTIMATORS):  # in this order
                curves[name] = {
                    float(count): _shown(cell, quantity)
                    for count, cell in stage["estimators"][name].items()
                }
    logarithmic_curves(rows, label="draws K of a problem", file=file)


def _shown(cell: Mapping[str, Any], quantity: str) -> float:
    if quantity != "squared bias":
        return cell[quantity]
    if cell["bias in theory"] is not None:
        return cell["bias in theory"]
    noise = cell["variance"] / cell["estimates"]
    return cell[quantity] if cell[quantity] > noise else 0.0


def summarize(runs: Iterable[Mapping[str, Any]], *, out: Path) -> None:
    """Writes ``train.json`` and the curves of draws that are correct; prints a table.

    Args:
        runs: lines of ``runs.jsonl``, of one size.
        out: folder.
    """
    outcomes: dict[str, Any] = defaultdict(lambda: defaultdict(dict))
    curves: dict[str, list] = defaultdict(list)
    for run in runs:
        for score, bits in run["outcomes"].items():
            correct = 100.0 * unpack(bits, run["num_dev"])
            outcomes[score][run["objective"]][run["seed"]] = correct
        share = run["correct draws"]
        if any(share):
            steps = run["steps"] * (np.arange(len(share)) + 1) / len(share)
            pairs = zip(steps, share, strict=True)
            curves[run["objective"]].append([{"step": s, "correct": 100 * r} for s, r in pairs])
    if not outcomes:
        return
    summary: dict[str, Any] = {}
    for score, found in outcomes.items():
        summary[score] = {name: _compared(found, name) for name in found}
        for name, cell in summary[score].items():
            spread = ", ".join(f"{value:.1f}" for value in cell["seeds"].values())
            print(f"{score}: {name}: {_text(cell['score'])} (seeds {spread}); "
                  f"minus {REFERENCE} {_text(cell['difference'])}")  # fmt: skip
    write_json(out / "train.json", summary)
    labels = {"correct": "draws that reach the answer (%)"}
    learning_curves(curves, metrics=labels, file=out / "train.png")


def _compared(found: Mapping[str, Mapping[int, np.ndarray]], name: str) -> dict[str, Any]:
    """The score of an objective, of each seed, and its difference to the reference."""
    runs, reference = found[name], found.get(REFERENCE, {})
    both = sorted(runs.keys() & reference.keys()) if name != REFERENCE else []
    stack = [np.stack([side[seed] for seed in both]) for side in (runs, reference)] if both else []
    return {
        "score": interval(np.stack([runs[seed] for seed in sorted(runs)]))._asdict(),
        "seeds": {seed: float(runs[seed].mean()) for seed in sorted(runs)},
        "difference": difference(*stack)._asdict() if both else None,
    }


def _text(cell: Mapping[str, float] | None) -> str:
    return "-" if cell is None else f"{cell['mean']:.1f} [{cell['low']:.1f}, {cell['high']:.1f}]"
