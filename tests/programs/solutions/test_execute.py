"""What the executor makes of tables: fields, total rows, and which programs there are."""

from hardem_jax.programs.solutions.rules import ProgramRules, table_fields
from hardem_jax.programs.solutions.table import ProgramTable, program_table
from hardem_jax.programs.solutions.types import PARTS, ROW_NUMBER, Field
from hardem_jax.tables.table import Table

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


def code(name):
    if name is None:
        return -1
    if name == ROW_NUMBER:
        return program_table(TABLE).row_number
    column, _, part = name.partition(".")
    return Field(HEADER.index(column), PARTS.index(part or "text")).code


def test_fields_of_a_table():
    fields = ProgramTable(TABLE).fields.values()
    assert [values.field.text(HEADER) for values in fields] == [
        "name", "team", "team.item", "team.first", "team.second", "team.count", "size.number",
        "born", "born.number", "born.date", "born.year", "born.month", "born.day", "row number",
    ]  # fmt: skip


def test_numbers_in_a_column_with_a_text_are_texts_too():
    table = ProgramTable(Table("1", ("id",), ("real",), ((7.0,), (2**60 + 1,), (None,), (9.5,))))
    texts = table.fields[Field(0, PARTS.index("text")).code].rows
    assert [[value.shown for value in values] for values in texts] == [
        ["7"], [str(2**60 + 1)], [], ["9.5"]
    ]  # fmt: skip


def test_total_rows():
    """Unless most rows are."""
    totals = ("Total", "totals", "grand total", "Total medals", "average", "Career")
    for first in (*totals, "the total number of all", "totalitarian", "all stars"):
        rows = (("x", "a"), ("", first), ("y", "total"))
        table = ProgramTable(Table("1", ("p", "q"), ("text", "text"), rows))
        assert table.ordinary == (0b101 if first in totals else 0b111), first
    rows = (("total",), ("total",), ("x",))
    assert ProgramTable(Table("1", ("p",), ("text",), rows)).ordinary == 0b111


def test_fields_with_their_rows_and_keys():
    rows = table_fields(program_table(TABLE), ProgramRules()).tolist()
    found = {field: facts for field, *facts in rows}
    assert found[code("size.number")] == [5, 4] and found[code("team.item")] == [5, 3]
    assert found[code(ROW_NUMBER)] == [6, 6]
    without = table_fields(program_table(TABLE), ProgramRules(parts=False, row_numbers=False))
    names = ["name", "team", "size.number", "born", "born.number"]
    assert without[:, 0].tolist() == [code(name) for name in names]
