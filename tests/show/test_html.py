"""A record as HTML: nothing of a text is lost, everything is escaped, overlaps are shown."""

import random

import pytest

from hardem_jax.show.html import as_html, tag
from hardem_jax.show.record import (
    ROW_NUMBER,
    Cells,
    Entry,
    Mark,
    Moment,
    Record,
    Text,
    record_of_views,
    segments,
)
from hardem_jax.tables.show import grid
from hardem_jax.tables.table import Table
from tests.show.html_pages import Page, view


def parsed(text, marks, chances=None, numbered=True):
    count = max((1 + z for mark in marks for z in mark.solutions), default=1)
    moments = [] if chances is None else [Moment(chances)]
    entries = [Entry(z, f"z{z}") for z in range(count)]
    shown = Text("", text, marks, numbered)
    record = Record(title="t", solutions=entries, size=count, texts=[shown], moments=moments)
    return Page(as_html(record))


def text_of(page):
    [text] = page.texts("div", "text")
    return text


def parts(page, solution):
    """What lights up when one points at a solution of the list: a rule names it."""
    [style] = page.texts("style")
    [rule] = [line for line in style.splitlines() if f'[data-of="{solution}"]' in line]
    return [n for n in page.nodes if f'[data-z="{n.attributes.get("data-z")}"]' in rule]


def test_overlapping_marks_are_cut_where_any_begins_or_ends():
    text = "New York City council"
    marks = [Mark(0, 13, (0,)), Mark(4, 8, (1,)), Mark(9, 21, (2,))]
    page = parsed(text, marks, (0.5, 0.25, 0.125))
    assert text_of(page) == text
    assert page.texts("mark") == ["New ", "York", " ", "City", " council"]
    assert [n.text for n in parts(page, 0)] == ["New ", "York", " ", "City"]
    assert [n.text for n in parts(page, 2)] == ["City", " council"]
    assert [n.shade for n in page.all("mark")] == [0.5, 0.75, 0.5, 0.625, 0.125]
    assert [n.attributes.get("data-label") for n in page.all("mark")] == ["0", "1", None, "2", None]
    assert [n.text for n in page.all("mark", "from")] == ["New ", "York", "City"]
    assert [n.text for n in page.all("mark", "to")] == ["York", "City", " council"]


@pytest.mark.parametrize("seed", range(20))
def test_no_text_is_lost_whatever_overlaps(seed):
    rng = random.Random(seed)
    text = "".join(rng.choices("ab <>&\"'\n\té€😀\u0301", k=rng.choice((5, 60, 3000))))
    marks = []
    for index in range(rng.randrange(12)):
        start, end = sorted(rng.sample(range(len(text) + 1), 2))
        marks.append(Mark(start, min(end, start + 30), (index,)))
    page = parsed(text, marks)
    assert text_of(page) == text
    for index, mark in enumerate(marks):
        assert "".join(n.text for n in parts(page, index)) == text[mark.start : mark.end]
    pieces = list(segments(len(text), marks))
    assert [a for a, _, _ in pieces] + [len(text)] == [0, *(b for _, b, _ in pieces)]


def test_long_stretches_are_folded_between_words():
    text = "word " * 1000 + "Rome" + " word" * 1000
    page = parsed(text, [Mark(5000, 5004, (0,))])
    assert text_of(page) == text
    hidden = page.texts("details")
    assert len(hidden) == 2 and all(4000 < len(part) < 4700 for part in hidden)
    assert all(part.startswith(" word") and part.endswith("word ") for part in hidden)
    endless = parsed("x" * 2000, [])
    assert text_of(endless) == "x" * 2000 and len(endless.texts("details")[0]) == 1520
    assert not parsed("word " * 100, []).all("details")
    [inside] = parsed("read. " + "word " * 400, [Mark(6, 2006, look="unread")]).all("details")
    assert inside.parents[-1].classes == {"unread"}


