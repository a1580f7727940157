"""What `compare` says about finished runs: means, intervals, differences, and the table of them.

Scores come in two kinds. Those of runs, ``objective -> [metrics of each seed]``, have a mean and a
standard deviation over seeds. Those of questions, ``objective -> [metric -> [N] of each seed]``,
have intervals over seeds and questions, and paired tests between objectives.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from hardem_jax.analysis.statistics import Difference, Interval, difference, interval

#: An objective is said to be ahead of another below this p.
LEVEL = 0.05

Summary = Mapping[str, Mapping[str, tuple[float, float]]]
ByQuestion = Mapping[str, Sequence[Mapping[str, Sequence[float]]]]


def summarize(
    runs: Mapping[str, Sequence[Mapping[str, float]]],
) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard deviation (n - 1; 0 for a single run) of every metric, by objective."""
    return {
        name: {
            metric: (
                float(np.mean([run[metric] for run in rows])),
                float(np.std([run[metric] for run in rows], ddof=1)) if len(rows) > 1 else 0.0,
            )
            for metric in rows[0]
            if all(metric in run for run in rows)
        }
        for name, rows in runs.items()
    }


def score_text(name: str, value: float) -> str:
    """A score for people: in percent, but thresholds as the probabilities that they are.

    Example:
        >>> score_text("em", 31.25), score_text("best_f1_thresh", 0.0043)
        ('31.2', '0.004300')
    """
    return f"{value:.6f}" if name.endswith("_thresh") else f"{value:.1f}"


def set_sizes(summary: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """The metrics by |Z| in ascending order, ``{"em": {"em |Z|=3-4": "3-4", ...}}``."""
    names = dict.fromkeys(name for scores in summary.values() for name in scores)
    found = [name.partition(" |Z|=")[::2] for name in names if " |Z|=" in name]
    found.sort(key=lambda pair: int(re.split(r"\D", pair[1])[0]))
    metrics = dict.fromkeys(name.partition(" |Z|=")[0] for name in names if " |Z|=" in name)
    return {
        metric: {f"{metric} |Z|={group}": group for other, group in found if other == metric}
        for metric in metrics
    }


def intervals(by_question: ByQuestion) -> dict[str, dict[str, Interval]]:
    """Objective -> metric -> its mean with the interval of 95 %."""
    return {
        name: {metric: interval(_scores(runs, metric)) for metric in runs[0]}
        for name, runs in by_question.items()
    }


def intervals_by_size(
    by_question: ByQuestion, places: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, Interval]]:
    """Objective -> score by |Z| -> the same, over the questions at its ``places``."""
    return {
        name: {
            metric: interval(_scores(runs, metric.partition(" |Z|=")[0])[:, own])
            for metric, own in places.items()
        }
        for name, runs in by_question.items()
    }


def differences(by_question: ByQuestion) -> dict[str, dict[tuple[str, str], Difference]]:
    """Metric -> two objectives -> the first less the second."""
    return {
        metric: {
            (a, b): difference(_scores(by_question[a], metric), _scores(by_question[b], metric))
            for a, b in itertools.combinations(by_question, 2)
        }
        for metric in next(iter(by_question.values()))[0]
    }


def sentence(first: str, second: str, found: Difference) -> str:
    """What a difference shows; an objective is ahead if interval and test agree on it."""
    shown = found.p < LEVEL and not found.low <= 0 <= found.high
    says = f"{first if found.mean > 0 else second} is ahead" if shown else "no difference shown"
    return f"{first} - {second}: {found}, p = {found.p:.2g}: {says}"


def sentences(
    metric: str, pairs: Mapping[tuple[str, str], Difference], num_seeds: int
) -> list[str]:
    """A heading and what each pair of objectives shows by a metric; nothing without pairs."""
    if not pairs:
        return []
    of = "" if num_seeds > 1 else " of these runs only,"
    heading = f"{metric}, differences{of} with intervals of 95 %, and p of each pair on its own:"
    return [heading, *(sentence(*pair, found) for pair, found in pairs.items())]


def table(
    summary: Summary,
    found: Mapping[str, Mapping[str, Interval]],
    num_seeds: int,
    *,
    title: str,
    of: Mapping[str, str],
) -> Table:
    """Objectives as columns, metrics in percent as rows, from `summarize` and `intervals`. Those of
    all questions come first; in a last column, ``of`` says what the others are shares of."""
    over = "seeds and questions" if num_seeds > 1 else "questions only, for there is one seed"
    result = Table(
        title=title,
        caption=f"Mean with its interval of 95 % over {over}; or, for scores that are not those of "
        f"single questions, {'with the standard deviation over' if num_seeds > 1 else 'of'} "
        f"{'seeds' if num_seeds > 1 else 'this seed'}.",
    )
    result.add_column("metric")
    for name in summary:
        result.add_column(name, justify="right")
    result.add_column("of", justify="right")
    # Some scores only some objectives have, such as a share of answers that are all wrong.
    names = (name for part in (found, summary) for scores in part.values() for name in scores)
    for metric in dict.fromkeys(names):
        if metric != "step":
            texts = []
            for name, scores in summary.items():
                # One seed has no deviation, and 0.0 would look like one.
                values = scores.get(metric, ())[: 2 if num_seeds > 1 else 1]
                text = " ± ".join(score_text(metric, value) for value in values) or "-"
                texts.append(str(found[name].get(metric, text)))
            result.add_row(metric, *texts, of.get(metric, ""))
    return result


def _scores(runs: Sequence[Mapping[str, Sequence[float]]], metric: str) -> np.ndarray:
    """``[S, N]`` of one objective."""
    return np.array([run[metric] for run in runs])
