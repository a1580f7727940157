"""Training that looks for programs: rewards are those of Z, and Z itself is never read."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.programs.config import ProgramInference
from hardem_jax.programs.distribution import SLOTS, ProgramDistribution
from hardem_jax.programs.model import KINDS, NUM_KINDS
from hardem_jax.programs.search import support
from hardem_jax.programs.solutions.rules import ProgramRules, may_modify, may_select
from hardem_jax.programs.solutions.types import ROW_WIDTH, SHAPES, Field
from hardem_jax.programs.task import ProgramQuestions, ProgramTask
from hardem_jax.search.objectives import MAPO, BeamHardEM
from hardem_jax.task import start
from tests.marks import slow
from tests.programs.solutions.test_enumeration import Brute
from tests.programs.test_task import NUM_FIELDS, RULES, TABLE, question
from tests.tables.search_runs import OneByOne, learns_and_resumes

QUESTIONS = [question(answer=answer) for answer in (("ann",), ("bo",), ("cy",), ("3",))]
TABLES = {TABLE.id: TABLE}


def inputs_of(questions, rules=RULES):
    """What the model gives to the search, ``[N, ...]``: links, and what may fill the slots."""
    links = np.stack([q.links for q in questions]).astype(np.int32)
    suits = {}
    for place, (name, may) in enumerate(zip(SLOTS[:2], (may_select, may_modify), strict=True)):
        suits[name] = np.zeros((len(questions), NUM_KINDS[place], NUM_FIELDS), bool)
        for shape, kinds in zip(SHAPES, KINDS, strict=True):
            for code in questions[0].fields[:, 0].tolist() if kinds[place] >= 0 else ():
                allowed = may(shape, Field.from_code(code), len(TABLE.header))
                suits[name][:, kinds[place], code] |= allowed
    shapes = np.isin(np.arange(len(SHAPES)), rules.shapes())
    shapes = np.repeat(shapes[None], len(questions), 0)
    there = np.ones(links.shape[:2], bool)
    return {"links": links, "links_where": there, "shapes_where": shapes} | suits


def distribution(logits, batch):
    return ProgramDistribution.from_logits(
        **logits,
        kinds=KINDS,
        select_where=batch["select"],
        modify_where=batch["modify"],
        shape_where=batch["shapes_where"],
    )


def logits(num_links, draw):
    sizes = {"shape": (len(SHAPES),)}
    for place, name in enumerate(SLOTS):
        sizes[name] = (NUM_KINDS[place], num_links if "link" in name else NUM_FIELDS)
    return {name: draw(size).astype(np.float32) for name, size in sizes.items()}


def searching(objective, questions=QUESTIONS) -> Any:
    data = ProgramQuestions(questions=questions, tables=TABLES, rules=RULES)
    return start.training_of(ProgramTask(ProgramInference(), RULES), objective, data)


MANY = "did ann or cy or bo have 7 or more goals ?"
NEGATED = ProgramRules(contains=False, row_numbers=False, parts=False, redundant=True)


@pytest.mark.parametrize(
    "rules", [NEGATED, *slow(ProgramRules(redundant=True, max_pairs=9), RULES)]
)
def test_candidates_are_those_of_z_tot(rules):
    """Those that the device allows are all that nested loops find, and sum to their mass."""
    asked = question(MANY, rules=rules)
    every = [*Brute(TABLE, MANY, rules).programs()]
    if len(asked.links) ** 2 > rules.max_pairs:
        every = [z for z in every if SHAPES[z[0]].num_links < 2]
    batch = inputs_of([asked], rules)
    rng = np.random.default_rng(0)
    tables = logits(len(asked.links), lambda size: rng.normal(size=(1, *size)))

    @jax.jit
    def computed(tables, batch, every):
        found = distribution(tables, batch)
        within = support(batch, NUM_FIELDS, rules)
        assert (within.fields.dtype, within.links.dtype) == (bool, bool)
        drawn, _ = found.sample(jax.random.key(0), 3000, within=within)
        return found.log_mass(within=within), drawn, found.log_prob(every)

    mass, drawn, log_probs = computed(tables, batch, jnp.array([every]))
    assert {*map(tuple, drawn[0].tolist())} <= {*every}
    np.testing.assert_allclose(mass[0], jax.nn.logsumexp(log_probs), rtol=1e-4)
    assert mass[0] < -0.1 and len({SHAPES[z[0]].connective for z in every}) > 1


def test_solutions_are_found_and_remembered_without_z():
    """A row of padding in the batch changes nothing."""
    training = searching(BeamHardEM(beam=0, samples=32, memory=4))
    assert all(len(q.programs) for q in QUESTIONS) and not any(
        len(q.programs) for q in training.data.questions
    )
    assert training.memory(4)["solutions"].shape == (4, 4, ROW_WIDTH)
    model = OneByOne(logits(len(QUESTIONS[0].links), np.zeros), len(QUESTIONS), distribution)
    graphdef, params = nnx.split(model, nnx.Param)
    item = np.array([0, 1, 2, 3, -1], np.int32)
    batch = {"item": item, "row_where": item >= 0}
    batch |= {name: x[item] for name, x in inputs_of(QUESTIONS).items()}
    batch["memory"] = {name: x[item] for name, x in training.memory(4).items()}
    step = jax.jit(jax.value_and_grad(training.loss(graphdef, None), has_aux=True))
    found = 0
    for key in jax.random.split(jax.random.key(0), 6):
        (value, metrics), grads = step(params, batch, step=0, key=key, dropout_key=key)
        assert np.isfinite(value)
        batch["memory"] = metrics["memory"]
        found = max(found, float(metrics["found"]))
    assert found > 0.5 and max(float(jnp.abs(g).max()) for g in jax.tree.leaves(grads)) > 0
    for q, known in zip(QUESTIONS, np.asarray(metrics["memory"]["solutions"]), strict=False):
        z = {*map(tuple, q.programs.tolist())}
        assert {tuple(row) for row in known.tolist() if row[0] >= 0} <= z


@pytest.mark.slow
def test_searching_finds_programs_and_is_rewarded_more(tmp_path):
    """And a run that was killed ends as if it had not been."""
    training = searching(MAPO(samples=16, explore=8))
    first = logits(len(QUESTIONS[0].links), np.zeros)
    model = OneByOne(first, len(QUESTIONS), distribution)
    learns_and_resumes(tmp_path, training, model, inputs_of(QUESTIONS))