def test_candidates_and_what_was_not_read_are_no_marks():
    marks = [Mark(0, 2, look="candidate"), Mark(3, 9, look="unread"), Mark(4, 5, (0,))]
    page = parsed("41 of 38!", marks)
    assert page.texts("span", "candidate") == ["41"]
    assert page.texts("span", "unread") == ["o", " 38!"]
    assert page.texts("mark") == ["f"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", "a\u2400b"),
        ("\x1b[31m", "\u241b[31m"),
        ("\ud800\x85", "\ufffd\ufffd"),
        ("a\tb\n", "a\tb\n"),
        ("\"><script>alert(1)</script><img src=x onerror='alert(1)'>&amp;'", None),
    ],
)
def test_what_html_cannot_hold_becomes_visible_and_the_rest_is_escaped(text, shown):
    html = tag("p", text, tag("b", text), text, title=text)
    html.encode()
    page = Page(html)
    assert [node.tag for node in page.nodes] == ["p", "b"]
    assert page.nodes[0].text == (shown or text) * 3
    assert page.nodes[0].attributes["title"] == (shown or text)


TABLE = Table("t", ("n", "who"), ("real", "text"), ((1, "<b>"), (None, "x"), (3, "y")))


def test_cells_are_selected_or_compared_by_solutions():
    entries = [
        Entry(0, "a", cells=Cells(1, [0], [(0, [0, 2])])),
        Entry(1, "b", cells=Cells(ROW_NUMBER, [1, 2], [])),
        Entry(2, "c"),
    ]
    chances = [Moment([0.5, 0.25, 0.125])]
    page = Page(
        as_html(Record(title="t", solutions=entries, size=3, table=grid(TABLE), moments=chances))
    )
    assert page.texts("td", "used") == ["<b>"] and page.texts("td", "asked") == ["1", "3"]
    assert page.texts("span", "null") == ["NULL"] and not page.all("b")
    heads = [(n.text, n.shade) for n in page.all("th", "used")]
    assert heads == [("who", 0.5), ("1", 0.25), ("2", 0.25)]
    assert [n.text for n in parts(page, 0)] == ["n", "who", "1", "<b>", "3"]
    assert [n.text for n in parts(page, 1)] == ["1", "2"]


def test_of_a_large_table_the_rows_that_matter_are_shown():
    table = Table("t", ("n",), ("real",), tuple((i,) for i in range(120)))
    cells = [Cells(0, range(120), []), Cells(0, [88], [(0, [17, 90])])]
    entries = [Entry(z, "z", cells=own) for z, own in enumerate(cells)]
    page = Page(as_html(Record(title="t", solutions=entries, size=2, table=grid(table))))
    assert page.texts("th", "index") == ["17", "88", "90"]
    assert page.texts("td", "skipped") == ["… 17 rows …", "… 70 rows …", "… 1 row …", "… 29 rows …"]
    page = Page(as_html(Record(title="t", solutions=entries[:1], size=1, table=grid(table))))
    assert page.texts("td", "skipped") == ["… 80 rows …"]


def test_training_steps_are_columns_and_predictions_are_framed():
    one = view([0.25, 0.5, 0.125], 1, true=0)
    two = view([0.0, 0.125, 0.75], -1, "<other>", true=0)
    page = Page(as_html(record_of_views({"MML": {100: one, 1000: two}, "Hard EM": {100: one}})))
    groups = [(n.text, n.attributes["colspan"]) for n in page.all("th", "group")]
    assert groups == [("MML", "2"), ("Hard EM", "1")]
    assert page.texts("th", "chance") == ["100", "1,000", "100"]
    # The most likely on average come first, predictions outside Z last.
    assert page.texts("code") == ["z1", "z2", "z0", "<other>"]
    chances = page.texts("td", "chance")
    assert chances[:3] == ["0.500", "0.125", "0.500"] and chances[9:] == ["", "0.500", ""]
    assert [n.text for n in page.all("td", "predicted")] == ["0.500", "0.500", "0.500"]
    [true] = page.all("tr", "true")
    assert true.attributes["data-of"] == "0" and "Answer: Ann" in page.texts("p", "note")
