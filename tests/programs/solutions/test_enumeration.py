"""Z of programs: against brute force with the executor, its order, its limits and its sample."""

import dataclasses
import functools
import itertools
import random
from collections import Counter

import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.programs.solutions.enumeration import AnswerTest, enumerate_programs
from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import (
    AllowedPrograms,
    ProgramRules,
    may_modify,
    may_pair,
    may_select,
)
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import ROW_WIDTH, SHAPES, Program, Shape
from hardem_jax.tables.metrics import Denotation, result_texts
from hardem_jax.tables.table import Table, split_words
from tests.marks import slow

TEXTS = "total|ann|bo, ann|cy (ann)|5|w 5-3|may 3, 1990|2:05||5 km|bo|b".split("|")
NUMBERS = (5.0, 3.0, 2.0, 1990.0, 5.0, None, 0.1, 0.2)
WORDS = "ann|totally|more|less|bo|5|three|1990|second|cy ann|may|?".split("|")
FLAGS = [field.name for field in dataclasses.fields(ProgramRules) if field.type == "bool"]

CITIES = Table(
    "1",
    ("city", "country", "size"),
    ("text", "text", "real"),
    (
        ("bergen", "norway", 3.0),
        ("oslo", "norway", 7.0),
        ("turku", "finland", 2.0),
        ("espoo", "finland", 3.0),
    ),
)


def random_table(rng):
    types = tuple(rng.choice(("text", "text", "real")) for _ in range(rng.randrange(1, 4)))
    cells = {"text": TEXTS, "real": NUMBERS}
    rows = tuple(tuple(rng.choice(cells[kind]) for kind in types) for _ in range(rng.randrange(8)))
    return Table("1", tuple(map(str, types)), types, rows)


def random_problem(rng, words, links, fields):
    """`Brute` of a random table, question and rules, with as many links and fields."""
    while True:
        flags = {name: rng.random() < 0.8 for name in FLAGS} | {"redundant": rng.random() < 0.4}
        rules = ProgramRules(**flags, max_links=rng.choice((0, 1, 2, 2, 2)), cap=None)
        brute = Brute(random_table(rng), " ".join(rng.choices(WORDS, k=rng.choice(words))), rules)
        if len(brute.links) in links and len(brute.codes) in fields:
            return brute


class Brute:
    """Z_tot by nested loops, and what is idle in a program, from row numbers it selects."""

    def __init__(self, table, question, rules):
        self.table, self.question, self.rules = table, question, rules
        self.indexed = program_table(table)
        self.links = find_links(self.indexed, question, split_words(question), rules)
        width = len(table.header)
        self.codes = {
            code: values.field
            for code, values in self.indexed.fields.items()
            if rules.allows_field(values.field, width)
        }

    def programs(self):
        for index in self.rules.shapes():
            shape = SHAPES[index]
            for select, modify in itertools.product(*self._fields(shape)):
                if shape.result in ("gap", "total") and select >= modify:
                    continue
                for first, second in self._pairs(shape):
                    yield index, select, modify, first, second

    def _fields(self, shape):
        for has, may in ((shape.has_select, may_select), (shape.has_modify, may_modify)):
            width = len(self.table.header)
            yield [c for c, f in self.codes.items() if may(shape, f, width)] if has else [-1]

    def _pairs(self, shape):
        count = len(self.links)
        if shape.num_links < 2:
            return [(i, -1) for i in range(count)] if shape.num_links else [(-1, -1)]
        return [
            (i, j)
            for i, j in itertools.permutations(range(count), 2)
            if (i < j or not shape.is_symmetric) and may_pair(shape.connective, self.links, i, j)
        ]

    def rows(self, modifier, connective, modify, first, second):
        """The row numbers that a modifier ends with."""
        index = SHAPES.index(Shape("values", modifier, connective))
        row = index, self.indexed.row_number, modify, first, second
        return execute(self.table, row, self.links) or []

    def is_idle(self, row):
        index, select, modify, first, second = row
        result, modifier, connective = SHAPES[index]
        if connective == "versus":
            return self.rows("none", "one", -1, first, -1) == self.rows(
                "none", "one", -1, second, -1
            )
        if connective == "to":
            ends = self.rows(modifier, "to", modify, first, second)
            return ends == self.rows(modifier, "one", modify, first, -1)
        start = self.rows("none", connective, -1, first, second)
        if connective in ("and", "or", "and not"):
            singles = [self.rows("none", "one", -1, link, -1) for link in (first, second)]
            if start in singles[: 1 if connective == "and not" else 2]:
                return True
        if modifier in ("first", "last", "highest", "lowest"):
            return self.rows(modifier, connective, modify, first, second) == start
        if result in ("sum", "average", "count distinct"):
            rows = [int(row) - 1 for row in start]
            keys = [v.key for r in rows for v in self.indexed.fields[select].rows[r]]
            return len(set(keys)) == len(rows) if result == "count distinct" else len(keys) < 2
        return False

    def with_results(self):
        """Every program of Z_tot that has a result, with it."""
        for row in self.programs():
            result = execute(self.table, row, self.links)
            if result is not None and (self.rules.redundant or not self.is_idle(row)):
                yield row, result


