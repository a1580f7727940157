"""A record as HTML without network or scripts: a ``<div>`` with its own style.

Every text and attribute is escaped by `tag`, the only place where elements are written.
"""

from __future__ import annotations

import functools
import html
import importlib.resources
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from hardem_jax.show.record import Mark, Record, Text, count, segments

#: Solutions of the list that light up in the text; all others are there, too, but folded.
LISTED = 20
#: Solutions of the list; beyond, it says how many more there are.
SHOWN = 400
#: Rows of a table; of a larger one, those that solutions use.
ROWS = 40

# A longer stretch without marks is folded, all but this much at its ends; without a solution, it is
# what one came to read.
_FOLD, _FOLD_WITHOUT, _KEEP = 800, 12_000, 240
_LABELS = 3
_LANES = 4

# HTML has no characters for these: a picture of each control character, and "�" for half a pair and
# for controls of Latin-1, whose references HTML takes for those of Windows.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"}
_PICTURES |= {0x7F: "\u2421"} | dict.fromkeys(
    [*range(0x80, 0xA0), *range(0xD800, 0xE000)], "\ufffd"
)


class Html(str):
    """What `tag` has written."""

    __slots__ = ()


def visible(text: str) -> str:
    """A text as HTML can hold it, of the same length."""
    return text.translate(_PICTURES)


def tag(name: str, *children: str, **attributes: str) -> Html:
    """An element; texts among the children are escaped, and empty attributes left out.

    Example:
        >>> tag("p", "1 < 2, ", tag("b", "so"), class_="x", title="")
        "<p class='x'>1 &lt; 2, <b>so</b></p>"
    """
    names = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    head = "".join(
        f" {key}='{html.escape(visible(value))}'" for key, value in names.items() if value
    )
    return Html(f"<{name}{head}>{_joined(children)}</{name}>")


def as_html(record: Record) -> str:
    """The page of a question; the last moment of its record shades what is read."""
    notes = [f"Answer: {record.answer}"] if record.answer else []
    notes += record.notes
    if record.moments and (record.texts or record.table):
        notes.append("The shade is the probability that the solution uses it.")
    if any(moment.step for moment in record.moments):
        notes.append("P(z | x) by training step. Frame: the prediction.")
    body, sets = content(record)
    head = [tag("p", record.title, class_="title"), *(tag("p", n, class_="note") for n in notes)]
    inside = _joined([*head, body])
    # The same record gives the same page, so that a notebook run again shows no difference.
    id = f"hz-{zlib.crc32(inside.encode()):08x}"
    style = Html(f"<style>{style_sheet()}{_links(id, record.order(), sets)}</style>")
    return tag("div", style, inside, class_="hardem-z", id=id)


def document(title: str, fragment: str) -> str:
    """A page as a file of its own."""
    head = "<meta charset='utf-8'>" + tag("title", title)
    head += "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    head += "<meta name='color-scheme' content='light dark'>"
    return f"<!doctype html>\n{head}\n{fragment}\n"


def content(record: Record, *, shown: int = SHOWN) -> tuple[Html, list[tuple[int, ...]]]:
    """Texts, table and list of a record, and its sets of solutions.

    An element that solutions use names its set by ``data-z``, and by ``data-p`` the set whose
    probability is its shade; a row of the list names its solution by ``data-of``, a part of
    predictions these by ``data-said``. At most ``shown`` solutions are listed.
    """
    sets: dict[tuple[int, ...], int] = {}

    def number(places: Sequence[int]) -> str:
        return str(sets.setdefault(tuple(places), len(sets)))

    blocks = [block for text in record.texts for block in _text(record, text, number)]
    if record.table is not None:
        rows = count(len(record.table.rows), "row")
        blocks.append(tag("p", f"Table of {rows}", class_="label"))
        blocks.append(tag("div", _table(record, number), class_="rows", tabindex="0"))
    blocks.append(_solutions(record, shown))
    return _joined(blocks), list(sets)


@functools.cache
def style_sheet() -> str:
    """The style of all pages."""
    return (importlib.resources.files("hardem_jax.show") / "style.css").read_text("utf-8")


def _joined(children: Sequence[str]) -> Html:
    texts = (x if isinstance(x, Html) else html.escape(visible(x), quote=False) for x in children)
    return Html("".join(texts))


def _links(id: str, order: Sequence[int], sets: Sequence[tuple[int, ...]]) -> str:
    """Style that lights up the parts of the solution that one points at in the list."""
    lines = []
    for place in order[:LISTED]:
        own = ",".join(f'[data-z="{n}"]' for n, places in enumerate(sets) if place in places)
        if own:
            pointed = f'#{id}:has([data-of="{place}"]:is(:hover,:focus))'
            lines.append(f"{pointed} :is({own}){{outline:2px solid var(--hot)}}\n")
    return "".join(lines)


