"""Training that looks for queries: rewards are those of Z, and Z itself is never read."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.equations.task import EquationTask
from hardem_jax.errors import InputError
from hardem_jax.queries.config import QueryInference
from hardem_jax.queries.search import MAX_LINKS, QueryExecutor
from hardem_jax.queries.solutions.enumeration import enumerate_sql
from hardem_jax.queries.solutions.types import ROW_WIDTH, SqlRules
from hardem_jax.queries.task import QueryQuestions, QueryTask
from hardem_jax.search.objectives import MAPO, BeamHardEM, BeamMML, Reinforce
from hardem_jax.tables.search import WithoutSolutions, make_search_loss
from hardem_jax.task import start
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.step import accumulated_value_and_grad
from tests.marks import slow
from tests.queries.test_task import RULES, SHAPES, TABLE, distribution, question
from tests.tables.search_runs import OneByOne, learns_and_resumes
from tests.task.listed import Listed

QUESTIONS = [question(), question(answer=(9.0,)), question(answer=(2.0,)), question(answer=(0,))]
TABLES = {TABLE.id: TABLE}
ROWS = 8


class Tables(nnx.Module):
    """Logits that are the same for every row."""

    def __init__(self):
        rng = np.random.default_rng(0)
        draw = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
        self.logits = nnx.Dict({n: nnx.Param(jnp.asarray(x, jnp.float32)) for n, x in draw.items()})

    def __call__(self, batch, *, rngs=None):
        rows = len(batch["item"])
        logits = {n: jnp.repeat(param[...][None], rows, 0) for n, param in self.logits.items()}
        return distribution(logits)


def executor(questions=QUESTIONS, rules=RULES):
    return QueryExecutor(questions, TABLES, rules)


def batch_of(objective):
    item = np.array([0, 1, 2, 3, -1, 0, 1, -1], np.int32)
    batch = {"item": item, "row_where": item >= 0}
    if memory := objective.remembers(ROW_WIDTH):
        batch["memory"] = {n: np.repeat(row[None], ROWS, 0) for n, row in memory.items()}
    return batch


@functools.cache
def compiled(objective, parts):
    """Of a batch, with the executor that it asks."""
    graphdef, params = nnx.split(Tables(), nnx.Param)
    run = executor()
    loss = make_search_loss(graphdef, objective, run.space)
    keys = dict(zip(("key", "dropout_key"), jax.random.split(jax.random.key(2)), strict=True))
    if parts == 1:
        function = jax.value_and_grad(loss, has_aux=True)
    else:
        function = accumulated_value_and_grad(loss, parts)
    return jax.jit(lambda batch: function(params, batch, step=0, **keys)), run


def value_and_grad(objective, batch, questions=QUESTIONS, parts=1):
    function, run = compiled(objective, parts)
    run.questions = questions
    run.test.cache_clear()
    return jax.block_until_ready(function(batch))


@pytest.mark.parametrize("rules", [RULES, *slow(SqlRules(), SqlRules(max_conditions=1))])
def test_a_reward_is_membership_in_z(rules):
    spans = [(s, e) for s in range(4) for e in range(s, 4)]
    one = [[[c, o, s, e] for o in range(3) for s, e in spans] for c in range(2)]
    clauses = [[], *one[0], *one[1], *(x + y for x in one[0] for y in one[1])]
    space = np.array(
        [
            [*head, len(clause) // 4, *clause] + [-1] * (12 - len(clause))
            for head in itertools.product(range(2), range(6))
            for clause in clauses
        ]
    )
    items = np.array([3, 1, 0, 2])
    queries = np.broadcast_to(space, (4, *space.shape))
    run = executor(rules=rules)
    found = run.rewards(items, queries, np.ones(queries.shape[:2], bool))
    assert found.dtype == np.float32 and found.sum() > 5
    for row, item in enumerate(items):
        asked = QUESTIONS[item]
        known = enumerate_sql(TABLE, asked.question, asked.answer, rules).queries.tolist()
        assert found[row].tolist() == [float(z in known) for z in space.tolist()]
    where = np.arange(len(space)) % 2 == 0
    half = run.rewards(items, queries, np.broadcast_to(where, found.shape))
    np.testing.assert_array_equal(half, found * where)


def test_candidates_are_those_of_z_tot():
    """All queries with conditions that some row meets, and none else, by answer-blind rules."""
    item = jnp.zeros(1, jnp.int32)

    @jax.jit
    def candidates():
        batch = {"item": item}
        space = executor(rules=SqlRules()).space(Tables()(batch), batch)
        return space.beam(100)[0], space.sample(jax.random.key(0), 300)[0]

    queries, drawn = map(np.asarray, candidates())
    queries = queries[queries[:, 0] >= 0]
    # "7" equals, and exceeds or is below, some of "no."; aggregates of text are not allowed.
    assert {tuple(z[3:7]) for z in queries.tolist() if z[2]} == {(1, 0, 2, 2), (1, 1, 2, 2)}
    assert {tuple(z[:2]) for z in queries.tolist()} == {(0, 0), (0, 3), *((1, a) for a in range(6))}
    assert len(queries) == 8 * 3
    assert {*map(tuple, drawn.tolist())} <= {*map(tuple, queries.tolist())}
    packed = executor().support(np.array([-1, 0]), 2)
    assert packed.shape == (2, 4 * MAX_LINKS + 12) and np.all(packed[0, :4] == -1)


@pytest.mark.parametrize(
    "objective", [Reinforce(samples=4), *slow(BeamMML(memory=3), MAPO(samples=8, memory=3))]
)
def test_deleting_z_from_the_data_changes_nothing(objective):
    without = [*WithoutSolutions(QUESTIONS, "queries")]
    assert all(len(q.queries) for q in QUESTIONS) and not any(len(q.queries) for q in without)
    batch = batch_of(objective)
    with_z = value_and_grad(objective, batch)
    jax.tree.map(np.testing.assert_array_equal, with_z, value_and_grad(objective, batch, without))
    (value, metrics), grads = with_z
    assert float(metrics["found"]) > 0 and np.isfinite(value)
    assert max(float(jnp.abs(g).max()) for g in jax.tree.leaves(grads)) > 0


@pytest.mark.parametrize("objective", [Reinforce(samples=4), *slow(BeamHardEM(memory=2), MAPO())])
def test_devices_ask_for_the_rewards_of_their_own_rows(objective):
    """Four devices give the numbers of one, and each executes its own two rows only."""
    batch, asked = batch_of(objective), []
    one = value_and_grad(objective, batch)
    original = QueryExecutor.rewards

    def recorded(self, items, queries, where):
        asked.append(np.asarray(items).tolist())
        return original(self, items, queries, where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryExecutor, "rewards", recorded)
        many = value_and_grad(objective, place_batch(batch, data_mesh(4)))
    rows = batch["item"].tolist()
    assert sorted(asked) == sorted(rows[i : i + 2] for i in range(0, ROWS, 2))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), one, many)


def test_parts_of_a_batch_are_searched_one_after_the_other():
    """Without randomness two parts add up to the whole, whose items are the questions found."""
    objective = BeamHardEM(beam=20, memory=3)
    batch = batch_of(objective)
    (value, metrics), grads = value_and_grad(objective, batch)
    halves = jax.tree.map(lambda x: x.reshape(2, ROWS // 2, *x.shape[1:]), batch)
    (accumulated, in_parts), sums = value_and_grad(objective, halves, parts=2)
    np.testing.assert_allclose(accumulated, value, rtol=1e-5)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), sums, grads)
    memory = jax.tree.map(lambda x: x.reshape(ROWS, *x.shape[2:]), in_parts["memory"])
    real = batch["row_where"]
    np.testing.assert_array_equal(memory["solutions"][real], metrics["memory"]["solutions"][real])
    assert in_parts["items"] == metrics["items"] == 6
    assert float(in_parts["found"]) == float(metrics["found"]) == 1


def test_tasks_that_cannot_be_searched_say_so():
    data = QueryQuestions(questions=QUESTIONS, tables=TABLES)
    with pytest.raises(InputError, match="equations, found MAPO, which searches"):
        start.training_of(EquationTask, MAPO(), data)  # type: ignore[arg-type]
    mean = QueryTask(QueryInference(), RULES, "mean")
    with pytest.raises(InputError, match="expected sum for MAPO"):
        start.training_of(mean, MAPO(), data)
    training: Any = start.training_of(QueryTask(QueryInference(), RULES), MAPO(memory=3), data)
    assert not any(len(q.queries) for q in training.data.questions)
    assert training.memory(5)["solutions"].shape == (5, 3, ROW_WIDTH)
    assert training.memory(5)["seen"].dtype == np.uint32


def test_questions_without_a_given_solution_are_trained_on_too():
    data = QueryQuestions(questions=QUESTIONS, tables=TABLES)
    training = start.training_of(QueryTask(QueryInference(), RULES), BeamMML(), data)
    inputs = Listed(range(4), [[4, 0], [3, 2], [4, 0], [2, 5]])
    batches = BatchConfig(batch_size=4, buckets=(4,), negatives=0)
    plan = training.plan(inputs, batches, num_steps=2, seed=0)
    assert sorted(plan[0].items[:, 0].tolist()) == [0, 1, 2, 3]


@pytest.mark.slow
def test_searching_finds_queries_and_is_rewarded_more(tmp_path):
    """And a run with a memory that was killed ends as if it had not been."""
    first = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    data = QueryQuestions(questions=QUESTIONS, tables=TABLES)
    objective = BeamHardEM(beam=1, samples=8, memory=4)
    training = start.training_of(QueryTask(QueryInference(), RULES), objective, data)
    model = OneByOne(first, len(QUESTIONS), lambda logits, batch: distribution(logits))
    learns_and_resumes(tmp_path, training, model, {})
