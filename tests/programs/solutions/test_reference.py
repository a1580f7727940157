"""The executor of programs, next to a slow one that shares no code with it."""

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.types import (
    OPERATORS,
    PARTS,
    SHAPES,
    Field,
    Link,
    Links,
    Program,
    Shape,
)
from hardem_jax.tables.table import Table
from hardem_jax.tables.wikitablequestions import read_wikitablequestions
from tests.programs.solutions.differences import compare_executors, random_cases, real_cases
from tests.programs.solutions.reference import Reference, table_values

TABLE = Table(
    "1",
    ("city", "people", "size"),
    ("text", "text", "real"),
    (
        ("Oslo", "ann", 3.0),
        ("Bergen", "bob, ann", 5.0),
        ("Oslo", "carl", None),
        ("Rome", "ann", 5.0),
        ("Bonn", "bob", 1.0),
        ("Total", "total", 14.0),
    ),
)
CITY, PEOPLE, SIZE, ROW = (
    Field(0, PARTS.index("text")),
    Field(1, PARTS.index("item")),
    Field(2, PARTS.index("number")),
    Field(3, PARTS.index("number")),
)
OSLO, BERGEN, ROME, BONN = ((CITY, "=", name) for name in ("oslo", "bergen", "rome", "bonn"))
BOB, SMALL, LARGE = (PEOPLE, "=", "bob"), (SIZE, "<", 5.0), (SIZE, "=", 5.0)

# By hand, from the definition.
RESULTS = [
    (("values", "none", "one"), CITY, None, [BOB], ["Bergen", "Bonn"]),
    (("values", "none", "and"), CITY, None, [BOB, SMALL], ["Bonn"]),
    (("values", "none", "and not"), CITY, None, [BOB, BONN], ["Bergen"]),
    (("values", "none", "or"), ROW, None, [OSLO, BONN], [1.0, 3.0, 5.0]),
    (("values", "none", "and"), CITY, None, [OSLO, BONN], None),
    (("values", "first", "one"), PEOPLE, None, [OSLO], ["ann"]),
    (("values", "highest", "all"), CITY, SIZE, [], ["Bergen", "Rome"]),
    (("values", "highest", "one"), ROW, SIZE, [OSLO], [1.0]),
    (("values", "highest", "all"), CITY, CITY, [], None),
    (("values", "previous", "one"), CITY, None, [OSLO], None),
    (("values", "next", "one"), CITY, None, [OSLO], ["Rome"]),
    (("values", "next", "to"), CITY, None, [BERGEN, BOB], ["Bonn"]),
    (("values", "previous", "to"), ROW, None, [BONN, BOB], [2.0]),
    (("values", "same", "one"), ROW, PEOPLE, [BERGEN], [1.0, 4.0, 5.0]),
    (("values", "same", "to"), ROW, PEOPLE, [BERGEN, SMALL], [1.0, 5.0]),
    (("values", "higher", "one"), ROW, SIZE, [OSLO], [2.0, 4.0]),
    (("values", "lower", "one"), ROW, SIZE, [BERGEN], [1.0, 5.0]),
    (("values", "next higher", "one"), ROW, SIZE, [BONN], [1.0]),
    (("values", "next lower", "one"), ROW, SIZE, [ROME], [1.0]),
    (("count", "none", "one"), None, None, [BOB], [2.0]),
    (("count distinct", "none", "all"), CITY, None, [], [4.0]),
    (("count distinct", "none", "all"), PEOPLE, None, [], [3.0]),
    (("sum", "none", "all"), SIZE, None, [], [14.0]),
    (("average", "none", "all"), SIZE, None, [], [3.5]),
    (("sum", "none", "all"), CITY, None, [], None),
    (("range", "none", "all"), SIZE, None, [], [4.0]),
    (("range", "none", "one"), SIZE, None, [LARGE], None),
    (("most common", "none", "all"), PEOPLE, None, [], ["ann"]),
    (("least common", "none", "all"), CITY, None, [], ["Bergen", "Rome", "Bonn"]),
    (("repeated", "none", "all"), PEOPLE, None, [], ["ann", "bob"]),
    (("gap", "none", "one"), SIZE, ROW, [BONN], [4.0]),
    (("total", "none", "one"), SIZE, ROW, [BONN], [6.0]),
    (("gap", "none", "one"), SIZE, ROW, [BOB], None),
    (("difference", "none", "versus"), SIZE, None, [BONN, ROME], [4.0]),
    (("difference", "none", "versus"), SIZE, None, [BOB, ROME], None),
    (("count difference", "none", "versus"), None, None, [BONN, OSLO], [1.0]),
    (("is higher", "none", "versus"), SIZE, None, [BONN, ROME], ["less"]),
    (("is same", "none", "versus"), SIZE, None, [ROME, BERGEN], ["more"]),
    (("is more", "none", "versus"), None, None, [OSLO, ROME], ["more"]),
    (("is within", "none", "versus"), None, None, [ROME, LARGE], ["more"]),
    # Total rows, which only what is said by text finds.
    (("values", "none", "one"), CITY, None, [(PEOPLE, "=", "total")], ["Total"]),
    (("values", "none", "one"), CITY, None, [(PEOPLE, "!=", "ann")], ["Oslo", "Bonn"]),
    (("values", "none", "one"), CITY, None, [(SIZE, ">", 3.0)], ["Bergen", "Rome"]),
    (("values", "next", "one"), CITY, None, [BONN], None),
    (("values", "none", "one"), CITY, None, [(SIZE, "empty", None)], ["Oslo"]),
]


@pytest.mark.parametrize(("names", "select", "modify", "conditions", "expected"), RESULTS)
def test_results_by_hand(names, select, modify, conditions, expected):
    reference = Reference(table_values(TABLE), len(TABLE.rows), [5], ("more", "less"))
    used = [Link(x, OPERATORS.index(name), n, n, v) for n, (x, name, v) in enumerate(conditions)]
    assert reference.execute(Program(Shape(*names), select, modify, tuple(used))) == expected
    array = [(link.field.code, link.operator, n, n) for n, link in enumerate(used)]
    masks = tuple(sum(1 << row for row in reference.rows_of(link)) for link in used)
    values = tuple(link.value for link in used)
    links = Links(np.array(array, np.int16).reshape(-1, 4), values, masks, ("more", "less"))
    row = [SHAPES.index(Shape(*names)), select.code if select else -1]
    row += [modify.code if modify else -1, *range(len(used)), *[-1] * (2 - len(used))]
    assert execute(TABLE, row, links) == expected


def test_executors_agree_on_random_tables():
    compare_executors(random_cases(0), 4000, 0, each=40)


@pytest.fixture(scope="module")
def real(shared_dir):
    folder = shared_dir / "data/wikitablequestions"
    return list(read_wikitablequestions(folder, "random-split-1-dev", skips=ExclusionCounts()))


def test_executors_agree_on_real_tables(real):
    pairs = [(question.table, question.question) for question in real]
    compare_executors(real_cases(pairs, 0), 2000, 1, each=40)
