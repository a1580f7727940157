"""Reading queries off and scoring them, with a model whose tables are given."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.examples import QueryQuestion, TableQuestion
from hardem_jax.data.solve import query_question
from hardem_jax.distributions.sql import QueryDistribution
from hardem_jax.solutions.sql.enumeration import Condition, Query, SqlRules, Table
from hardem_jax.tasks.base import Reader
from hardem_jax.tasks.config import QueryInference
from hardem_jax.tasks.queries import QueryTask, TableQuestions, is_answer
from tests.tasks.listed import Listed

TABLE = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0), ("cy", 9.0)))
QUESTION = "Who has 7?"  # words: who, has, 7, ?
SHAPES = {
    "select": (2,),
    "aggregator": (2, 6),
    "number": (4,),
    "column": (2,),
    "operator": (2, 3),
    "first": (2, 3, 4),
    "last": (2, 3, 4),
}


class Given(nnx.Module):
    """Logits by question, taken by the rows of a batch."""

    def __init__(self, questions):
        self.logits = nnx.Dict(
            {name: nnx.Param(jnp.stack([q[name] for q in questions])) for name in SHAPES}
        )

    def __call__(self, batch, *, rngs=None):
        rows = batch["row"]
        logits = {name: param[...][rows] for name, param in self.logits.items()}
        yes = jnp.ones((len(rows), 2), bool)
        return QueryDistribution.from_logits(**logits, columns=yes, words=jnp.repeat(yes, 2, 1))


def logits(**favourites):
    """Zeros, with 9 at the places given, of several in falling order."""
    tables = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    for name, places in favourites.items():
        for rank, place in enumerate(places):
            tables[name][place] = 9 - rank
    return tables


WHO = {"select": [0], "aggregator": [(0, 0)], "number": [1], "column": [1], "operator": [(1, 0)]}
SEVEN = {"first": [(1, 0, 2)], "last": [(1, 0, 2)]}


def question(answer=("ann",), **changes) -> QueryQuestion:
    asked = TableQuestion("q", QUESTION, TABLE, answer, **changes)
    return query_question(asked, SqlRules(), lambda texts, values: None)


def run(models, questions, golds=None, left_out=(), **config):
    # As many as any test has, so that what reads them is compiled once.
    models = [*models, *[logits()] * (3 - len(models))]
    graphdef, params = nnx.split(Given(models), nnx.Param)
    num_solutions = max(len(q.queries) for q in questions)

    def pad(rows, num_tokens):
        del num_tokens
        batch = {
            "row": np.array([0 if row is None else row for row in rows]),
            "solutions": np.full((len(rows), num_solutions, 15), -1),
            "solutions_where": np.zeros((len(rows), num_solutions), bool),
        }
        for place, row in enumerate(rows):
            if row is not None:
                count = len(questions[row].queries)
                batch["solutions"][place, :count] = questions[row].queries
                batch["solutions_where"][place, :count] = True
        return batch

    task = QueryTask(QueryInference(batch_size=2, **config), SqlRules(max_conditions=3))
    reader = Reader(task, graphdef, lambda *_: pad, batches=BatchConfig(buckets=(4,)))
    data = TableQuestions(
        questions=questions,
        tables={TABLE.id: TABLE},
        golds=golds,
        left_out=dict.fromkeys(left_out, "a reason"),
    )
    inputs = Listed(range(len(questions)), [[4, len(q.queries)] for q in questions])
    return reader.evaluate(params, data, inputs)


def test_scores_are_what_they_say():
    right = logits(**WHO, **SEVEN)
    # MIN(player) executes to ann as well, by chance; MAX(player) does not.
    lucky = logits(select=[0], aggregator=[(0, 2)], number=[0], column=[])
    wrong = logits(select=[0], aggregator=[(0, 1)], number=[0], column=[])
    gold = Query(0, 0, (Condition(1, 0, "7"),))
    scores, answers = run([right, lucky, wrong], [question()] * 3, golds={"q": gold})
    assert [a.query for a in answers] == [gold, Query(0, 2), Query(0, 1)]
    assert [a.result for a in answers] == [["ann"], ["ann"], ["cy"]]
    third = 100 / 3
    assert len(question().queries) == 4  # see `enumerate_sql`
    expected = {
        "accuracy": 2 * third,
        "non-empty accuracy": 2 * third,
        "accuracy |Z|=3-4": 2 * third,
        "in Z": 2 * third,
        "logical form": third,
        "annotated if right": 50,
        "gold in Z": 100,
        "hit@1": third,
        "hit@5": 100,
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert 0 < scores["P<0.0001"] <= scores["P<0.001"] < 100
    without, _ = run([right], [question()])
    assert not {"logical form", "gold in Z", "hit@1"} & set(without)


def test_questions_left_out_are_wrong():
    gold = Query(0, 0, (Condition(1, 0, "7"),))
    golds = {"q": gold, "cut": gold}
    scores, _ = run([logits(**WHO, **SEVEN)], [question()], golds, left_out=["cut", "bare", "x"])
    assert scores["accuracy"] == scores["non-empty accuracy"] == 25
    assert scores["logical form"] == 50  # of those with an annotated query
    assert scores["accuracy |Z|=3-4"] == scores["gold in Z"] == scores["annotated if right"] == 100


def test_execution_guided_decoding_passes_over_empty_results():
    """No player is "Who has 7"; all come before it in the alphabet."""
    favourites = WHO | {"column": [0], "operator": [(0, 0), (0, 2)]}
    model = logits(**favourites, first=[(0, 0, 0), (0, 2, 0)], last=[(0, 0, 2), (0, 2, 2)])
    _, [plain] = run([model], [question()])
    assert plain.query == Query(0, 0, (Condition(0, 0, "Who has 7"),)) and plain.result == []
    _, [guided] = run([model], [question()], decoding="execution-guided")
    assert guided.query == Query(0, 0, (Condition(0, 2, "Who has 7"),))
    assert guided.result == ["ann", "bo", "cy"]
    _, [nothing] = run([model], [question()], decoding="execution-guided", top=1)
    assert nothing.result == []


def test_greedy_decoding_lets_a_span_end_before_it_begins():
    model = logits(**WHO, first=[(1, 0, 2)], last=[(1, 0, 0)])
    _, [found] = run([model], [question()], decoding="greedy")
    assert found.query.conditions[0].value == ""


def test_an_error_of_the_engine_is_wrong_and_not_the_end():
    """The official engine finds no number in "Who" for the real column."""
    model = logits(**WHO, first=[(1, 0, 0)], last=[(1, 0, 0)])
    scores, [found] = run([model], [question(())], top=1)
    assert found.result is None and scores["accuracy"] == 0


def test_the_metric_is_that_of_the_data_set():
    strict = question(("ann", "bo"))
    assert is_answer(strict, ["ann", "bo"]) and not is_answer(strict, ["bo", "ann"])
    assert not is_answer(strict, None)
    asked = TableQuestion("q", QUESTION, TABLE, ("Bo", "Ann"), match="denotation")
    loose = query_question(asked, SqlRules(max_conditions=0), _Never)
    assert is_answer(loose, ["ann", "bo"]) and not is_answer(loose, ["ann"])
    assert not is_answer(loose, None)


class _Never:
    def __init__(self, texts, values):
        json.dumps([texts, values])

    def matches(self, result):
        return False
