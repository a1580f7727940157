"""Z of semantic parsing: against brute force by SQLite, its order, its limits, and real data."""

import dataclasses
import random
from collections import Counter

import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.queries.records import SameCells
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.enumeration import AnswerTest, enumerate_sql
from hardem_jax.queries.solutions.types import ROW_WIDTH, Query, SqlRules
from hardem_jax.tables.table import Table, split_words
from tests.marks import slow
from tests.queries.solutions.brute import brute_results, random_problem

PLAYERS = Table(
    "1-1",
    ("player", "no.", "team"),
    ("text", "real", "text"),
    (("ann", 7.0, "red"), ("bo", 9.0, "red"), ("cy", 9.0, "blue")),
)


def in_order(rows):
    """As the module says, written down once more."""
    return sorted(rows, key=lambda row: (row[2], row[0], row[1], row[3:]))


@pytest.mark.parametrize("seed", [0, 3, *slow(1, 2, *range(4, 10))])
def test_equals_brute_force(seed):
    """Five hundred tables in all, with every option drawn anew for each."""
    rng = random.Random(seed)
    sizes = []
    for _ in range(50):
        rules, table, question, results = random_problem(rng)
        for answer in rng.sample(list(results.values()), min(3, len(results))) + [[20.0]]:
            expected = in_order(row for row, result in results.items() if result == answer)
            found = enumerate_sql(table, question, answer, rules)
            assert found.queries.dtype == np.int16
            assert list(map(tuple, found.queries.tolist())) == expected, (table, question)
            assert found.size == len(expected) == len(found.queries)
            cap = rng.randrange(1, 30)
            capped = enumerate_sql(table, question, answer, dataclasses.replace(rules, cap=cap))
            assert list(map(tuple, capped.queries.tolist())) == expected[:cap]
            assert (capped.size, len(capped.queries)) == (found.size, min(cap, found.size))
            matched = enumerate_sql(table, question, rules=rules, match=lambda x, y=answer: x == y)
            np.testing.assert_array_equal(matched.queries, found.queries)
            same = SameCells(answer)
            of_cells = in_order(row for row, result in results.items() if same(result))
            found = enumerate_sql(table, question, rules=rules, match=same)
            assert list(map(tuple, found.queries.tolist())) == of_cells
            sizes.append(len(expected))
    assert np.mean(np.array(sizes) > 1) > 0.3  # most problems are not trivial


def one_condition_a_column(row):
    columns = row[3 : 3 + 4 * row[2] : 4]
    return len({*columns}) == len(columns)


def without_rest(row):
    used = 3 + 4 * max(row[2], 0)
    return (*row[:used], *[-1] * (ROW_WIDTH - used))


@pytest.mark.parametrize("seed", [0, *slow(*range(1, 6))])
def test_a_query_is_tested_as_brute_force_does(seed):
    rng = random.Random(seed)
    outcomes = Counter()
    for _ in range(30):
        rules, table, question, results = random_problem(rng)
        if not results:
            continue
        every = [row for row in results if one_condition_a_column(row)]
        outside = [tuple(rng.randrange(-1, 4) for _ in row) for row in every[:200]]
        outside = [row for row in outside if without_rest(row) not in results]
        for answer in rng.sample(list(results.values()), min(3, len(results))):
            test = AnswerTest(table, question, answer, rules)
            matched = AnswerTest(table, question, rules=rules, match=lambda x, y=answer: x == y)
            expected = [results[row] == answer for row in every] + [False] * len(outside)
            rows = np.array(every + outside).reshape(-1, ROW_WIDTH)
            for _ in range(2):  # the second time from memory
                assert test(rows).tolist() == expected, (table, question, answer)
            assert matched(rows[::-1]).tolist() == expected[::-1]
            outcomes.update(expected)
    assert outcomes[True] > 100 and outcomes[False] > 1000


def shown(question, answer, rules=None, table=PLAYERS):
    rows = enumerate_sql(table, question, answer, rules).queries
    words = split_words(question)
    return [Query.from_row(row, question, words).text(table.header) for row in rows]


