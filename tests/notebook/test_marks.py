"""Texts with marks: nothing of the text is lost, everything is escaped, overlaps are shown."""

import random
from xml.etree.ElementTree import tostring

import pytest

from hardem_jax.notebook.marks import Mark, marked_text, segments
from hardem_jax.notebook.page import element
from tests.notebook.html_pages import Page

EVERY = frozenset(range(100))


def parsed(text, marks, listed=EVERY, strength=lambda indices: 1.0, **options) -> Page:
    block = marked_text(text, marks, listed, strength, **options)
    return Page(tostring(block, encoding="unicode", method="html"))


def test_overlapping_marks_are_cut_where_any_begins_or_ends():
    text = "New York City council"
    marks = [Mark(0, 13, (0,)), Mark(4, 8, (1,)), Mark(9, 21, (2,))]
    chances = (0.5, 0.25, 0.125)
    page = parsed(text, marks, strength=lambda indices: sum(chances[i] for i in indices))
    assert page.texts("div") == [text]
    found = [(n.text, n.classes - {"from", "to"}) for n in page.all("mark")]
    assert found == [
        ("New ", {"z0"}),
        ("York", {"z0", "z1"}),
        (" ", {"z0"}),
        ("City", {"z0", "z2"}),
        (" council", {"z2"}),
    ]
    shades = [n.attributes["style"].partition(";")[0] for n in page.all("mark")]
    assert shades == ["--p:0.500", "--p:0.750", "--p:0.500", "--p:0.625", "--p:0.125"]
    assert [n.attributes.get("data-z") for n in page.all("mark")] == ["0", "1", None, "2", None]
    assert [n.text for n in page.all("mark", "from")] == ["New ", "York", "City"]
    assert [n.text for n in page.all("mark", "to")] == ["York", "City", " council"]


def test_overlapping_marks_of_one_solution_are_shaded_once():
    asked = []
    parsed("abc", [Mark(0, 3, (0, 2)), Mark(1, 2, (1, 2))], strength=lambda i: asked.append(i) or 0)
    assert asked == [[0, 2], [0, 1, 2], [0, 2]]


def test_overlapping_marks_have_lines_of_their_own():
    page = parsed("abcdef", [Mark(0, 6, (0,)), Mark(1, 4, (1,)), Mark(2, 3, (2,))])
    lines = [n.attributes["style"].count("var(--line)") for n in page.all("mark")]
    assert lines == [1, 2, 3, 2, 1]
    # One that begins after the longest ended takes the line that became free.
    page = parsed("abcdef", [Mark(0, 3, (0,)), Mark(3, 6, (1,))])
    assert [n.attributes["style"].count("px") for n in page.all("mark")] == [1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_no_text_is_lost_whatever_overlaps(seed):
    rng = random.Random(seed)
    text = "".join(rng.choices("ab <>&\"'\n\té€😀\u0301", k=rng.choice((5, 60, 3000))))
    marks = []
    for index in range(rng.randrange(12)):
        start, end = sorted(rng.sample(range(len(text) + 1), 2))
        end = min(end, start + 30)
        marks.append(Mark(start, end, (index,)))
    page = parsed(text, marks)
    assert page.nodes[0].text == text
    for index, mark in enumerate(marks):
        covered = "".join(n.text for n in page.all("mark") if f"z{index}" in n.classes)
        assert covered == text[mark.start : mark.end]
    pieces = list(segments(len(text), marks))
    assert [a for a, _, _ in pieces] + [len(text)] == [0, *(b for _, b, _ in pieces)]


def test_long_stretches_are_folded_between_words():
    text = "word " * 1000 + "Rome" + " word" * 1000
    page = parsed(text, [Mark(5000, 5004, (0,))])
    assert page.nodes[0].text == text
    hidden = page.texts("details")
    assert len(hidden) == 2 and all(4000 < len(part) < 4700 for part in hidden)
    assert all(part.startswith(" word") and part.endswith("word ") for part in hidden)
    endless = parsed("x" * 2000, [])
    assert endless.nodes[0].text == "x" * 2000 and len(endless.texts("details")[0]) == 1520
    assert not parsed("word " * 100, []).all("details")


def test_only_solutions_of_the_list_light_up_and_labels_stay_short():
    page = parsed("Rome", [Mark(0, 4, tuple(range(60)))], frozenset({3, 7}))
    (mark,) = page.all("mark")
    assert {name for name in mark.classes if name.startswith("z")} == {"z3", "z7"}
    assert mark.attributes["data-z"] == "0,1,2…"
    (mark,) = parsed("Rome", [Mark(0, 4, (1,))], labelled=False).all("mark")
    assert "data-z" not in mark.attributes


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
        ("\ud800", "\ufffd"),
        ("a\tb\n", "a\tb\n"),
    ],
)
def test_what_html_cannot_hold_becomes_visible(text, shown):
    root = element("p", text, element("b", text), text, title=text)
    html = tostring(root, encoding="unicode", method="html")
    html.encode()
    page = Page(html)
    assert page.nodes[0].text == shown * 3
    assert page.nodes[0].attributes["title"] == shown


def test_texts_and_attributes_are_escaped():
    nasty = "\"><script>alert(1)</script><img src=x onerror=alert(1)>&amp;'"
    html = tostring(element("p", nasty, title=nasty), encoding="unicode", method="html")
    page = Page(html)
    assert [node.tag for node in page.nodes] == ["p"]
    assert page.nodes[0].text == page.nodes[0].attributes["title"] == nasty


def test_a_long_part_that_is_not_read_is_folded():
    text = "read. " + "word " * 400
    found = marked_text(text, [Mark(6, len(text), (), "unread")], frozenset(), lambda _: 0.0)
    assert found.find("span[@class='unread']/details") is not None
    assert "".join(found.itertext()).replace("1,521 characters", "").count("word") == 400
