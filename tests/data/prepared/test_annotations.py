"""Annotated queries: where they are in Z, and a split that has nothing else."""

import dataclasses
import random

import numpy as np
import pytest

from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.annotations import (
    NOT_A_SPAN,
    NOT_ANNOTATED,
    OUTSIDE_RULES,
    OUTSIDE_TABLE,
)
from hardem_jax.data.prepared.queries import (
    PreparedQueries,
    gold_in_solutions,
    prepare_queries,
    query_question,
    supervised_split,
)
from hardem_jax.data.readers.wikisql import read_wikisql
from hardem_jax.errors import InputError
from hardem_jax.metrics.wikisql import logical_form_match
from hardem_jax.solutions.sql.enumeration import (
    ROW_WIDTH,
    Condition,
    OfficialEngine,
    Query,
    SqlRules,
    Table,
)

ROWS = (("ann", 7.0, "éire"), ("bo", 9.0, "éire"), ("ann", 9.0, "wales"))
TABLE = Table("1-1", ("player", "no.", "team"), ("text", "real", "text"), ROWS)
TEXT = "Ann of Éire has 9, and 7 has Ann, not 9?"
ANN, EIRE, SEVEN = Condition(0, 0, "ann"), Condition(2, 0, "ÉIRE"), Condition(1, 0, 7)


def found(text=TEXT, answer=("ann",), table=TABLE, **rules):
    return query_question(TableQuestion("q", text, table, answer), SqlRules(**rules))


def same_form(query, other):
    """Multisets of conditions, in lower case."""
    forms = [
        sorted((c.column, c.operator, str(c.value).lower()) for c in each.conditions)
        for each in (query, other)
    ]
    heads = [(each.select, each.aggregator) for each in (query, other)]
    return heads[0] == heads[1] and forms[0] == forms[1]


@pytest.mark.parametrize("rules", [{}, {"shared_columns": True}])
def test_every_query_of_z_is_found_at_the_first_row_of_its_form(rules):
    question = found(**rules)
    queries = [Query.from_row(row, TEXT, question.words) for row in question.queries]
    rng = random.Random(0)
    assert len({len(query.conditions) for query in queries}) == 4
    for query in rng.sample(queries, 60):
        shuffled = rng.sample(query.conditions, len(query.conditions))
        shouted = [dataclasses.replace(c, value=c.value.upper()) for c in shuffled]
        first = next(n for n, other in enumerate(queries) if same_form(query, other))
        asked = Query(query.select, query.aggregator, tuple(shouted))
        assert gold_in_solutions(question, asked) == first
        assert logical_form_match(queries[first], asked)


@pytest.mark.parametrize(
    ("query", "there"),
    [
        (Query(0, 0, (SEVEN,)), True),
        (Query(0, 0, (EIRE, SEVEN)), True),
        (Query(0, 0, (SEVEN, EIRE, ANN)), True),
        (Query(0, 1, (SEVEN,)), True),
        (Query(0, 2), True),
        (Query(0, 0), False),  # three rows
        (Query(2, 0, (SEVEN,)), False),
        (Query(0, 0, (Condition(1, 0, 9),)), False),
        (Query(0, 0, (Condition(1, 1, 7),)), False),  # two rows
        (Query(0, 0, (Condition(1, 2, 9),)), True),
        (Query(0, 0, (Condition(1, 0, 7.0),)), False),  # "7.0" is not what the question says
        (Query(0, 0, (SEVEN, SEVEN)), False),
        (Query(0, 0, (SEVEN, EIRE, ANN, ANN)), False),
        (Query(9, 9, (Condition(9, 9, "x"),)), False),
    ],
)
def test_a_query_is_in_z_or_it_is_not(query, there):
    question = found()
    place = gold_in_solutions(question, query)
    assert (place >= 0) == there
    if there:
        assert same_form(Query.from_row(question.queries[place], TEXT, question.words), query)


def test_nothing_is_in_an_empty_z():
    question = found(answer=("nobody",))
    assert not len(question.queries)
    for query in (Query(0, 0), Query(0, 0, (SEVEN,))):
        assert gold_in_solutions(question, query) == -1


def supervise(tmp_path, gold, rules=None):
    """The supervised split of one question for each annotated query."""
    questions = [TableQuestion(id, TEXT, TABLE, ("ann",)) for id in gold]
    prepare_queries(
        questions,
        tmp_path / "train",
        rules=rules or SqlRules(),
        sources={"train.jsonl": "digest"},
        exclusions=ExclusionCounts(),
        keep_without_solution=False,
        replace=True,
    )
    exclusions = ExclusionCounts()
    gold = {id: query for id, query in gold.items() if query is not None}
    meta = supervised_split(
        tmp_path / "train", gold, tmp_path / "gold", exclusions=exclusions, replace=True
    )
    return meta, exclusions, PreparedQueries(tmp_path / "gold")