def _numbers(record: Record, places: Sequence[int]) -> str:
    few = ",".join(str(record.solutions[place].number) for place in places[:_LABELS])
    return few + "…" * (len(places) > _LABELS)


def _shade(value: float) -> str:
    return f"--p:{value:.3g}"


# --- texts ---


def _text(record: Record, text: Text, number: Callable[[Sequence[int]], str]) -> Iterator[Html]:
    """A text with marks; its own characters stay as they are."""
    if text.label:
        yield tag("p", text.label, class_="label")
    lanes = _lanes(text.marks)
    longest = _FOLD if record.solutions else _FOLD_WITHOUT
    pieces: list[str] = []
    for start, end, over in segments(len(text.text), text.marks):
        covering = [(text.marks[index], lanes[index]) for index in over]
        solved = [(mark, lane) for mark, lane in covering if mark.look == "solution"]
        numbers = (n for mark, _ in covering if mark.look == "predicted" for n in mark.solutions)
        said = " ".join(map(str, numbers))
        piece = text.text[start:end]
        if solved:
            pieces.append(_mark(record, piece, (start, end), solved, text.numbered, number, said))
        elif covering:
            looks = next((mark.look for mark, _ in covering if mark.look != "predicted"), "")
            pieces.append(tag("span", *_folded(piece, longest), class_=looks, data_said=said))
        else:
            pieces += _folded(piece, longest)
    yield tag("div", *pieces, class_="text", dir="auto")


def _mark(
    record: Record,
    piece: str,
    span: tuple[int, int],
    solved: list[tuple[Mark, int]],
    numbered: bool,
    number: Callable[[Sequence[int]], str],
    said: str,
) -> Html:
    places = sorted({place for mark, _ in solved for place in mark.solutions})
    begun = sorted({p for mark, _ in solved if mark.start == span[0] for p in mark.solutions})
    lanes = {lane for _, lane in solved}
    # Shadows below the text are lines; the first of them is painted on top.
    lines = []
    for lane in range(min(max(lanes) + 1, _LANES)):
        color = "line" if lane in lanes else "bg"
        lines += [f"0 {3 * lane + 2}px 0 var(--{color})", f"0 {3 * lane + 3}px 0 var(--bg)"]
    ends = ["from"] * any(mark.start == span[0] for mark, _ in solved)
    ends += ["to"] * any(mark.end == span[1] for mark, _ in solved)
    own = number(places)
    return tag(
        "mark",
        piece,
        class_=" ".join(ends),
        data_z=own,
        data_p=own,
        data_said=said,
        data_label=_numbers(record, begun) if begun and numbered else "",
        style=f"{_shade(record.strength(places))};box-shadow:{','.join(lines[:-1])}",
        title=f"z{'s' * (len(places) > 1)} {_numbers(record, places)}",
    )


def _lanes(marks: Sequence[Mark]) -> list[int]:
    """Gives each mark a line of its own among those that it overlaps."""
    free: list[int] = []
    lanes = [0] * len(marks)
    solved = [index for index, mark in enumerate(marks) if mark.look == "solution"]
    for index in sorted(solved, key=lambda i: (marks[i].start, -marks[i].end)):
        mark = marks[index]
        lane = next((n for n, until in enumerate(free) if until <= mark.start), len(free))
        free[lane : lane + 1] = [mark.end]
        lanes[index] = lane
    return lanes


def _folded(text: str, longest: int) -> list[str]:
    """A text; of a long one its ends, and what is between them on demand."""
    if len(text) <= longest:
        return [text]
    first = text.find(" ", _KEEP, len(text) - _KEEP)
    last = text.rfind(" ", _KEEP, len(text) - _KEEP) + 1
    if first < 0 or last <= first:  # one endless word
        first, last = _KEEP, len(text) - _KEEP
    hidden = text[first:last]
    summary = tag("summary", f"{len(hidden):,} characters")
    return [text[:first], tag("details", summary, hidden), text[last:]]


# --- tables ---


