"""What the executor makes of tables: fields, total rows, and which programs there are."""

import pytest

from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import ProgramRules, table_fields
from hardem_jax.programs.solutions.table import ProgramTable, program_table
from hardem_jax.programs.solutions.types import PARTS, ROW_NUMBER, SHAPES, Field, Shape
from hardem_jax.tables.table import Table, split_words

HEADER = ("name", "team", "size", "born")
TABLE = Table(
    "1",
    HEADER,
    ("text", "text", "real", "text"),
    (
        ("ann", "red, blue", 3.0, "may 3, 1990"),
        ("bo", "red", 7.0, "1991"),
        ("cy", "green", None, ""),
        ("di", "blue", 3.0, "july 7, 1985"),
        ("ed", "red", 9.0, "may 1991"),
        ("total", "", 22.0, ""),
    ),
)
QUESTION = "ann bo cy di ed red blue 3 total nobody 1991"
LINKS = find_links(program_table(TABLE), QUESTION, split_words(QUESTION), ProgramRules())


def code(name):
    if name is None:
        return -1
    if name == ROW_NUMBER:
        return program_table(TABLE).row_number
    column, _, part = name.partition(".")
    return Field(HEADER.index(column), PARTS.index(part or "text")).code


def test_a_sum_that_is_too_large_is_no_result():
    table = Table("1", ("a",), ("real",), ((1e308,), (1.5e308,)))
    links = find_links(program_table(table), "", split_words(""), ProgramRules())
    field = Field(0, PARTS.index("number")).code
    for result in ("sum", "average"):
        shape = SHAPES.index(Shape(result, "none", "all"))
        assert execute(table, (shape, field, -1, -1, -1), links) is None


def test_fields_of_a_table():
    fields = ProgramTable(TABLE).fields.values()
    assert [values.field.text(HEADER) for values in fields] == [
        "name", "team", "team.item", "team.first", "team.second", "team.count", "size.number",
        "born", "born.number", "born.date", "born.year", "born.month", "born.day", "row number",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "is_total"),
    [
        ("Total", True),
        ("totals", True),
        ("grand total", True),
        ("Total medals", True),
        ("career total", True),
        ("average", True),
        ("Career", True),
        ("the total number of all", False),
        ("totalitarian", False),
        ("all stars", False),
    ],
)
def test_total_rows(first, is_total):
    rows = (("x", "a"), ("", first), ("y", "total"))
    table = ProgramTable(Table("1", ("p", "q"), ("text", "text"), rows))
    assert table.ordinary == (0b101 if is_total else 0b111)


def test_most_rows_are_no_totals():
    rows = (("total",), ("total",), ("x",))
    assert ProgramTable(Table("1", ("p",), ("text",), rows)).ordinary == 0b111


def test_fields_with_their_rows_and_keys():
    found = {
        int(row[0]): row[1:].tolist() for row in table_fields(program_table(TABLE), ProgramRules())
    }
    assert found[code("size.number")] == [5, 4] and found[code("team.item")] == [5, 3]
    assert found[code(ROW_NUMBER)] == [6, 6]
    without = table_fields(program_table(TABLE), ProgramRules(parts=False, row_numbers=False))
    names = ["name", "team", "size.number", "born", "born.number"]
    assert without[:, 0].tolist() == [code(name) for name in names]
