"""Queries to look at: those of a build, with their columns, values and rows."""

import datetime
import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hardem_jax import find_queries
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.queries.builds import WikiSQL, WikiTableQuestions
from hardem_jax.queries.reader import TableReader
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.types import Query, SqlRules
from hardem_jax.queries.task import cells_text
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.metrics import Denotation
from hardem_jax.tables.table import Table
from tests.show.html_pages import Page

TABLE = {"Player": ["Ann", "Bo", "Cy"], "No.": [7, 8, 9], "Goals": [3, 1, 4]}


def check_queries(builder, examples):
    """Compares with the records that a build of these questions would hold."""
    examples = list(examples)
    total = 0
    for example, record in zip(examples, builder.solver.records(examples), strict=True):
        z = find_queries(example.table, example.question, example.answer, example.match)
        assert [list(query.row) for query in z] == record["queries"].tolist()
        assert (z.size, z.max_conditions) == (record["num_queries"], record["max_conditions"])
        for query in itertools.islice(z, 20):
            result = execute_sql(example.table, query.query)
            matches = Denotation(tuple(map(str, example.answer))).matches(result)
            assert matches or result == list(example.answer)
            selected = Query(query.query.select, 0, query.query.conditions)
            cells = [example.table.rows[row][query.query.select] for row in query.rows]
            assert execute_sql(example.table, selected, as_written=True) == cells
        total += len(z)
    return total


@pytest.mark.parametrize(
    ("builder", "name", "questions", "queries"),
    [(WikiSQL(), "wikisql", 60, 1000), (WikiTableQuestions(), "wikitablequestions", 15, 10)],
)
def test_queries_are_those_of_a_build(shared_dir, builder, name, questions, queries):
    examples = builder.read(shared_dir / "data" / name, "dev", ExclusionCounts())
    assert check_queries(builder, itertools.islice(examples, questions)) > queries


def test_answers_are_whole_and_cut_only_where_they_are_shown():
    column, every = tuple((n,) for n in range(12)), ", ".join(map(str, range(12)))
    asked = TableQuestion("q", "All?", Table("t", ("n",), ("real",), column), tuple(range(12)))
    found = SimpleNamespace(query=Query(0, 0), result=())
    assert TableReader.texts(None, asked, found)[1] == every
    assert cells_text(asked.answer) == every.replace(", 10, 11", " and 2 more")


def test_what_is_shown_of_queries():
    question = "How many goals of Number 8 or 7?"
    z = find_queries(TABLE, question, 1, rules=SqlRules(max_conditions=1))
    query = next(query for query in z if query.text == "SELECT MAX(Goals) WHERE No. = '8'")
    assert (query.column, query.aggregator, query.rows) == ("Goals", "max", (1,))
    assert [question[a:b] for a, b in query.values] == ["8"] and query in z
    assert query.row[:7] == (2, 1, 1, 1, 0, 5, 5) and z.match == "cells" and z.answer == (1,)
    bo = find_queries(TABLE, "Who wears 8?", ["Bo"], rules=SqlRules(max_conditions=1))
    assert str(bo).splitlines() == [
        "1 query with the answer Bo",
        "  [0]  SELECT Player WHERE No. = '8'  row 1",
    ]
    every = find_queries({"n": [1, 2, 3, 4, 5]}, "Total?", 15)
    assert every[0].rows == (0, 1, 2, 3, 4) and "every row" in str(every)
    capped = find_queries(TABLE, question, 1, rules=SqlRules(cap=3))
    assert len(capped) == 3 < capped.size
    assert f"The first of {capped.size} queries." in str(capped)
    for answer in ("bo", ("BO",), iter(["Bo"])):
        assert find_queries(TABLE, "Who wears 8?", answer)[0] == bo[0]
    cities = {"city": ["New  York", "Rome"], "n": [5, 6]}
    spaced = find_queries(cities, "How many in New\u00a0York?", 5)
    assert "SELECT n WHERE city = 'New York'" in [query.text for query in spaced]


TYPED = {
    "name": ["ann", "bo"],
    "ok": [True, False],
    "day": [datetime.date(2010, 7, 6), datetime.date(2011, 1, 2)],
    "x": [1.0, None],
    "id": [1234567890123456789, 1234567890123456790],
}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (True, "SELECT ok WHERE name = 'ann'"),
        (np.True_, "SELECT ok WHERE name = 'ann'"),
        (datetime.date(2010, 7, 6), "SELECT day WHERE name = 'ann'"),
        (datetime.datetime(2010, 7, 6), "SELECT day WHERE name = 'ann'"),
        (pd.Timestamp("2010-07-06"), "SELECT day WHERE name = 'ann'"),
        (np.datetime64("2010-07-06", "ns"), "SELECT day WHERE name = 'ann'"),
        (1234567890123456789, "SELECT id WHERE name = 'ann'"),
        (np.int64(1234567890123456789), "SELECT id WHERE name = 'ann'"),
        (np.array("ann"), "SELECT name WHERE name = 'ann'"),
    ],
)
def test_answers_are_read_as_cells_are(answer, text):
    for match in ("execution", "denotation"):
        z = find_queries(TYPED, "and ann?", answer, match)
        assert text in [query.text for query in z]
        assert not any("COUNT" in query.text for query in z)