@pytest.mark.parametrize(
    ("question", "numbers", "expected"),
    [
        ("over 20.5?", "whole", {"20.5"}),
        ("over 20.5?", "exact", {"20", "20.5", "5", ".5"}),
        ("over 20.5?", "official", {"over 20", "20", "20.", "20.5", "over 20.5", "5", ".5?", "5?"}),
        ("1,000 or 1996,1997, 1,23,456", "whole", {"1,000", "1996", "1997", "1,23,456"}),
        ("from -7 to +7", "whole", {"7", "-7", "+7"}),
        ("8abx15", "whole", set()),
        ("8abx15", "official", {"8abx15"}),
        ("in 1996-97", "whole", {"1996", "97", "-97"}),
    ],
)
def test_spans_that_face_real_columns(question, numbers, expected):
    table = Table("1-1", ("no.",), ("real",), ((-1e9,), (1e9,)))
    rules = SqlRules(numbers=numbers, max_conditions=1)
    words = split_words(question)
    queries = enumerate_sql(table, question, [1], rules).queries  # a count, so that all are in
    values = {Query.from_row(q, question, words).conditions[0].value for q in queries}
    assert values == expected if numbers != "official" else values >= expected


def test_what_cannot_be_answered_has_no_solution():
    for answer in ([], [None], [4], ["nobody"], ["ann", "cy"], [float("nan")], [10**400], ["7"]):
        found = enumerate_sql(PLAYERS, "Who has 7?", answer, SqlRules(max_conditions=0))
        assert found.queries.shape == (0, ROW_WIDTH) and found.size == 0


def test_empty_inputs():
    no_rows = Table("1-1", ("a",), ("text",), ())
    no_columns = Table("1-1", (), (), ())
    no_columns_but_rows = Table("1-1", (), (), ((), ()))
    for table in (no_rows, no_columns, no_columns_but_rows):
        for answer in ([], [0], ["x"], ["x", "y"]):
            assert enumerate_sql(table, "x is 7", answer).size == 0
    for question in ("", "  \n"):
        assert shown(question, [3])[0] == "SELECT COUNT(player)"


def test_lower_case_of_a_span_is_its_own():
    # The capital sigma becomes another letter at the end of a word; the dotted I becomes two.
    for cell, question in (("ασ", "ΑΣΑ"), ("i̇x", "İX y")):
        table = Table("1-1", ("a",), ("text",), ((cell,), ("z",)))
        results = brute_results(table, question, SqlRules())
        expected = in_order(row for row, result in results.items() if result == [cell])
        assert enumerate_sql(table, question, [cell]).queries.tolist() == [*map(list, expected)]


def wide_table(width, length=30, seed=0):
    rng = np.random.default_rng(seed)
    rows = tuple(map(tuple, rng.integers(0, 100, (length, width)).astype(float).tolist()))
    return Table("1-1", ("same name",) * width, ("real",) * width, rows)


@pytest.mark.slow
def test_two_hundred_columns():
    table = wide_table(200)
    question = "between 10 and 90, or 50 of them"
    found = enumerate_sql(table, question, [42.0], SqlRules(cap=1000))
    # All sets of three would be 200 million.
    assert found.max_conditions == 2 and len(found.queries) == 1000 < found.size
    fewer = enumerate_sql(table, question, [42.0], SqlRules(cap=1000, max_combinations=1))
    assert fewer.max_conditions == 0
    assert (fewer.queries[:, 2] == 0).all()


@pytest.mark.parametrize("length", [1, 8, 63, 64, 65, 700])
def test_tables_of_any_length(length):
    table = wide_table(3, length)
    question = "20 or 70"
    results = brute_results(table, question, SqlRules(max_conditions=2))
    for answer, number in Counter(map(tuple, results.values())).most_common(3):
        found = enumerate_sql(table, question, list(answer), SqlRules(max_conditions=2))
        assert found.size == number


def test_a_value_in_a_question_without_spaces_is_found():
    table = Table("t", ("城市", "人口"), ("text", "real"), (("北京", 21.5), ("上海", 24.9)))
    question = "北京的人口是多少？"
    assert split_words(question).tolist() == [[i, i + 1] for i in range(9)]
    assert "SELECT 人口 WHERE 城市 = '北京'" in shown(question, [21.5], table=table)


def test_match_sees_each_result_once_and_decides_alone():
    seen = []

    def match(result):
        seen.append(tuple(map(repr, result)))
        return result == ["ann"] or result == ["bo"]

    found = enumerate_sql(PLAYERS, "red with 9", rules=SqlRules(), match=match)
    assert len(seen) == len(set(seen))
    words = split_words("red with 9")
    results = {
        tuple(execute_sql(PLAYERS, Query.from_row(row, "red with 9", words)))
        for row in found.queries
    }
    assert results == {("ann",), ("bo",)}


def test_match_tells_an_integer_from_a_float():
    table = Table("1-1", ("no.",), ("real",), ((1.0,),))
    words = split_words("")
    for text, aggregators in (("[1.0]", [0, 1, 2, 4, 5]), ("[1]", [3])):
        found = enumerate_sql(table, "", match=lambda result, text=text: repr(result) == text)
        assert [Query.from_row(row, "", words).aggregator for row in found.queries] == aggregators


