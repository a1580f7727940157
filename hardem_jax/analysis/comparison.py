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

#: Entries of a run's scores that are not scores.
NOT_PERCENT = ("step", "minutes")
#: An objective is said to be ahead of another below this p.
LEVEL = 0.05

Summary = Mapping[str, Mapping[str, tuple[float, float]]]
ByQuestion = Mapping[str, Sequence[Mapping[str, Sequence[float]]]]


def summarize(
    runs: Mapping[str, Sequence[Mapping[str, float]]],
) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard deviation (n - 1; 0 for a single run) of every metric, by objective.

    Example:
        >>> summarize({"MML": [{"em": 1.0}, {"em": 3.0}]})
        {'MML': {'em': (2.0, 1.4142135623730951)}}
    """
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
    """The metrics by |Z|: metric -> its names -> their group, in ascending order.

    Example:
        >>> set_sizes({"MML": {"em": 1.0, "em |Z|=9+": 2.0, "em |Z|=3-4": 3.0}})
        {'em': {'em |Z|=3-4': '3-4', 'em |Z|=9+': '9+'}}
    """
    names = dict.fromkeys(name for scores in summary.values() for name in scores)
    found = [name.partition(" |Z|=")[::2] for name in names if " |Z|=" in name]
    found.sort(key=lambda pair: int(re.split(r"\D", pair[1])[0]))
    metrics = dict.fromkeys(name.partition(" |Z|=")[0] for name in names if " |Z|=" in name)
    return {
        metric: {f"{metric} |Z|={group}": group for other, group in found if other == metric}
        for metric in metrics
    }


def intervals(by_question: ByQuestion) -> dict[str, dict[str, Interval]]:
    """Objective -> metric -> its mean with the interval of 95 %, see `statistics.interval`.

    Example:
        >>> intervals({"MML": [{"em": [100.0, 100.0]}]})
        {'MML': {'em': Interval(mean=100.0, low=100.0, high=100.0)}}
    """
    return {
        name: {metric: interval(_scores(runs, metric)) for metric in runs[0]}
        for name, runs in by_question.items()
    }


def differences(by_question: ByQuestion) -> dict[str, dict[tuple[str, str], Difference]]:
    """Metric -> two objectives -> the first less the second, see `statistics.difference`.

    Example:
        >>> runs = {"MML": [{"em": [0.0, 100.0]}], "Hard EM": [{"em": [0.0, 100.0]}]}
        >>> differences(runs)
        {'em': {('MML', 'Hard EM'): Difference(mean=0.0, low=0.0, high=0.0, p=1.0)}}
    """
    return {
        metric: {
            (a, b): difference(_scores(by_question[a], metric), _scores(by_question[b], metric))
            for a, b in itertools.combinations(by_question, 2)
        }
        for metric in next(iter(by_question.values()))[0]
    }


def recorded(found: Mapping[str, Mapping[tuple[str, str], Difference]]) -> dict[str, list[Any]]:
    """`differences` as JSON holds them.

    Example:
        >>> recorded({"em": {("MML", "Hard EM"): Difference(-2.0, -3.0, -1.0, 0.004)}})["em"]
        [{'objectives': ['MML', 'Hard EM'], 'mean': -2.0, 'low': -3.0, 'high': -1.0, 'p': 0.004}]
    """
    return {
        metric: [{"objectives": list(pair)} | one._asdict() for pair, one in pairs.items()]
        for metric, pairs in found.items()
    }


def sentence(first: str, second: str, found: Difference) -> str:
    """What a difference shows; an objective is ahead if interval and test agree on it.

    Example:
        >>> sentence("MML", "Hard EM", Difference(1.2, -0.8, 3.1, 0.24))
        'MML - Hard EM: +1.2 [-0.8, 3.1], p = 0.24: no difference shown'
        >>> sentence("MML", "Hard EM", Difference(-4.0, -6.5, -1.5, 0.003))
        'MML - Hard EM: -4.0 [-6.5, -1.5], p = 0.003: Hard EM is ahead'
    """
    shown = found.p < LEVEL and not found.low <= 0 <= found.high
    says = f"{first if found.mean > 0 else second} is ahead" if shown else "no difference shown"
    return f"{first} - {second}: {found}, p = {found.p:.2g}: {says}"


def sentences(
    metric: str, pairs: Mapping[tuple[str, str], Difference], num_seeds: int
) -> list[str]:
    """A heading and what each pair of objectives shows by a metric; nothing without pairs.

    Example:
        >>> pairs = {("MML", "Hard EM"): Difference(1.2, -0.8, 3.1, 0.24)}
        >>> print(*sentences("em", pairs, num_seeds=3), sep="\\n")
        em, differences with intervals of 95 %, and p of each pair on its own:
        MML - Hard EM: +1.2 [-0.8, 3.1], p = 0.24: no difference shown
    """
    if not pairs:
        return []
    of = "" if num_seeds > 1 else " of these runs only,"
    heading = f"{metric}, differences{of} with intervals of 95 %, and p of each pair on its own:"
    return [heading, *(sentence(*pair, found) for pair, found in pairs.items())]


def table(summary: Summary, found: Mapping[str, Mapping[str, Interval]], num_seeds: int) -> Table:
    """Objectives as columns, metrics in percent as rows.

    Args:
        summary: from `summarize`.
        found: from `intervals`, of the metrics that have them.
        num_seeds: of every objective.
    """
    over = "seeds and questions" if num_seeds > 1 else "questions only, for there is one seed"
    result = Table(
        title="After the last step (%)",
        caption=f"Mean with its interval of 95 % over {over}; or, for scores that are not those of "
        f"single questions, {'with the standard deviation over' if num_seeds > 1 else 'of'} "
        f"{'seeds' if num_seeds > 1 else 'this seed'}.",
    )
    result.add_column("metric")
    for name in summary:
        result.add_column(name, justify="right")
    # Some scores only some objectives have, such as a share of answers that are all wrong.
    for metric in dict.fromkeys(metric for scores in summary.values() for metric in scores):
        if metric not in NOT_PERCENT:
            cells = [
                _cell(metric, summary[name].get(metric), found[name].get(metric))
                for name in summary
            ]
            # One seed has no deviation, and 0.0 would look like one.
            result.add_row(metric, *(c if num_seeds > 1 else c.partition(" ±")[0] for c in cells))
    return result


def _cell(
    metric: str, over_seeds: tuple[float, float] | None, over_questions: Interval | None
) -> str:
    if over_questions is not None:
        return str(over_questions)
    if over_seeds is None:
        return "-"
    return " ± ".join(score_text(metric, value) for value in over_seeds)


def _scores(runs: Sequence[Mapping[str, Sequence[float]]], metric: str) -> np.ndarray:
    """``[S, N]`` of one objective."""
    return np.array([run[metric] for run in runs])
