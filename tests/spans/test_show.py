"""Mentions to look at: those of a build, as a sequence, in a terminal, as HTML."""

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax import find_spans
from hardem_jax.errors import InputError
from tests.processes import modules_loaded_by
from tests.show.html_pages import Page

TEXT = 'The "New York City" council of New York.'
ALIASES = ["New York City", "York", "city council"]


def test_a_z_is_a_sequence():
    z = find_spans(TEXT, ALIASES)
    assert len(z) == 4 and z
    assert [span.text for span in z] == ["New York City", "York", 'City" council', "York"]
    assert all(TEXT[span.start : span.end] == span.text for span in z)
    assert z[-1] is z.solutions[-1] and z[np.int64(1)] == z[1]
    assert [span.start for span in z[1:3]] == [z[1].start, z[2].start]
    assert type(z[1:3]) is type(z) and z[1:3].document == TEXT
    assert z == find_spans(TEXT, ALIASES) != find_spans(TEXT, ["York"])
    assert z[1] in z and z.index(z[2]) == 2
    with pytest.raises(IndexError):
        z[4]
    assert find_spans(TEXT, "York").solutions == find_spans(TEXT, ["York"]).solutions


@pytest.mark.parametrize(("text", "aliases"), [(None, ["a"]), ("a", [None]), ("a", 7)])
def test_wrong_arguments_are_named(text, aliases):
    with pytest.raises(TypeError, match="^(text|aliases): expected"):
        find_spans(text, aliases)


def test_without_a_mention_it_says_so():
    z = find_spans("Nothing <here>.", ["Rome", "Roma"])
    assert not z and len(z) == 0
    assert str(z) == "0 spans in 15 characters\n  No mention of 'Rome', 'Roma'."
    page = Page(z._repr_html_())
    assert page.texts("div", "text") == ["Nothing <here>."] and not page.all("mark")
    assert "No mention of 'Rome', 'Roma'." in page.texts("p", "note")


def test_the_terminal_shows_a_line_a_solution():
    assert repr(find_spans(TEXT, ALIASES)).splitlines() == [
        "4 spans in 40 characters",
        "  [0]  New York City  5-18",
        "  [1]  York           9-13",
        '  [2]  City" council  14-27',
        "  [3]  York           35-39",
    ]


@pytest.mark.parametrize("convert", [list, np.array, jnp.array, tuple])
def test_probabilities_order_and_shade(convert):
    z = find_spans(TEXT, ALIASES).with_probabilities(convert([0.125, 0.5, 0.0, 0.25]))
    assert [span.probability for span in z] == [0.125, 0.5, 0.0, 0.25]
    assert [line.split()[0] for line in str(z).splitlines()[1:]] == ["[1]", "[3]", "[0]", "[2]"]
    page = Page(z._repr_html_())
    assert page.texts("td", "index") == ["1", "3", "0", "2"]
    assert page.texts("td", "chance") == ["0.500", "0.250", "0.125", "0.000"]
    # The first "York" is in two spans; together they are as probable as the shade says.
    assert [node.shade for node in page.all("mark")] == [0.125, 0.625, 0.125, 0.125, 0.0, 0.25]


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5], r"expected 4, found shape \(1,\)"),
        (0.5, r"expected 4, found shape \(\)"),
        ([-3.0, -1.0, -2.0, -4.0], "expected numbers from 0 to 1, found -3.0"),
        (["a", "b", "c", "d"], "expected 4 numbers, found what is no array"),
    ],
)
def test_what_is_no_probability_is_refused(probabilities, message):
    with pytest.raises(InputError, match=message):
        find_spans(TEXT, ALIASES).with_probabilities(probabilities)


def test_a_page_holds_its_text_its_list_and_nothing_from_outside():
    nasty = "<script>Rome</script> & <b onclick='x'>Rome</b> \u202eemoR "
    z = find_spans(nasty, "Rome").with_probabilities([0.25, 0.5])
    html = z._repr_html_()
    page = Page(html)
    assert page.texts("div", "text") == [nasty]
    assert page.texts("mark") == ["Rome", "Rome"]
    assert {node.tag for node in page.nodes}.isdisjoint({"script", "b", "link", "img", "iframe"})
    assert "http" not in html and "@import" not in html and "url(" not in html
    assert html == z._repr_html_()
    # Every rule that lights up a mark has a row in the list, and its page's own id.
    (id,) = {node.attributes["id"] for node in page.nodes if "id" in node.attributes}
    rows = [node.attributes["data-of"] for node in page.all("tr")]
    assert rows == ["1", "0"] and all(f'#{id}:has([data-of="{i}"]' in html for i in rows)


def test_a_long_list_is_folded_and_bounded():
    html = find_spans("a b " * 3000, "b")._repr_html_()
    page = Page(html)
    rows = page.all("tr")
    folded = [row for row in rows if "rest" in row.parents[-1].classes]
    assert (len(rows), len(folded)) == (400, 380)
    assert html.count(":has([data-of=") == 20 and ".list:not(:has(details[open])) .rest" in html
    assert "2,600 more are not shown; iterate over Z for all." in page.texts("p", "note")
    assert len(page.all("mark")) == 3000
    assert len(html) < 1_000_000


def test_spans_need_nothing_but_numpy():
    code = "from hardem_jax import find_spans; find_spans('a', 'a')._repr_html_()"
    loaded = modules_loaded_by(code)
    assert "numpy" in loaded and loaded.isdisjoint({"jax", "ijson", "grain", "tensorflow_datasets"})


def test_a_saved_page_is_a_file_of_its_own(tmp_path):
    z = find_spans("<Café> \ud800 Café", "café")
    z.save(tmp_path / "z.html")
    written = (tmp_path / "z.html").read_text(encoding="utf-8")
    page = Page(written)
    assert written.startswith("<!doctype html>\n") and page.texts("title") == [
        "2 spans in 13 characters"
    ]
    assert page.nodes[0].attributes == {"charset": "utf-8"}
    assert page.texts("div", "text") == ["<Café> \ufffd Café"]
    with pytest.raises(InputError, match="expected a file to write to, found a folder"):
        z.save(tmp_path)


def test_an_empty_slice_says_nothing_of_the_document():
    assert str(find_spans("Cher met Cher.", ["Cher"])[5:]) == "0 spans in 14 characters"
    assert "There is no alias to look for." in str(find_spans("Cher met Cher.", []))