def test_sums_are_compared_to_the_last_bit():
    """Whatever the order of additions in arrays is: SQLite's result is in Z, its neighbours not."""
    rng = random.Random(0)
    question = " ".join(map(str, range(-9, 10)))
    rules = SqlRules(max_conditions=1)
    for length in (12, 60, 1500, 1500):  # long columns are added up in parts
        cells = [tuple(round(rng.uniform(-10, 10), 2) for _ in "ab") for _ in range(length)]
        table = Table("1-1", ("a", "b"), ("real", "real"), tuple(cells))
        results = brute_results(table, question, rules)
        sums = {result[0] for row, result in results.items() if row[1] in (4, 5)}
        for value in rng.sample(sorted(sums), 8):
            for answer in (value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf)):
                found = enumerate_sql(table, question, [float(answer)], rules).queries
                expected = in_order(row for row, y in results.items() if y == [answer])
                assert found.tolist() == [*map(list, expected)]


GOLFERS = (("Gary Player", "South Africa", 1), ("Tom Watson", "United States", 2))
GOLF = Table("1-1", ("Player", "Country", "Place"), ("text", "text", "real"), GOLFERS)
WHICH = "Which country does Gary Player play for?"


def test_case_of_cells_and_answers_does_not_matter():
    rows = tuple((player.lower(), country.lower(), place) for player, country, place in GOLFERS)
    lower = Table(GOLF.id, GOLF.header, GOLF.types, rows)
    expected = enumerate_sql(lower, WHICH, ["south africa"]).queries.tolist()
    assert expected and [1, 0, 1, 0, 0, 3, 4] + [-1] * 8 in expected
    for answer in (["South Africa"], ("south africa",), np.array(["SOUTH AFRICA"])):
        assert enumerate_sql(GOLF, WHICH, answer).queries.tolist() == expected


def test_the_number_of_combinations_limits_the_number_of_conditions():
    table = Table("1-1", ("a", "b"), ("text", "text"), (("x", "y"), ("x", "z"), ("w", "y")))
    # No condition, two of one, one of both: 1, 3 and 4 combinations, and never more.
    for limit, expected in ((2, 0), (3, 1), (4, 3)):
        rules = SqlRules(max_combinations=limit)
        assert enumerate_sql(table, "x y", ["x"], rules).max_conditions == expected


def test_null_among_the_cells_of_an_answer():
    for length in (7, 8, 9):  # the rows of a mask are bits of bytes
        cells = [*[None] * (length - 1), "x"]
        table = Table("1-1", ("a",), ("text",), tuple((cell,) for cell in cells))
        (query,) = enumerate_sql(table, "", cells).queries
        assert query[:3].tolist() == [0, 0, 0]


def test_a_sum_that_is_no_number_is_null():
    table = Table("1-1", ("a",), ("real",), ((np.inf,), (-np.inf,)))
    found = enumerate_sql(table, "", [None]).queries
    aggregators = [Query.from_row(row, "", split_words("")).aggregator for row in found]
    expected = [a for a in range(6) if execute_sql(table, Query(0, a)) == [None]]
    assert aggregators == expected == [4, 5]


def of_cells(kind, *cells):
    return Table("1-1", ("a", "b"), ("text", kind), tuple(("x", cell) for cell in cells))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SqlRules(max_conditions=4), InputError, "max_conditions: expected .* found 4"),
        (lambda: SqlRules(numbers="hole"), InputError, "numbers: expected one of .*, found 'hole'"),
        ((GOLF, WHICH, "Gary Player"), TypeError, "^answer: expected a list of ce"),
        ((GOLF, WHICH, None), TypeError, "^answer: expected a list of ce"),
        ((GOLF, WHICH, b"x"), TypeError, "^answer: expected a list of ce"),
        ((GOLF, WHICH, [["x"]]), TypeError, "^answer: expected strings, numb"),
        ((GOLF, None, ["x"]), TypeError, "^question: expected a string, foun"),
        (([["x"]], "x?", ["x"]), TypeError, "^table: expected a Table, found"),
        ((GOLF, "a " * 40_000, ["x"]), InputError, "at most 32767 words, found 40000"),
        ((of_cells("real", 1, 2**64), "x", ["x"]), InputError, "'b': row 1 of a real .*1844"),
        ((of_cells("text", "x", "\ud800"), "x", ["x"]), InputError, "row 1 of a text column"),
        (lambda: Table("1-1", ("a",), ("text",), ((),)), ValueError, "row 0: .* 1 cells, found 0"),
    ],
)
def test_what_makes_no_sense_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call() if callable(call) else enumerate_sql(*call)
