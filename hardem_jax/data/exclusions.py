"""`ExclusionCounts`: the examples that readers leave out, counted by reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hardem_jax.errors import printable

#: Ids to show for each reason.
_SHOWN = 3
# What would help, by reason; see `with_help`.
_HELP: dict[str, str] = {}


def with_help(reason: str, help: str) -> str:
    """The reason; whoever reads it in a report is told what would help."""
    _HELP[reason] = help
    return reason


# Reasons why readers leave out an example or a part of it.
NO_ID = "no question id"
REPEATED_ID = "question id seen before"
EMPTY_QUESTION = "empty question"
NO_ANSWER = "no answer given"
NO_DOCUMENT = "no document left"
EMPTY_DOCUMENT = "empty document"
MISSING_EVIDENCE = "evidence file missing"
SEVERAL_SPANS = with_help(
    "several answer spans required", "readers of several spans (taggings) are trained on them"
)
IMPOSSIBLE = with_help(
    "marked impossible to answer", "--windows.choices unknown makes that an answer (of spans only)"
)
NOT_ENUMERABLE = "question, table or answer beyond what Z can hold"
MISPLACED_MENTION = "annotated offset does not hold the answer"


class ExclusionCounts:
    """Counts by reason what a reader left out, so that nothing disappears silently.

    `add` counts an example that was not yielded. `warn` counts a defect of an example that
    *was* yielded without the faulty part, such as one of several files; `total` lacks warnings.

    Attributes:
        left_out: (id, reason) of every example left out, in order.

    Example:
        >>> skips = ExclusionCounts()
        >>> skips.add(NO_ANSWER, "q7")
        >>> skips.add(NO_ANSWER, "q9")
        >>> skips.left_out
        [('q7', 'no answer given'), ('q9', 'no answer given')]
        >>> skips.warn(MISSING_EVIDENCE, "q3: Rome.txt")
        >>> skips.total, skips.as_dict(), skips.warnings_as_dict()
        (2, {'no answer given': 2}, {'evidence file missing': 1})
        >>> print(skips)
        2 examples left out
          no answer given: 2 (q7, q9)
        1 warning on examples kept
          evidence file missing: 1 (q3: Rome.txt)
    """

    def __init__(self) -> None:
        self.left_out: list[tuple[str, str]] = []
        self.repetitions: list[tuple[str, Any]] = []
        # Reason -> ids, with notes.
        self._excluded: defaultdict[str, list[str]] = defaultdict(list)
        self._warned: defaultdict[str, list[str]] = defaultdict(list)
        self._seen: set[str] = set()

    def add(self, reason: str, id: str, note: str = "") -> None:
        """Counts the example `id` as left out for `reason`; `note` is shown with the id."""
        self._excluded[reason].append(f"{id}: {note}" if note else id)
        self.left_out.append((id, reason))

    def warn(self, reason: str, id: str) -> None:
        """Counts a defect of the example `id`, which is still used."""
        self._warned[reason].append(id)

    def repeated(self, id: str, golds: Any = None) -> bool:
        """Returns True, and counts the example as left out, if `id` was seen before.

        Answers are given by id, so only one of several questions with the same id can be used.
        An official evaluator may score its answer against the golds of each, which
        `repetitions` keeps.
        """
        if id in self._seen:
            self.add(REPEATED_ID, id)
            self.repetitions.append((id, golds))
            return True
        self._seen.add(id)
        return False

    @property
    def total(self) -> int:
        """Number of examples left out, over all reasons."""
        return sum(map(len, self._excluded.values()))

    def as_dict(self) -> dict[str, int]:
        """Reason -> number of examples left out, in order of first occurrence."""
        return {reason: len(ids) for reason, ids in self._excluded.items()}

    def warnings_as_dict(self) -> dict[str, int]:
        """Reason -> number of warnings on examples that were kept."""
        return {reason: len(ids) for reason, ids in self._warned.items()}

    def ids(self, reason: str) -> tuple[str, ...]:
        """The first ids left out for `reason`; if there are none, the first warned about."""
        return tuple((self._excluded.get(reason) or self._warned.get(reason, []))[:_SHOWN])

    def __str__(self) -> str:
        warnings = sum(map(len, self._warned.values()))
        lines = [f"{self.total} example{'s' * (self.total != 1)} left out"]
        lines += self._lines(self._excluded)
        if warnings:
            lines.append(f"{warnings} warning{'s' * (warnings != 1)} on examples kept")
        return "\n".join([*lines, *self._lines(self._warned)])

    def one_line(self) -> str:
        """Like ``str``, but on one line, to append to an error message."""
        return "; ".join(line.strip() for line in str(self).splitlines())

    def _lines(self, found: Mapping[str, list[str]]) -> list[str]:
        lines = []
        for reason, ids in sorted(found.items(), key=lambda item: -len(item[1])):
            some = ", ".join(map(printable, ids[:_SHOWN]))
            shown = f" ({some}{', ...' * (len(ids) > _SHOWN)})" if some else ""
            lines.append(f"  {reason}: {len(ids)}{shown}")
            if reason in _HELP:
                lines.append(f"    {_HELP[reason]}")
        return lines


def reasons(left_out: Iterable[tuple[str, str]], kept: Container[str]) -> dict[str, str]:
    """Id -> reason of every question that cannot be used; an official metric counts these, too.

    Args:
        left_out: (id, reason), as in `ExclusionCounts`. If an id has several reasons, the choice
            among them does not depend on their order. One without an id is listed by its place.
        kept: ids of the questions that are used; one that occurs again in the file is.

    Example:
        >>> reasons([("q1", REPEATED_ID), ("q2", NO_ANSWER)], kept={"q1"})
        {'q2': 'no answer given'}
    """
    found: dict[str, str] = {}
    for id, reason in sorted(left_out, key=lambda one: (one[1] == REPEATED_ID, one[1])):
        if id not in kept:
            found.setdefault(id, reason)
    return found


def size_summary(sizes: Sequence[int]) -> dict[str, float | int | None]:
    """Mean, median and maximum of |Z| over the questions that have a solution.

    Example:
        >>> size_summary([0, 1, 2, 6])
        {'mean': 3.0, 'median': 2.0, 'max': 6}
    """
    found = np.array([size for size in sizes if size])
    if not len(found):
        return {"mean": None, "median": None, "max": None}
    return {
        "mean": round(float(found.mean()), 2),
        "median": float(np.median(found)),
        "max": int(found.max()),
    }


def sizes(summary: Mapping[str, Any]) -> str:
    """Statistics of |Z| in a line.

    Example:
        >>> sizes({"mean": None, "median": None, "max": None})
        '|Z| per question: no question has a solution'
    """
    if summary["max"] is None:
        return "|Z| per question: no question has a solution"
    figures = (f"{name} {summary[name]}" for name in ("mean", "median", "max"))
    return f"|Z| per question: {', '.join(figures)}"
