"""Reading queries off and scoring them, with a model whose tables are given."""

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.queries.annotations import gold_in_solutions
from hardem_jax.queries.config import QueryInference
from hardem_jax.queries.distribution import QueryDistribution
from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.records import query_question
from hardem_jax.queries.solutions.types import Condition, Query, SqlRules
from hardem_jax.queries.task import QueryQuestions, QueryTask, is_answer
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.table import Table
from tests.task import given

TABLE = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0), ("cy", 9.0)))
QUESTION = "Who has 7?"  # words: who, has, 7, ?
SHAPES = {"select": (2,), "aggregator": (2, 6), "number": (4,), "column": (2,)}
SHAPES |= {"operator": (2, 3), "first": (2, 3, 4), "last": (2, 3, 4)}


def distribution(logits):
    yes = jnp.ones((len(logits["select"]), 2), bool)
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


#: Several queries lead to "ann".
RULES = SqlRules(aggregates_on_text=True)


def question(answer=("ann",), **changes) -> QueryQuestion:
    return query_question(TableQuestion("q", QUESTION, TABLE, answer, **changes), RULES)


def run(models, questions, golds=None, left_out=(), rules=RULES, **config):
    """Scores, answers, and the scores by question."""
    # As many as any test has, so that what reads them is compiled once.
    models = [*models, *[logits()] * (3 - len(models))]
    data = QueryQuestions(
        questions=questions,
        tables={TABLE.id: TABLE},
        golds=golds,
        left_out=dict.fromkeys(left_out, "a reason"),
    )
    task = QueryTask(QueryInference(batch_size=2, **config), rules)
    queries = [question.queries for question in questions]
    return given.read_and_scored(task, given.Given(models, distribution), data, queries)


def test_scores_are_what_they_say():
    right = logits(**WHO, **SEVEN)
    # MIN(player) executes to ann as well, by chance; MAX(player) does not.
    lucky = logits(select=[0], aggregator=[(0, 2)], number=[0], column=[])
    wrong = logits(select=[0], aggregator=[(0, 1)], number=[0], column=[])
    gold = Query(0, 0, (Condition(1, 0, "7"),))
    scores, answers, _ = run([right, lucky, wrong], [question()] * 3, golds={"q": gold})
    assert [a.query for a in answers] == [gold, Query(0, 2), Query(0, 1)]
    assert [a.result for a in answers] == [["ann"], ["ann"], ["cy"]]
    third = 100 / 3
    assert len(question().queries) == 4  # see `enumerate_sql`
    of_two = "accuracy", "non-empty accuracy", "accuracy |Z|=3-4", "in Z"
    expected = dict.fromkeys(of_two, 2 * third) | {"logical form": third, "hit@1": third}
    expected |= {"annotated if right": 50, "gold in Z": 100, "hit@5": 100}
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert 0 < scores["P<0.0001"] <= scores["P<0.001"] < 100
    without, _, _ = run([right], [question()])
    assert not {"logical form", "gold in Z", "hit@1"} & set(without)
    # As written in a file of one's own, and shown to people.
    scores, answers, _ = run([right, wrong], [question(("ANN",), match="cells")] * 2)
    assert scores["accuracy"] == 50 and answers[0].result == ["ann"]


def test_scores_of_questions_have_the_official_mean():
    """In their order, those left out at the end."""
    right = logits(**WHO, **SEVEN)
    wrong = logits(select=[0], aggregator=[(0, 1)], number=[0], column=[])
    below = {"operator": [(1, 2)], "first": [(1, 2, 2)], "last": [(1, 2, 2)]}
    nothing = logits(**WHO | below)  # no row has less than 7
    questions = [question(), question(), question(())]
    options = {"left_out": ["cut"], "decoding": "well-formed"}
    gold = Query(0, 0, (Condition(1, 0, "7"),))
    options |= {"golds": {"q": gold, "cut": gold}}
    scores, _, found = run([wrong, right, nothing], questions, **options)
    assert {name: values.tolist() for name, values in found.items()} == {
        "accuracy": [0, 100, 100, 0],
        "non-empty accuracy": [0, 100, 0, 0],
        "logical form": [0, 100, 0, 0],  # the official evaluator counts all of the gold file
    }
    assert scores["gold in Z"] == pytest.approx(100 * 2 / 3)
    assert scores["annotated if right"] == 50
    for name, values in found.items():
        assert values.mean() == pytest.approx(scores[name])


def decoded(model, decoding, **more):
    _, [answer], _ = run([model], [question()], decoding=decoding, **more)
    return answer


