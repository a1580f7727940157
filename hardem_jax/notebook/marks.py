"""A text with marked spans, which may overlap, as HTML."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Literal
from xml.etree.ElementTree import Element

from hardem_jax.notebook.page import append, element

# A longer stretch without marks is folded, all but this much at its ends.
_FOLD, _KEEP = 800, 240
_LABELS = 3
_LANES = 4

Look = Literal["solution", "candidate", "unread"]
Strength = Callable[[Sequence[int]], float]


@dataclasses.dataclass(frozen=True)
class Mark:
    """A span of a text that solutions use.

    Attributes:
        start, end: characters, end exclusive.
        solutions: indices of the solutions, in Z; none for a mere candidate.
        look: "solution"; "candidate", which no solution uses; "unread", which no solution could.
    """

    start: int
    end: int
    solutions: tuple[int, ...] = ()
    look: Look = "solution"


def segments(length: int, marks: Sequence[Mark]) -> Iterator[tuple[int, int, list[int]]]:
    """Cuts a text wherever a mark begins or ends.

    Yields:
        Start, exclusive end and the indices of the marks that cover all of it; together these
        are the whole text.

    Example:
        >>> list(segments(9, [Mark(2, 6), Mark(4, 9)]))
        [(0, 2, []), (2, 4, [0]), (4, 6, [0, 1]), (6, 9, [1])]
    """
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for index, mark in enumerate(marks):
        begins.setdefault(mark.start, []).append(index)
        ends.setdefault(mark.end, []).append(index)
    cuts = sorted({0, length, *begins, *ends})
    over: dict[int, None] = {}
    for start, end in zip(cuts, cuts[1:], strict=False):
        for index in ends.get(start, ()):
            del over[index]
        over |= dict.fromkeys(begins.get(start, ()))
        yield start, end, list(over)


def marked_text(
    text: str,
    marks: Sequence[Mark],
    listed: frozenset[int],
    strength: Strength,
    *,
    labelled: bool = True,
) -> Element:
    """A text with marks; its own characters stay as they are.

    Long stretches without a mark are folded until one clicks on them.

    Args:
        text: the text.
        marks: in any order, overlapping or not.
        listed: solutions that light up when one points at them in the list.
        strength: how strongly to shade what these solutions use, from 0 to 1.
        labelled: number the marks by the solutions that use them.
    """
    block = element("div", class_="text", dir="auto")
    lanes = _lanes(marks)
    for start, end, over in segments(len(text), marks):
        if over:
            covering = [(marks[index], lanes[index]) for index in over]
            found = _segment(text, start, end, covering, listed, strength, labelled)
            piece: list[Element | str] = [found]
        elif end - start > _FOLD:
            piece = _folded(text, start, end)
        else:
            piece = [text[start:end]]
        for child in piece:
            append(block, child)
    return block


def labels(indices: Sequence[int]) -> str:
    """A few indices in Z, in short.

    Example:
        >>> labels([0, 4]), labels(range(9))
        ('0,4', '0,1,2…')
    """
    return ",".join(map(str, indices[:_LABELS])) + "…" * (len(indices) > _LABELS)


def classes(indices: Sequence[int], *others: str) -> str:
    """Classes by which solutions of the list find their marks."""
    return " ".join([*others, *(f"z{i}" for i in indices)])


def _lanes(marks: Sequence[Mark]) -> list[int]:
    """Gives each mark a line of its own among those that it overlaps."""
    free: list[int] = []
    lanes = [0] * len(marks)
    for index in sorted(range(len(marks)), key=lambda i: (marks[i].start, -marks[i].end)):
        mark = marks[index]
        lane = next((n for n, until in enumerate(free) if until <= mark.start), len(free))
        free[lane : lane + 1] = [mark.end]
        lanes[index] = lane
    return lanes


def _segment(
    text: str,
    start: int,
    end: int,
    covering: list[tuple[Mark, int]],
    listed: frozenset[int],
    strength: Strength,
    labelled: bool,
) -> Element:
    solved = [(mark, lane) for mark, lane in covering if mark.look == "solution"]
    if not solved:
        plain = _folded(text, start, end) if end - start > _FOLD else [text[start:end]]
        return element("span", *plain, class_=covering[0][0].look)
    indices = sorted({i for mark, _ in solved for i in mark.solutions})
    begun = sorted({i for mark, _ in solved if mark.start == start for i in mark.solutions})
    used = {lane for _, lane in solved}
    # Shadows below the text are lines; the first of them is painted on top.
    lines = []
    for lane in range(min(max(used) + 1, _LANES)):
        color = "line" if lane in used else "bg"
        lines += [f"0 {3 * lane + 2}px 0 var(--{color})", f"0 {3 * lane + 3}px 0 var(--bg)"]
    found = element(
        "mark",
        text[start:end],
        class_=classes(
            [i for i in indices if i in listed],
            *["from"] * any(mark.start == start for mark, _ in solved),
            *["to"] * any(mark.end == end for mark, _ in solved),
        ),
        style=f"--p:{strength(indices):.3f};box-shadow:{','.join(lines[:-1])}",
        title=f"z{'s' * (len(indices) > 1)} {labels(indices)}",
    )
    if begun and labelled:
        found.set("data-z", labels(begun))
    return found


def _folded(text: str, start: int, end: int) -> list[Element | str]:
    """A long stretch: its ends, and what is between them on demand."""
    first = text.find(" ", start + _KEEP, end - _KEEP)
    last = text.rfind(" ", start + _KEEP, end - _KEEP) + 1
    if first < 0 or last <= first:  # one endless word
        first, last = start + _KEEP, end - _KEEP
    hidden = text[first:last]
    summary = element("summary", f"{len(hidden):,} characters")
    return [text[start:first], element("details", summary, hidden), text[last:end]]