def some_answer(rng, brute):
    """A result of a shape drawn at random, so that Z is not empty."""
    programs = list(brute.programs())
    rng.shuffle(programs)
    for index in rng.sample(brute.rules.shapes(), len(brute.rules.shapes())):
        for row in programs:
            if row[0] == index and (result := execute(brute.table, row, brute.links)) is not None:
                return result_texts(result)
    return ("ann",)


@pytest.mark.parametrize(
    ("seed", "most_links", "most_fields"),
    [(seed, 8, 9) for seed in range(40)] + slow(*((seed, 14, 16) for seed in range(40, 240))),
)
def test_equals_brute_force(seed, most_links, most_fields):
    rng = random.Random(seed)
    brute = random_problem(rng, range(7), range(3, most_links + 1), range(most_fields + 1))
    programs = list(brute.with_results())
    redundant = dataclasses.replace(brute.rules, redundant=True)
    others = list(Brute(brute.table, brute.question, redundant).programs())
    for _ in range(4):
        target = Denotation(some_answer(rng, brute))
        solutions = enumerate_programs(brute.table, brute.question, target, brute.rules)
        assert solutions.programs.dtype == np.int16
        expected = sorted(row for row, result in programs if target.matches(result))
        assert [tuple(row) for row in solutions.programs.tolist()] == expected
        assert solutions.size == len(solutions.programs)
        # One by one, among others of any rules and rows that are no programs.
        test = AnswerTest(brute.table, brute.links, target, brute.rules)
        some = rng.sample(others, min(len(others), 200))
        rows = np.array([*expected, *some, (30_000,) * 5, (-1,) * 5])
        assert test(rows).tolist() == [tuple(row) in expected for row in rows.tolist()]


@pytest.mark.parametrize("seed", range(10))
def test_the_space_and_brute_force_of_random_tables(seed):
    brute = random_problem(random.Random(seed), [6], range(3, 9), range(3, 7))
    space = AllowedPrograms(brute.indexed, brute.links, brute.rules)
    allowed = {row for row in brute.programs() if row in space}
    executed = {row for row in allowed if execute(brute.table, row, brute.links) is not None}
    assert executed == {row for row, _ in brute.with_results()}


def texts(solutions, header):
    return [Program.from_row(row, solutions.links).text(header) for row in solutions.programs]


MEANINGS = """
which city is largest? | oslo | values(city) of highest(size.number) of all rows
which city comes last? | espoo | values(city) of last of all rows
how many in norway? | 2 | count of (country = 'norway')
how many cities are at least 3? | 3 | count of (size.number >= 3)
not in norway, not turku? | espoo | values(city) of (country != 'norway' and city != 'turku')
which one comes after oslo? | turku | values(city) of next of (city = 'oslo')
what is as large as bergen? | espoo | values(city) of same(size.number) of (city = 'bergen')
just above turku? | bergen, espoo | values(city) of next higher(size.number) of (city = 'turku')
norway, before espoo? | oslo | values(city) of previous of (city = 'espoo' to country = 'norway')
bergen or oslo? | oslo | values(city) of highest(size.number) of (city = 'bergen' or city = 'oslo')
from turku to oslo? | 5 | difference(size.number) of (city = 'turku' versus city = 'oslo')
is oslo larger than turku? | yes | is higher(size.number) of (city = 'oslo' versus city = 'turku')
how large are they together? | 15 | sum(size.number) of all rows
how many countries? | 2 | count distinct(country) of all rows
which size is most frequent? | 3 | most common(size.number) of all rows
which city is listed third? | turku | values(city) of (row number = 3)
"""


