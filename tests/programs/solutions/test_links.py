"""Links: how spans of the question are understood, and which conditions there are."""

import dataclasses
import unicodedata

import pytest

from hardem_jax.errors import InputError
from hardem_jax.programs.solutions.links import find_links, span_numbers
from hardem_jax.programs.solutions.parts import text_key
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.tables.table import Table, split_words

HEADER = ("name", "when", "size", "note")
RIDERS = Table(
    "1",
    HEADER,
    ("text", "text", "real", "text"),
    (
        ("Ann (Russia)", "May 3, 1990", 5.0, ""),
        ("Bo, Cy", "July 7, 1991", 1990.0, "2:05"),
        ("Di Beyoncé", "", 2.5e6, "won"),
        ("Total", "", 7.0, "third"),
    ),
)


def conditions(question, table=RIDERS, **rules):
    """Readable conditions and the numbers of their rows."""
    links = find_links(program_table(table), question, split_words(question), ProgramRules(**rules))
    return {
        links.link(index).text(table.header): [r for r in range(9) if mask >> r & 1]
        for index, mask in enumerate(links.masks)
    }


@pytest.mark.parametrize(
    ("question", "condition", "rows"),
    [
        ("where is ann?", "name contains 'ann'", [0]), ("where is ann?", "name.first = 'ann'", [0]),
        ("is di beyonce there?", "name = 'di beyonce'", [2]),
        ("is cy there?", "name.item = 'cy'", [1]),
        ("which Russian?", "name.second = 'russia'", [0]),
        ("who was a winner?", "note = 'win'", [2]), ("who came 3rd?", "note = '3'", [3]),
        ("five?", "size.number = 5", [0]), ("5?", "size.number > 5", [1, 2]),
        ("1,990?", "size.number >= 1990", [1, 2]), ("2.5 million?", "size.number = 2500000", [2]),
        ("one million?", "size.number < 1000000", [0, 1]), ("6km?", "size.number < 6", [0]),
        ("in 1990?", "when.year = 1990", [0]), ("in 1990?", "when.year > 1990", [1]),
        ("in july?", "when.month = 7", [1]), ("may 3, 1990?", "when.date > 726590", [1]),
        ("2:05?", "note.time = 125", [1]), ("over two minutes?", "note.time > 120", [1]),
        ("many bos?", "name.first = 'bo'", [1]), ("which is second?", "row number = 2", [1]),
        ("the total?", "name = 'total'", [3]), ("", "when empty", [2]),
        ("", "when not empty", [0, 1]),
    ],
)  # fmt: skip
def test_what_a_span_means(question, condition, rows):
    assert conditions(question).get(condition, []) == rows


@pytest.mark.parametrize("question", ["Where is José?", "José or Ann?", "a José Náñez of Brěclav"])
def test_accents_may_be_characters_of_their_own(question):
    names = ("José", "Ann", "Náñez", "Brěclav")
    table = Table("1", ("name",), ("text",), tuple((name,) for name in names))
    found = conditions(unicodedata.normalize("NFC", question), table)
    assert len(found) > 1
    assert conditions(unicodedata.normalize("NFD", question), table) == found


@pytest.mark.parametrize("word", ["कुल", "कल", "ガス", "カス", "ปี", "ปู"])
def test_marks_that_make_another_word_count(word):
    table = Table("1", ("name",), ("text",), tuple((x,) for x in "कुल कल ガス カス ปี ปู".split()))
    same = [row for row, (name,) in enumerate(table.rows) if name == word]
    assert conditions(f"points of {word}", table)[f"name = '{text_key(word)}'"] == same
    english = f"name = '{text_key('イギリス人')}'"
    assert conditions(f"イギリスの {word}", names("イギリス人", word))[english] == [0]


@pytest.mark.parametrize("number", ["9" * 305 + " million", "9" * 400, "9" * 400 + " hours"])
def test_numbers_beyond_float64_are_no_values(number):
    assert conditions(f"over {number} or 5?")["size.number = 5"] == [0]
    assert span_numbers(number, text_key(number)) == {}


def test_a_link_holds_for_some_rows_but_not_for_all():
    question = "5 or 0 or 9,000,000 or ann or 1990 in may?"
    for rows in conditions(question).values():
        assert rows and not {0, 1, 2} <= set(rows)


def test_more_columns_than_a_field_can_count_are_refused():
    for columns in (2519, 2520):
        rows = [tuple(f"{row} x" for _ in range(columns)) for row in range(2)]
        table = program_table(Table("1", ("c",) * columns, ("text",) * columns, tuple(rows)))
        call = table, "1 x?", split_words("1 x?"), ProgramRules()
        if columns == 2519:
            assert find_links(*call).masks
    with pytest.raises(InputError, match="table: expected at most 2519 columns, found 2520"):
        find_links(*call)


def test_what_is_said_of_numbers():
    """Total rows are left out; of operators with the same rows, one is a link."""
    found = {text: rows for text, rows in conditions("3000?").items() if "size" in text}
    assert found == {"size.number > 3000": [2], "size.number < 3000": [0, 1]}
    assert conditions("over 6?")["size.number > 6"] == [1, 2]
    assert "size.number = 7" not in conditions("7?")
    for question in ("15?", "x1,990", "1,990.5", "-5", "#15"):
        assert not {"size.number = 5", "size.number = 1990"} & conditions(question).keys()


def names(*cells):
    return Table("1", ("name",), ("text",), tuple((cell,) for cell in cells))


def test_contains_stands_for_what_it_shares_with_unequal():
    """Or "or" and "and not", which take no "!=", would lose it."""
    found = conditions("the open?", names("open", "french open", "swiss open"))
    assert found["name contains 'open'"] == [1, 2] and "name != 'open'" not in found


def test_a_total_row_makes_no_link_of_what_holds_for_all_others():
    teams = Table("1", ("who", "team"), ("text", "text"), (("ann", "usa"), ("bo", "usa")))
    for table in (teams, dataclasses.replace(teams, rows=(*teams.rows, ("total", "usa")))):
        assert not [text for text in conditions("from usa?", table) if "usa" in text]


def test_function_words_are_no_values():
    table = Table("1", ("a",), ("text",), (("the",), ("of the",), ("and",), ("a b",)))
    assert conditions("the of the and a?", table) == {}


@pytest.mark.parametrize(
    ("rule", "operators"),
    [
        ("inclusive", (">=", "<=")),
        ("negation", ("!=",)),
        ("contains", ("contains",)),
        ("empty", ("empty", "not empty")),
    ],
)
def test_rules_leave_out_operators(rule, operators):
    question = "5, 1990, may or bo, cy with ann?"
    found, fewer = conditions(question), conditions(question, RIDERS, **{rule: False})
    lost = found.keys() - fewer.keys()
    assert lost and all(any(f" {name}" in condition for name in operators) for condition in lost)
    assert not any(f" {name}" in condition for condition in fewer for name in operators)


def test_words_for_true_and_false():
    for question, truths in {
        "is it so?": ("yes", "no"),
        "is it more?": ("yes", "no"),
        "more or less than bo?": ("more", "less"),
        "Before or after?": ("after", "before"),
    }.items():
        links = find_links(program_table(RIDERS), question, split_words(question), ProgramRules())
        assert links.truths == truths