@pytest.mark.parametrize(
    ("answer", "cell"),
    [("175 cm", 175), ("6 %", 6), ("5*", 5), ("9 goals", 9), ("7 m", "7 m"), ("Bo", "Bo")],
)
def test_an_answer_is_what_the_table_has_of_the_cell_that_it_is_copied_from(answer, cell):
    columns = {"H": ["180 cm", "175 cm"], "S": ["5 %", "6 %"], "K": ["9", "5*"]}
    z = find_queries(columns | {"P": ["Ann", "Bo"], "T": ["tall", "7 m"]}, "And Bo?", answer)
    assert z.answer == (cell,) and len(z)


def test_a_question_may_have_a_minus_sign():
    table = {"City": ["Ulm", "Bonn"], "T": ["−5", "5"]}
    assert "SELECT City WHERE T = '-5'" in [
        z.text for z in find_queries(table, "Was it −5 °C?", "Ulm")
    ]


def test_accents_are_those_of_cells_however_they_are_composed():
    table = {"City": ["Ko\u0308ln", "Bonn"], "Rivers": [7, 3]}
    for question in ("How many in Köln?", "How many in Ko\u0308ln?"):
        assert "SELECT Rivers WHERE City = 'Köln'" in str(find_queries(table, question, 7))
    assert "SELECT City WHERE Rivers = '7'" in str(
        find_queries(table, "Which has 7?", "Ko\u0308ln")
    )


def test_a_missing_answer_is_null():
    none = find_queries(TYPED, "x of bo?", None)
    assert "SELECT x WHERE name = 'bo'" in [query.text for query in none]
    for answer in (float("nan"), pd.NaT, pd.NA):
        assert find_queries(TYPED, "x of bo?", answer).solutions == none.solutions
    # As a denotation, NULL is no item, and no text either.
    table = {"a": ["NULL", "x"], "b": ["p", "q"]}
    assert "SELECT a WHERE b = 'p'" not in str(find_queries(table, "p?", None, "denotation"))


def test_columns_of_one_name_are_told_apart():
    frame = pd.DataFrame([["Ann", 3, 1], ["Bo", 1, 3]], columns=["Player", "Score", "Score"])
    z = find_queries(frame, "Score of Bo?", 3)
    texts = [query.text for query in z]
    assert len(set(texts)) == len(texts) and "SELECT Score_3 WHERE Player = 'Bo'" in texts
    heads = [node.text for node in Page(z._repr_html_()).all("th") if "index" not in node.classes]
    assert heads == ["", "Player", "Score", "Score Score_3"]
    blank = find_queries({"": ["x", "y"], " ": [1, 2]}, "has 1?", "x")
    assert [query.text for query in blank] == ["SELECT _1 WHERE   = '1'"]


def test_denotations_are_compared_as_people_write_them():
    table = {"City": ["Oslo", "Bonn"], "People": ["709,037", "327,258"]}
    asked = table, "How many people live in Oslo?"
    assert len(find_queries(*asked, 709037.0, rules=SqlRules(max_conditions=1))) > 0
    exact = find_queries(*asked, "709,037", "execution")
    assert len(exact) == 0 and 'match="cells"' in str(exact)
    assert "No cell is the text '709,037'." in str(exact)
    loose = find_queries(*asked, "709,037", "denotation")
    assert "SELECT People WHERE City = 'Oslo'" in [query.text for query in loose]
    for again in (find_queries(*asked, 709037, "denotation"), find_queries(*asked, "709,037")):
        assert [query.row for query in again] == [query.row for query in loose]


def test_the_page_marks_question_and_table():
    question = "How many <goals> of number 8?"
    z = find_queries(TABLE, question, 1, rules=SqlRules(max_conditions=1))
    wanted = [query.text == "SELECT Goals WHERE No. = '8'" for query in z]
    z = z.with_probabilities([0.75 if yes else 0.0 for yes in wanted])
    page = Page(z._repr_html_())
    assert page.texts("div", "text") == [question]
    assert [(n.text, n.shade) for n in page.all("mark")] == [("8", 0.75)]
    shades = {n.text: n.shade for n in page.nodes if "used" in n.classes}
    assert shades["Goals"] == shades["1"] == 0.75
    assert {n.text for n in page.all("td", "asked")} >= {"8"}
    assert page.texts("th") == ["", "Player", "No.", "Goals", "0", "1", "2"]
    assert page.texts("code")[0] == "SELECT Goals WHERE No. = '8'"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((TABLE, " ", "Bo"), InputError, "question: expected a question"),
        ((TABLE, None, "Bo"), TypeError, "question: expected a string"),
        (({}, "Who?", "Bo"), InputError, "table: expected columns"),
        ((7, "Who?", "Bo"), TypeError, "table: expected a dict of columns"),
        (("no.csv", "Who?", "Bo"), InputError, "no.csv: "),
        (({"a": [1], "b": [1, 2]}, "?", "B"), InputError, "1 in 'a' and 2 in 'b'"),
        (({"a": "text"}, "?", "B"), TypeError, "table: column 'a': expected a list of values"),
        (({"a": [object()]}, "?", "B"), TypeError, "table: column 'a'"),
        ((TABLE, "Who?", "Bo", "exact"), InputError, "match: expected one of"),
        ((TABLE, "Who?", [object()]), TypeError, "answer: expected strings, numbers or None"),
        ((Table("1", ("n",), ("real",), ()), "?", 2**70), InputError, "integers of 64 bits"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        find_queries(*arguments)
