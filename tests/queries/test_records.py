"""Z of a question on a table: its words and queries."""

import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.queries.records import SameCells, query_question
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.enumeration import enumerate_sql
from hardem_jax.queries.solutions.types import Condition, Query, SqlRules
from hardem_jax.queries.task import is_answer
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.metrics import Denotation
from hardem_jax.tables.table import Table, split_words
from tests.queries.solutions.official import official

RULES = SqlRules(aggregates_on_text=True)
ROWS = (("ann", 7, "o'hara"), ("bo", 9.5, None), ("cy", None, "'; drop table t; --"))
TABLE = Table("1-1", ("player", "no.", ""), ("text", "real", "text"), ROWS)
CITIES = Table("csv/2.csv", ("city", "city"), ("text", "text"), (("bonn", "1.0"), ("rome", "2")))
EMPTY = Table("1-3", ("a",), ("text",), ())


def ask(id, question, *answer, table=TABLE, **changes):
    return TableQuestion(id, question, table, answer, **changes)


QUESTIONS = [
    ask("q1", "Who has 7?", "ann"),
    ask("q2", "Not Bonn?", "Rome", table=CITIES, match="denotation", values=("Rome",)),
    ask("q3", "Whose number is 9.5, and who is Cy?", 9.5),
    ask("q4", "Is there '; DROP TABLE t; -- ?", None),
    # As text, "two" is none of the cells; its value is.
    ask("q5", "How many?", "two", table=CITIES, match="denotation", values=("2.0",)),
]
UNSOLVED = [
    ask("q6", "Who has 12?", "dee"),
    ask("q7", "None?", 1, table=EMPTY),
    ask("q8", "How many?", "two", table=CITIES, match="denotation"),
]


def test_z_is_found_from_table_question_and_answer():
    for asked in QUESTIONS:
        found = query_question(asked, RULES)
        match = Denotation(asked.answer, asked.values).matches if found.values else None
        expected = enumerate_sql(asked.table, asked.question, asked.answer, RULES, match=match)
        np.testing.assert_array_equal(found.queries, expected.queries)
        np.testing.assert_array_equal(found.words, split_words(asked.question))
        assert found.num_queries == expected.size == len(found.queries) > 0
        for row in found.queries:
            result = official(asked.table, Query.from_row(row, found.question, found.words))
            assert match(result) if match else result == list(asked.answer)
    assert not any(query_question(asked, RULES).num_queries for asked in UNSOLVED)


PEOPLE = Table(
    "mine.csv",
    ("Who", "Goals", "Fee"),
    ("text", "real", "text"),
    (("Fay", 3.0, "1,000"), ("José  Luis", 5.0, "0.1"), ("Ann", 0.1, "0.2")),
)


@pytest.mark.parametrize(
    ("question", "answer", "query"),
    [
        ("Who has 3 goals?", ["Fay"], (0, 0)), ("Who has 5 goals?", [" jose\u0301 luis "], (0, 0)),
        ("How many goals of Fay?", ["3"], (1, 0)), ("How many goals of Fay?", ["3.0"], (1, 0)),
        ("What fee has Fay?", ["1000"], (2, 0)), ("What fee has Fay?", [1000], (2, 0)),
        ("How many goals in total?", ["8.1"], (1, 4)),
        ("What is the average of goals?", ["2.7"], (1, 5)),  # 2.6999999999999997
        ("How many have over 3?", ["1"], (0, 3)),
        ("Who has over 1 goals?", ["FAY", "José Luis"], (0, 0)),
    ],
)  # fmt: skip
def test_an_answer_is_compared_as_a_person_does(question, answer, query):
    """In Z and in scores, though the engine has texts in lower case and numbers as numbers."""
    found = query_question(ask("q", question, *answer, table=PEOPLE, match="cells"), RULES)
    queries = [Query.from_row(row, found.question, found.words) for row in found.queries]
    assert query in [(one.select, one.aggregator) for one in queries]
    assert all(is_answer(found, official(PEOPLE, one)) for one in queries)
    strict = query_question(ask("q", question, *answer, table=PEOPLE), RULES)
    assert strict.num_queries < found.num_queries or answer == ["Fay"]


def test_numbers_may_be_copied_and_answers_be_long():
    assert SameCells(["–8", "−3", "12,34,567"])([-8.0, -3.0, 1234567.0])
    table = Table("t", ("who", "n"), ("text", "real"), tuple((f"p{n}", n) for n in range(200)))
    answer = [f"P{n}" for n in range(100, 200)]
    found = query_question(ask("q", "Who is above 99?", *answer, table=table, match="cells"), RULES)
    assert [Query.from_row(row, found.question, found.words).select for row in found.queries] == [0]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (["9" * 23], ["9" * 22 + "8"]), (["9" * 400], ["9" * 399 + "8"]),
        (["Fay", "Ann"], ["ann", "fay"]), (["Fay"], ["fay", "fay"]), (["3"], [4.0]),
        (["Fay (1)"], ["fay"]),
        (["10000000000001"], [10000000000002.0]),  # such as ids
        (["0.3"], [0.3001]), ([None], []), (["3"], None),
    ],
)  # fmt: skip
def test_other_cells_are_no_answer(answer, result):
    asked = query_question(ask("q", "Who?", *answer, table=PEOPLE, match="cells"), RULES)
    assert not is_answer(asked, result)
    assert is_answer(asked, answer)


def test_another_comparison_is_refused():
    with pytest.raises(InputError, match="match: expected one of .*, found 'cell'"):
        query_question(ask("q", "Who?", "ann", match="cell"), RULES)


IDS = Table("t", ("who", "id"), ("text", "real"), (("ann", 2**53 + 1), ("bo", 2**53), ("cy", 7.0)))


@pytest.mark.parametrize("match", ["cells", "execution"])
@pytest.mark.parametrize(
    ("question", "answer", "query"),
    [
        (f"Who has {2**53 + 1}?", "ann", Query(0, 0, (Condition(1, 0, str(2**53 + 1)),))),
        (f"Who has {2**53 + 1:,}.0?", "ann", Query(0, 0, (Condition(1, 0, f"{2**53 + 1:,}.0"),))),
        (f"Who is above {2**53}?", "ann", Query(0, 0, (Condition(1, 1, str(2**53)),))),
        ("What has Ann?", 2**53 + 1, Query(1, 0, (Condition(0, 0, "Ann"),))),
        ("What is the highest?", 2**53 + 1, Query(1, 1)),
    ],
)
def test_whole_numbers_are_exact(question, answer, query, match):
    found = query_question(ask("q", question, answer, table=IDS, match=match), SqlRules())
    queries = [Query.from_row(row, found.question, found.words) for row in found.queries]
    assert query in queries
    for one in queries:
        result = execute_sql(IDS, one)
        assert result == [answer] and is_answer(found, result)
        assert official(IDS, one) == result
    wrong = query_question(ask("q", question, "bo", 2**53, table=IDS, match=match), SqlRules())
    assert not is_answer(wrong, ["bo", 2**53 + 1])
