"""What all benchmarks share: clocks, turns and medians."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.progress import track

T = TypeVar("T")


def timed(work: Callable[[int], Any], repeat: int = 1) -> dict[str, float]:
    """Seconds per repetition: wall clock, and CPU time of all threads together."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(repeat)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": wall / repeat, "cpu_s": cpu / repeat}


def interleave(
    turns: Mapping[str, Callable[[], T]],
    rounds: int,
    label: str = "measuring",
    *,
    until: float = math.inf,
) -> dict[str, list[T]]:
    """What each turn returns in every round, by the name of the turn.

    A round begins with another turn each time, so that load from other programs affects all alike.
    None but the first is begun that would end after `until`, on `time.monotonic`, if it took as
    long as the last.
    """
    names = list(turns)
    results: dict[str, list[T]] = {name: [] for name in names}
    for index in track(range(rounds), label, transient=True):
        begins = time.monotonic()
        first = index % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(0.02)  # threads of the last library spin for a while before they sleep
            results[name].append(turns[name]())
        if 2 * time.monotonic() - begins > until:
            break
    return results


def by_measure(rounds: Sequence[Mapping[str, T]]) -> dict[str, list[T]]:
    """A list for each measure instead of a dict for each round."""
    return {name: [values[name] for values in rounds] for name in rounds[0]}


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> dict[str, float]:
    """Median and quartiles of the ratios within rounds."""
    return quartiles([a / b for a, b in zip(numerator, denominator, strict=True)])


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Lower quartile, median and upper quartile; of one value, three times that value."""
    if len(values) == 1:
        return dict.fromkeys(("low", "median", "high"), values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": median, "high": high}
