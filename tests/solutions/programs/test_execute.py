"""The executor: each line of the semantics in `types`, by hand."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.solutions.programs.execute import execute
from hardem_jax.solutions.programs.links import find_links
from hardem_jax.solutions.programs.rules import ProgramRules, table_fields
from hardem_jax.solutions.programs.space import ProgramSpace
from hardem_jax.solutions.programs.table import ProgramTable, program_table
from hardem_jax.solutions.programs.types import PARTS, ROW_NUMBER, ROW_WIDTH, SHAPES, Field, Shape
from hardem_jax.solutions.sql.types import Table, split_words

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


def link(text):
    texts = [LINKS.link(index).text(HEADER) for index in range(len(LINKS))]
    return texts.index(text)


def run(result, modifier, connective, *links, select=None, modify=None):
    shape = SHAPES.index(Shape(result, modifier, connective))
    pair = [link(text) for text in links] + [-1] * (2 - len(links))
    return execute(TABLE, (shape, code(select), code(modify), *pair), LINKS)


def name(who):
    return f"name = '{who}'"


RED, BLUE, SMALL = "team.item = 'red'", "team.item = 'blue'", "size.number = 3"
NAMES = {"select": "name"}
SIZE = {"modify": "size.number"}


@pytest.mark.parametrize(
    ("connective", "links", "names"),
    [
        ("all", [], "ann bo cy di ed"),
        ("one", [RED], "ann bo ed"),
        ("one", [name("total")], "total"),
        ("and", [RED, SMALL], "ann"),
        ("and", [RED, name("di")], None),
        ("or", [name("ann"), name("di")], "ann di"),
        ("and not", [RED, SMALL], "bo ed"),
    ],
)
def test_connectives(connective, links, names):
    assert run("values", "none", connective, *links, **NAMES) == (names and names.split())


@pytest.mark.parametrize(
    ("modifier", "connective", "links", "fields", "names"),
    [
        ("first", "one", [RED], {}, "ann"),
        ("last", "one", [RED], {}, "ed"),
        ("last", "all", [], {}, "ed"),
        ("highest", "all", [], SIZE, "ed"),
        ("lowest", "all", [], SIZE, "ann di"),
        ("highest", "one", [name("cy")], SIZE, None),
        ("highest", "or", [name("ann"), name("cy")], SIZE, "ann"),
        ("lowest", "all", [], {"modify": "born.year"}, "di"),
        ("previous", "one", [name("bo")], {}, "ann"),
        ("previous", "one", [name("ann")], {}, None),
        ("next", "one", [name("bo")], {}, "cy"),
        ("next", "one", [name("ed")], {}, None),
        ("next", "one", [RED], {}, None),
        ("previous", "one", [BLUE], {}, None),
        ("next", "to", [name("bo"), RED], {}, "ed"),
        ("previous", "to", [name("ed"), SMALL], {}, "di"),
        ("same", "one", [name("ann")], SIZE, "di"),
        ("same", "one", [name("ann")], {"modify": "team.item"}, "bo di ed"),
        ("same", "one", [name("cy")], SIZE, None),
        ("same", "to", [name("ann"), RED], {"modify": "team.item"}, "bo ed"),
        ("higher", "one", [name("ann")], SIZE, "bo ed"),
        ("higher", "one", [RED], SIZE, None),
        ("lower", "one", [RED], SIZE, None),
        ("lower", "one", [name("bo")], SIZE, "ann di"),
        ("lower", "one", [name("cy")], SIZE, None),
        ("higher", "to", [name("ann"), RED], SIZE, "bo ed"),
        ("lower", "one", [name("cy")], {"modify": ROW_NUMBER}, "ann bo"),
        ("next higher", "one", [name("ann")], SIZE, "bo"),
        ("next lower", "one", [name("ed")], SIZE, "bo"),
        ("next lower", "one", [name("bo")], SIZE, "ann di"),
        ("next lower", "to", [name("bo"), BLUE], SIZE, "ann di"),
        ("next lower", "to", [name("ed"), SMALL], SIZE, "ann di"),
    ],
)
def test_modifiers(modifier, connective, links, fields, names):
    result = run("values", modifier, connective, *links, **NAMES, **fields)
    assert result == (names and names.split())


@pytest.mark.parametrize(
    ("result", "connective", "links", "fields", "expected"),
    [
        ("values", "one", [RED], {"select": "team.item"}, ["red", "blue", "red", "red"]),
        ("values", "one", [name("cy")], {"select": "size.number"}, None),
        ("values", "all", [], {"select": "size.number"}, [3.0, 7.0, 3.0, 9.0]),
        ("values", "one", [RED], {"select": "born.month"}, ["may", "may"]),
        ("values", "one", [name("ed")], {"select": "born.date"}, ["1991-05-xx"]),
        ("values", "one", [name("ed")], {"select": ROW_NUMBER}, [5.0]),
        ("count", "all", [], {}, [5.0]),
        ("count", "one", [RED], {}, [3.0]),
        ("count", "and", [RED, name("di")], {}, None),
        ("count distinct", "all", [], {"select": "size.number"}, [3.0]),
        ("count distinct", "all", [], {"select": "team.item"}, [3.0]),
        ("sum", "all", [], {"select": "size.number"}, [22.0]),
        ("average", "all", [], {"select": "size.number"}, [5.5]),
        ("sum", "one", [name("cy")], {"select": "size.number"}, None),
        ("range", "all", [], {"select": "size.number"}, [6.0]),
        ("range", "one", [SMALL], {"select": "size.number"}, None),
        ("most common", "all", [], {"select": "team.item"}, ["red"]),
        ("least common", "all", [], {"select": "team.item"}, ["green"]),
        ("least common", "all", [], {"select": "size.number"}, [7.0, 9.0]),
        ("most common", "one", [name("bo")], {"select": "team.item"}, None),
        ("repeated", "all", [], {"select": "team.item"}, ["red", "blue"]),
        ("repeated", "one", [name("bo")], {"select": "team.item"}, None),
        ("gap", "one", [name("bo")], {"select": "size.number", "modify": "born.year"}, [1984.0]),
        ("total", "one", [name("bo")], {"select": "size.number", "modify": "born.year"}, [1998.0]),
        ("gap", "one", [RED], {"select": "size.number", "modify": "born.year"}, None),
        ("gap", "one", [name("cy")], {"select": "size.number", "modify": "born.year"}, None),
        ("difference", "versus", [name("bo"), name("ed")], {"select": "size.number"}, [2.0]),
        ("difference", "versus", [name("bo"), SMALL], {"select": "size.number"}, [4.0]),
        ("difference", "versus", [name("bo"), RED], {"select": "size.number"}, None),
        ("difference", "versus", [name("bo"), name("cy")], {"select": "size.number"}, None),
        ("count difference", "versus", [RED, BLUE], {}, [1.0]),
        ("is higher", "versus", [name("bo"), name("ann")], {"select": "size.number"}, ["yes"]),
        ("is higher", "versus", [name("ann"), name("bo")], {"select": "size.number"}, ["no"]),
        ("is higher", "versus", [name("ann"), name("di")], {"select": "size.number"}, ["no"]),
        ("is same", "versus", [name("ann"), name("di")], {"select": "size.number"}, ["yes"]),
        ("is same", "versus", [name("ann"), name("di")], {"select": "team"}, ["no"]),
        ("is same", "versus", [name("ann"), name("di")], {"select": "team.item"}, None),
        ("is more", "versus", [RED, BLUE], {}, ["yes"]),
        ("is more", "versus", [BLUE, BLUE], {}, ["no"]),
        ("is within", "versus", [name("bo"), RED], {}, ["yes"]),
        ("is within", "versus", [RED, name("bo")], {}, ["no"]),
    ],
)
def test_results(result, connective, links, fields, expected):
    assert run(result, "none", connective, *links, **fields) == expected


def test_words_for_true_and_false():
    links = dataclasses.replace(LINKS, truths=("more", "less"))
    row = SHAPES.index(Shape("is more", "none", "versus")), -1, -1, link(RED), link(BLUE)
    assert execute(TABLE, row, links) == ["more"]
    assert execute(TABLE, (*row[:3], row[4], row[3]), links) == ["less"]


def test_texts_where_numbers_are_needed():
    assert run("sum", "none", "all", select="team") is None
    assert run("values", "highest", "all", select="name", modify="team") is None
    assert run("values", "none", "all", select="size.year") is None


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


def test_which_programs_are_allowed():
    rules, table = ProgramRules(), program_table(TABLE)
    width, space = len(SHAPES), ProgramSpace(table, LINKS, rules)
    fields = [-1, *table_fields(table, rules)[:, 0].tolist(), 999]
    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(20_000):
        links = rng.integers(-1, len(LINKS), 2)
        row = np.array([rng.integers(-1, width + 1), *rng.choice(fields, 2), *links])
        allowed = row in space
        seen[allowed] += 1
        if allowed:
            assert len(row) == ROW_WIDTH
            execute(TABLE, row, LINKS)  # raises nothing
    assert min(seen.values()) > 50


def test_fields_with_their_rows_and_keys():
    found = {
        int(row[0]): row[1:].tolist() for row in table_fields(program_table(TABLE), ProgramRules())
    }
    assert found[code("size.number")] == [5, 4] and found[code("team.item")] == [5, 3]
    assert found[code(ROW_NUMBER)] == [6, 6]
    without = table_fields(program_table(TABLE), ProgramRules(parts=False, row_numbers=False))
    names = ["name", "team", "size.number", "born", "born.number"]
    assert without[:, 0].tolist() == [code(name) for name in names]