@pytest.mark.parametrize("line", MEANINGS.strip().splitlines())
def test_what_a_question_means_is_found(line):
    question, answer, program = line.split(" | ")
    solutions = enumerate_programs(CITIES, question, Denotation(answer.split(", ")))
    assert program in texts(solutions, CITIES.header)


def test_a_sample_is_uniform_and_seeded():
    target, question = Denotation(("oslo",)), "in norway or finland, 3?"
    whole = enumerate_programs(CITIES, question, target, ProgramRules(cap=None))
    rules = ProgramRules(cap=20)
    seen = Counter()
    for seed in range(400):
        part = enumerate_programs(CITIES, question, target, rules, seed=seed)
        rows = [tuple(row) for row in part.programs.tolist()]
        assert rows == sorted(set(rows)) and len(rows) == 20
        assert part.size == whole.size == len(whole.programs)
        seen.update(rows)
    assert seen.keys() == {tuple(row) for row in whole.programs.tolist()}
    expected = 400 * 20 / whole.size
    assert max(abs(count - expected) for count in seen.values()) < 5 * expected**0.5
    again = enumerate_programs(CITIES, question, target, rules, seed=399)
    assert again.programs.tolist() == part.programs.tolist()


def test_too_many_pairs_leave_programs_with_one_link():
    target, question = Denotation(("oslo",)), "in norway or finland, 3?"
    few = enumerate_programs(CITIES, question, target, ProgramRules(max_pairs=1))
    one = enumerate_programs(CITIES, question, target, ProgramRules(max_links=1))
    space = AllowedPrograms(program_table(CITIES), few.links, ProgramRules(max_pairs=1))
    whole = enumerate_programs(CITIES, question, target).programs.tolist()
    assert [row for row in whole if row in space] == few.programs.tolist()
    assert few.max_links == 1 and few.programs.tolist() == one.programs.tolist()
    assert enumerate_programs(CITIES, question, target).max_links == 2


MIXED = Table(
    "1",
    ("name", "when", "n"),
    ("text", "text", "real"),
    (
        ("russia bo, cy", "may 3, 1990", 3.0),
        ("bo, di", "july 7, 1991", 7.0),
        ("bo", "", 2.0),
        ("cy (di)", "may 9, 1995", 3.0),
    ),
)


@functools.cache
def mixed_programs(answer, **flags):
    rules = ProgramRules(**{"redundant": True} | flags, cap=None)
    question = "3 or 7, not russian, in may?"
    solutions = enumerate_programs(MIXED, question, Denotation((answer,)), rules)
    return {Program.from_row(row, solutions.links) for row in solutions.programs}


@pytest.mark.parametrize("name", FLAGS)
def test_each_rule_only_leaves_out(name):
    left_out = 0
    for answer in ("3", "bo", "yes", "5", "1990", "1"):
        more, fewer = mixed_programs(answer), mixed_programs(answer, **{name: False})
        assert fewer <= more
        left_out += len(more - fewer)
    assert left_out


@pytest.mark.parametrize(
    ("header", "rows"), [((), ()), (("a",), ()), (("a",), (("",), (None,))), ((), ((), ()))]
)
def test_tables_without_values(header, rows):
    table = Table("1", header, ("text",) * len(header), rows)
    solutions = enumerate_programs(table, "how many are 3?", Denotation(("ann",)))
    assert solutions.size == 0 and solutions.programs.shape == (0, ROW_WIDTH)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ProgramRules(max_links=3), "max_links"),
        (lambda: ProgramRules(cap=1.5), "cap"),  # type: ignore[arg-type]
        (lambda: enumerate_programs(CITIES, "a " * 40_000, Denotation(("oslo",))), "words"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