def _table(record: Record, number: Callable[[Sequence[int]], str]) -> Html:
    """The table; shaded cells are selected by solutions, underlined ones are compared."""
    table = record.table
    assert table is not None
    # (row, column) -> the solutions that select the cell, and those that compare it; head: row -1.
    selected: dict[tuple[int, int], list[int]] = {}
    compared: dict[tuple[int, int], list[int]] = {}
    for place, entry in enumerate(record.solutions):
        if entry.cells is None:
            continue
        for column, rows, uses in (
            (entry.cells.select, entry.cells.rows, selected),
            *((column, rows, compared) for column, rows in entry.cells.compared),
        ):
            for row in rows if column < 0 else (-1, *rows):
                own = uses.setdefault((row, column), [])
                if own[-1:] != [place]:
                    own.append(place)

    def cell(name: str, row: int, column: int, *inside: str, kind: str = "") -> Html:
        solved, asked = selected.get((row, column), []), compared.get((row, column), [])
        kinds = ["used"] * bool(solved) + ["asked"] * bool(asked) + [kind] * bool(kind)
        return tag(
            name,
            *inside,
            class_=" ".join(kinds),
            data_z=number(sorted({*solved, *asked})) if solved or asked else "",
            data_p=number(solved) if solved else "",
            style=_shade(record.strength(solved)) if solved else "",
        )

    kinds = ["number" if numeric else "" for numeric in table.numeric]
    heads = [tag("th")]
    for column, (head, name) in enumerate(zip(table.header, table.names, strict=True)):
        # Where solutions have another name for a column, it is there, too.
        other = [] if name == head else [" ", tag("span", name, class_="note")]
        heads.append(cell("th", -1, column, head, *other, kind=kinds[column]))
    width = len(heads)

    def skipped(rows: int) -> list[Html]:
        text = f"… {count(rows, 'row')} …"
        return [tag("tr", tag("td", text, class_="skipped", colspan=str(width)))] if rows else []

    body, previous = [], -1
    for row in _rows_in_use(record, len(table.rows)):
        body += skipped(row - previous - 1)
        cells = [cell("th", row, -1, str(row), kind="index")]
        for column, value in enumerate(table.rows[row]):
            text = tag("span", "NULL", class_="null") if value is None else value
            cells.append(cell("td", row, column, text, kind=kinds[column]))
        body.append(tag("tr", *cells))
        previous = row
    body += skipped(len(table.rows) - previous - 1)
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body))


def _rows_in_use(record: Record, total: int) -> list[int]:
    """The rows to show: those of results first. A set of many rows says little of any of them."""
    if total <= ROWS:
        return list(range(total))
    cells = [entry.cells for entry in record.solutions if entry.cells is not None]
    results = {row for one in cells if len(one.rows) <= ROWS for row in one.rows}
    near = {row for one in cells for _, rows in one.compared if len(rows) <= ROWS for row in rows}
    wanted = list(dict.fromkeys([*sorted(results), *sorted(near)]))
    return sorted(wanted[:ROWS]) or list(range(ROWS))


# --- the list of solutions ---


def _solutions(record: Record, most: int) -> Html:
    """Index, text, place and probabilities of the solutions, the most likely first."""
    shown = record.order()[:most]
    if not shown and not record.outside():
        return Html("")
    parts = [_heads(record), _rows(record, shown[:LISTED])]
    more, left_out = shown[LISTED:], len(record.solutions) - len(shown)
    if more:
        parts.append(_rows(record, more, class_="rest"))
    if others := record.outside():
        parts.append(tag("tbody", *(_outside(record, text) for text in others), class_="outside"))
    blocks = [tag("table", *parts)]
    if more:
        blocks.append(tag("details", tag("summary", f"{len(more):,} more")))
    if left_out:
        text = f"{left_out:,} more are not shown; iterate over Z for all."
        blocks.append(tag("p", text, class_="note"))
    return tag("div", *blocks, class_="list")


def _heads(record: Record) -> Html:
    """Runs and training steps above the probabilities."""
    if not any(moment.step for moment in record.moments):
        return Html("")
    groups = Counter(moment.run for moment in record.moments)
    first = [tag("th", run, class_="group", colspan=str(n)) for run, n in groups.items()]
    second = [tag("th", moment.step, class_="chance") for moment in record.moments]
    blank = tag("th", colspan="3")
    return tag("thead", tag("tr", blank, *first), tag("tr", blank, *second))


def _rows(record: Record, places: Sequence[int], **attributes: str) -> Html:
    rows = []
    for place in places:
        entry = record.solutions[place]
        spaced: list[str] = [entry.place]
        if "-" in entry.place:  # lines break between places, not at hyphens
            chunks = [tag("span", chunk) for chunk in re.split("(?<=,) ", entry.place)]
            spaced = [part for chunk in chunks for part in (chunk, " ")][:-1]
        rows.append(
            tag(
                "tr",
                tag("td", str(entry.number), class_="index"),
                tag("td", tag("code", entry.text), class_="z"),
                tag("td", *spaced, class_="place"),
                *(_chance(m.probabilities[place], m.predicted == place) for m in record.moments),
                class_="true" if place == record.true else "",
                data_of=str(place),
                tabindex="0",
            )
        )
    return tag("tbody", *rows, **attributes)


def _outside(record: Record, text: str) -> Html:
    """A prediction that is no solution; its probability is known where it was predicted."""
    cells = []
    for moment in record.moments:
        here = moment.predicted < 0 and moment.prediction == text
        cells.append(_chance(moment.probability if here else None, here))
    blank, place = tag("td"), tag("td", "not in Z", class_="place")
    return tag("tr", blank, tag("td", tag("code", text), class_="z"), place, *cells)


def _chance(value: float | None, predicted: bool) -> Html:
    kinds = "chance predicted" if predicted else "chance"
    if value is None:
        return tag("td", class_=kinds)
    return tag("td", f"{value:.3f}", class_=kinds, style=_shade(value))
