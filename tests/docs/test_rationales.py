"""The example with drawn chains: its losses by brute force, and that it learns."""

import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from docs.examples import rationales as example
from tests.docs.pages import blocks

QUESTIONS = example.make_questions(64, seed=3)
STEPS = range(example.END + 1, len(example.EFFECTS))
#: Every chain that may be drawn: those that end, and those that are cut off.
CHAINS = [
    chain + (example.END,) * ended + (example.PAD,) * (example.LENGTH - size - ended)
    for size in range(example.LENGTH + 1)
    for chain in itertools.product(STEPS, repeat=size)
    for ended in [size < example.LENGTH]
]


def answer_of(chain, number):
    for token in chain:
        times, plus = example.EFFECTS[token]
        number = (number * times + plus) % 7
    return int(number) if example.END in chain else -1


def test_the_chains_have_a_probability_that_adds_up_to_1_and_are_executed():
    chains = jnp.broadcast_to(jnp.array(CHAINS), (2, len(CHAINS), example.LENGTH))
    log_probs = example.sequence_log_probs(example.start(0), QUESTIONS.words[:2], chains)
    np.testing.assert_allclose(jnp.exp(log_probs).sum(axis=1), 1, rtol=1e-5)
    numbers = QUESTIONS.numbers[:2].tolist()
    expected = [[answer_of(chain, number) for chain in CHAINS] for number in numbers]
    np.testing.assert_array_equal(example.execute(chains, QUESTIONS.numbers[:2, None]), expected)


def mml(chains, log_p, log_q, right, memory):
    found = set(itertools.compress(chains, right))
    return -math.log(sum(math.exp(log_p[chain]) for chain in found)) if found else None


def trice(chains, log_p, log_q, right, memory):
    state, terms = memory, []
    for place, (chain, is_right) in enumerate(zip(chains, right, strict=True)):
        state = chain if is_right else state
        share = (sum(right) - right[place]) / (len(chains) - 1)  # of the others, right ones
        if state is not None:
            terms.append(log_p[state] - share * log_p[chain])
    return -sum(terms) / len(terms) if terms else 0.0


@pytest.mark.parametrize(("name", "brute_force"), [("MML", mml), ("TRICE", trice)])
def test_the_losses_of_the_first_batches_are_those_by_brute_force(name, brute_force):
    params, rows = example.start(0), np.arange(48)
    memory = jnp.zeros((64, example.LENGTH), jnp.int32), jnp.zeros(64, bool)
    state = example.State(params, example.OPTIMIZER.init(params), *memory)
    numbers, answers = QUESTIONS.numbers.tolist(), QUESTIONS.answers.tolist()
    repeated, sizes = 0, set()
    for step in range(2):
        before, key = state, jax.random.key(step)
        state, loss, draws = example.train_step(name, before, QUESTIONS, rows, key)
        seen = jnp.concatenate([draws.tokens, before.memory[rows][:, None]], axis=1)
        log_probs = example.sequence_log_probs(before.params, QUESTIONS.words[rows], seen)
        remembered, known = state.memory.tolist(), state.known.tolist()
        columns = (
            x.tolist() for x in (seen, log_probs, draws.log_q, draws.right, before.known[rows])
        )
        expected = []
        for row, (tokens, log_probs, log_q, checked, has_memory) in enumerate(
            zip(*columns, strict=True)
        ):
            *chains, memory = map(tuple, tokens)
            log_p = dict(zip([*chains, memory], log_probs, strict=True))
            right = [answer_of(chain, numbers[row]) == answers[row] for chain in chains]
            assert right == checked
            memory = memory if has_memory else None
            expected.append(brute_force(chains, log_p, log_q, right, memory))
            kept = list(itertools.compress(chains, right))
            repeated, sizes = repeated + len(kept) - len({*kept}), sizes | {len(kept)}
            latest = kept[-1] if kept else memory
            assert known[row] == (latest is not None)
            assert latest is None or tuple(remembered[row]) == latest
        counted = [value for value in expected if value is not None]
        assert float(loss) == pytest.approx(np.mean(counted), rel=1e-4)
    assert {0, 1, 2} <= sizes and repeated  # or the case could not tell one loss from another


@pytest.mark.slow
def test_every_objective_learns_from_answers_alone(capsys):
    dev = example.make_questions(500, seed=1)
    before = np.mean([example.evaluate(example.start(seed), dev) for seed in example.SEEDS], axis=0)
    scores = example.main()
    assert scores.keys() == example.OBJECTIVES.keys() and (before < 20).all()
    for found in scores.values():
        early, late = found.mean(axis=0)
        assert (early > before + 20).all() and (late > 90).all()
    # The page shows this table.
    [shown] = blocks("rationales.md", "text")
    tables = capsys.readouterr().out, shown
    assert re.sub(r"[\d.]+", "0", tables[0]).split() == re.sub(r"[\d.]+", "0", tables[1]).split()