def test_the_annotated_query_takes_the_place_of_z(tmp_path):
    gold = {
        "first": Query(0, 3, (ANN,)),
        "sorted": Query(1, 0, (EIRE, SEVEN, ANN)),
        "nothing": Query(2, 2),
        "number": Query(0, 0, (Condition(1, 2, 9),)),
        "phrase": Query(0, 0, (Condition(0, 0, "ANN OF Éire"),)),
    }
    meta, exclusions, split = supervise(tmp_path, gold)
    unused = [-1] * 4
    expected = {
        "first": [0, 3, 1, 0, 0, 0, 0, *unused, *unused],
        "sorted": [1, 0, 3, 0, 0, 0, 0, 1, 0, 7, 7, 2, 0, 2, 2],
        "nothing": [2, 2, 0, *unused, *unused, *unused],
        "number": [0, 0, 1, 1, 2, 4, 4, *unused, *unused],
        "phrase": [0, 0, 1, 0, 0, 0, 2, *unused, *unused],
    }
    assert {q.id: q.queries.tolist() for q in split.questions} == {
        id: [row] for id, row in expected.items()
    }
    for question in split.questions:
        assert question.queries.dtype == np.int16 and question.num_queries == 1
        query = Query.from_row(question.queries[0], question.question, question.words)
        assert logical_form_match(query, gold[question.id])
        assert gold_in_solutions(question, gold[question.id]) == 0
    assert meta == split.meta and meta["supervised"] and exclusions.total == 0
    assert meta["solutions per question"] == {"mean": 1.0, "median": 1.0, "max": 1}
    assert meta["counts"]["questions"] == meta["counts"]["questions read"] == len(gold)
    assert "supervised" not in PreparedQueries(tmp_path / "train").meta


def test_all_but_z_stays_as_it_is(tmp_path):
    _, _, split = supervise(tmp_path, {"a": Query(0, 3, (ANN,)), "b": Query(0, 2)})
    weak = PreparedQueries(tmp_path / "train")
    assert split.rules == weak.rules and dict(split.tables) == dict(weak.tables)
    for ours, theirs in zip(split.questions, weak.questions, strict=True):
        np.testing.assert_array_equal(ours.words, theirs.words)
        same = [(q.id, q.question, q.table_id, q.answer, q.match, q.values) for q in (ours, theirs)]
        assert same[0] == same[1]


def test_queries_that_z_cannot_hold_are_left_out_and_counted(tmp_path):
    gold = {
        "kept": Query(0, 0, (SEVEN,)),
        "none": None,
        "column": Query(3, 0),
        "aggregator": Query(0, 6),
        "conditions": Query(0, 0, (SEVEN, EIRE, ANN, ANN)),
        "shared": Query(0, 0, (Condition(1, 1, 7), Condition(1, 2, 9))),
        "value": Query(0, 0, (Condition(0, 0, "an"),)),
        "blank": Query(0, 0, (Condition(0, 0, "ann "),)),
        "empty": Query(0, 0, (Condition(0, 0, ""),)),
        "float": Query(0, 0, (Condition(1, 0, 7.0),)),
    }
    meta, exclusions, split = supervise(tmp_path, gold)
    assert [q.id for q in split.questions] == ["kept"]
    assert meta["excluded"] == exclusions.as_dict()
    assert meta["excluded"] == {
        NOT_ANNOTATED: 1,
        OUTSIDE_TABLE: 2,
        OUTSIDE_RULES: 2,
        NOT_A_SPAN: 4,
    }
    assert exclusions.ids(OUTSIDE_RULES) == ("conditions", "shared")


def test_what_the_rules_of_the_split_allow_is_allowed(tmp_path):
    gold = {
        "shared": Query(0, 0, (Condition(1, 2, 9), Condition(1, 1, 7), Condition(1, 1, 9))),
        "two": Query(0, 0, (SEVEN, EIRE)),
    }
    _, _, split = supervise(tmp_path, gold, SqlRules(shared_columns=True))
    assert [q.id for q in split.questions] == ["shared", "two"]
    assert split.questions[0].queries[0, 3:].tolist() == [1, 1, 4, 4, 1, 1, 7, 7, 1, 2, 4, 4]
    gold["one"] = Query(0, 0, (SEVEN,))
    _, exclusions, _ = supervise(tmp_path, gold, SqlRules(max_conditions=1))
    assert exclusions.as_dict() == {OUTSIDE_RULES: 2}


def test_without_a_split_there_is_nothing_to_supervise(tmp_path):
    with pytest.raises(InputError, match="nowhere: expected a prepared split"):
        supervised_split(tmp_path / "nowhere", {}, tmp_path / "gold")
    assert not (tmp_path / "gold").exists()


def test_real_annotations_are_in_z_and_spans_of_their_question(tmp_path, shared_dir):
    examples = list(read_wikisql(shared_dir / "data" / "wikisql", "dev", skips=ExclusionCounts()))
    gold = {example.id: example.query for example in examples}
    with OfficialEngine() as engine:
        questions = [
            TableQuestion(e.id, e.question, e.table, tuple(engine.execute(e.table, e.query)))
            for e in examples
            if e.query is not None
        ]
    prepare_queries(
        questions,
        tmp_path / "dev",
        rules=SqlRules(),
        sources={},
        exclusions=ExclusionCounts(),
        keep_without_solution=True,
    )
    split = PreparedQueries(tmp_path / "dev")
    places = [gold_in_solutions(q, gold[q.id]) for q in split.questions]
    assert np.mean(np.array(places) >= 0) >= 0.97
    meta = supervised_split(tmp_path / "dev", gold, tmp_path / "gold")
    assert meta["counts"]["questions"] >= 0.97 * len(examples)
    supervised = {q.id: q for q in PreparedQueries(tmp_path / "gold").questions}
    for question, place in zip(split.questions, places, strict=True):
        if place >= 0 and question.id in supervised:
            row = supervised[question.id].queries[0]
            assert row.shape == (ROW_WIDTH,) and row.tolist() == question.queries[place].tolist()