def test_the_answer_is_a_query_that_training_could_have_shown():
    """No player is "Who has 7" or above it, "has 7" is no number, and a text has no maximum."""
    favourites = WHO | {"column": [0], "operator": [(0, 0)], "aggregator": [(0, 1), (0, 0)]}
    span = {"first": [(0, 0, 0), (1, 0, 1)], "last": [(0, 0, 2), (1, 0, 2)]}
    model = logits(**favourites, **span)
    free = decoded(model, "well-formed")
    assert free.query == Query(0, 1, (Condition(0, 0, "Who has 7"),)) and free.result == [None]
    within = decoded(model, "query", rules=SqlRules())
    assert within.query.aggregator == 0
    assert within.query.conditions in [(Condition(1, o, "7"),) for o in range(3)]
    assert decoded(model, "query").query.aggregator == 1
    assert within.log_prob < free.log_prob < 0
    # Fewer than are asked for.
    task = QueryTask(QueryInference(decoding="well-formed", top=30), SqlRules(max_conditions=0))
    found = distribution({name: jnp.asarray(table)[None] for name, table in model.items()})
    out = task.decode(found, {"solutions": jnp.asarray(question().queries)[None]})
    out = {name: np.asarray(table[0]) for name, table in out.items()}
    reading = task.reading(None, 0, out, {"solutions_where": slice(None)})
    assert len(list(task.answers(question(), TABLE, reading))) == 12


def test_each_mention_of_a_value_makes_the_annotated_query():
    asked = query_question(TableQuestion("q", "7 has 7", TABLE, ("ann",)), RULES)
    gold = Query(0, 0, (Condition(1, 0, "7"),))
    task = QueryTask(QueryInference(), RULES)
    data = QueryQuestions(questions=[asked], tables={TABLE.id: TABLE}, golds={"q": gold})
    first, second = gold_in_solutions(asked, gold)
    solutions = np.full(len(asked.queries), -3.0)
    solutions[[first, second]] = -9, -1
    reading = task.reading(None, 0, {**logits(), "solutions": solutions}, {"solutions_where": ...})
    assert task.more_outcomes(data, asked, reading, None)["hit@1"]


def test_the_most_likely_result_has_the_most_probability_together():
    model = logits(operator=[(1, 0)], **SEVEN)
    only = np.where(np.eye(6, dtype=bool), 0.0, -30.0)
    model["select"][:] = np.log([0.6, 0.4])
    model["aggregator"][:] = only[1], only[2]  # MAX(player), MIN(no.)
    model["number"][:] = 0, 0, -30, -30  # with and without a condition
    model["column"][:] = -30, 0
    by_query, by_result = decoded(model, "query"), decoded(model, "result")
    assert by_query.result in (["cy"], ["ann"])  # without, with no. = 7
    assert by_result.result == [7.0]  # both
    assert np.exp(by_result.log_prob - by_query.log_prob) == pytest.approx(0.8 / 0.6, rel=1e-2)


def test_execution_guided_decoding_passes_over_conditions_that_no_row_meets():
    favourites = WHO | {"column": [0], "operator": [(0, 0), (0, 2)], "aggregator": [(0, 1), (0, 0)]}
    model = logits(**favourites, first=[(0, 0, 0), (0, 2, 0)], last=[(0, 0, 2), (0, 2, 2)])
    guided = decoded(model, "execution-guided", rules=SqlRules())
    assert guided.query == Query(0, 0, (Condition(0, 2, "Who has 7"),))
    assert guided.result == ["ann", "bo", "cy"]
    # A count of no rows is 0, which is a result and yet says nothing.
    model["aggregator"][0] = [0, 0, 0, 9, 0, 0]
    guided = decoded(model, "execution-guided")
    assert guided.query == Query(0, 3, (Condition(0, 2, "Who has 7"),)) and guided.result == [3]


def test_greedy_decoding_lets_a_span_end_before_it_begins():
    model = logits(**WHO, first=[(1, 0, 2)], last=[(1, 0, 0)])
    _, [found], _ = run([model], [question()], decoding="greedy")
    assert found.query.conditions[0].value == ""


def test_an_error_of_the_engine_is_wrong_and_not_the_end():
    """The official engine finds no number in "Who" for the real column."""
    model = logits(**WHO, first=[(1, 0, 0)], last=[(1, 0, 0)])
    scores, [found], _ = run([model], [question(())], top=1, decoding="well-formed")
    assert found.result is None and scores["accuracy"] == 0


def test_the_metric_is_that_of_the_data_set():
    strict = question(("Ann", "Bo"))
    assert strict.match == "execution" and not is_answer(question(("7",)), [7.0])
    assert is_answer(strict, ["ann", "bo"]) and not is_answer(strict, ["bo", "ann"])
    assert not is_answer(strict, None)
    asked = TableQuestion("q", QUESTION, TABLE, ("Bo", "Ann"), match="denotation")
    loose = query_question(asked, SqlRules(max_conditions=0))
    assert is_answer(loose, ["ann", "bo"]) and not is_answer(loose, ["ann"])
    assert not is_answer(loose, None)
