"""Planted rationales: problems against plain Python, estimators against all draws there are."""

import dataclasses
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from experiments.rationales import command, figures, training
from experiments.rationales.command import GradientVariance, RationaleTraining
from experiments.rationales.estimators import ESTIMATORS, MISPRINT, Drawn
from experiments.rationales.model import Draws
from experiments.rationales.problems import (
    OPERATORS,
    PROGRAMS,
    VERBS,
    execute,
    ids,
    is_true,
    make_problems,
    program_ids,
    rationales,
    text,
    true_rationales,
)
from experiments.rationales.training import Run, identity, remember, solutions
from experiments.rationales.variance import Exact, expected, measure, train_exactly
from experiments.regimes.grid import pack
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError

PROBLEMS = make_problems(200, seed=3)
MEANS = {verb: operator for operator, verbs in zip(OPERATORS, VERBS, strict=True) for verb in verbs}


def value(*steps) -> int:
    """The value of "5", "+", "4", "*", "3", from left to right."""
    first, *rest = steps
    found = int(first)
    for operator, number in zip(rest[::2], rest[1::2], strict=True):
        found = {"+": found + int(number), "-": found - int(number), "*": found * int(number)}[
            operator
        ] % 7
    return found


def test_the_true_rationale_is_what_the_question_says():
    for prompt, tokens, answer in zip(
        PROBLEMS.prompts, true_rationales(PROBLEMS), PROBLEMS.answers, strict=True
    ):
        a, first, b, order, second, c = text(prompt).split()
        steps = [(MEANS[first], b), (MEANS[second], c)]
        (first, b), (second, c) = steps if order == "then" else steps[::-1]
        middle = value(a, first, b)
        assert answer == value(a, first, b, second, c)
        assert text(tokens) == f"{a} {first} {b} = {middle} {second} {c} = {answer}"
    assert len({text(p).split()[3] for p in PROBLEMS.prompts}) == 2
    assert np.all(np.diff(np.sort(PROBLEMS.numbers, axis=1), axis=1) > 0)


def test_a_rationale_is_right_if_it_is_one_of_the_54():
    rng = np.random.default_rng(0)
    table = rationales(PROBLEMS.numbers)
    tokens = table[np.arange(200), rng.integers(54, size=200)]
    # Up to two tokens are others, some of which are valid by accident.
    changed = np.repeat(tokens[:, None], 60, axis=1)
    for _ in range(2):
        place = rng.integers(9, size=(200, 60, 1))
        np.put_along_axis(changed, place, rng.integers(12, size=(200, 60, 1)), axis=2)
    expected_right = (changed[:, :, None] == table[:, None]).all(-1)
    numbers = PROBLEMS.numbers[:, None]
    found = np.asarray(execute(jnp.asarray(changed), jnp.asarray(numbers)))
    np.testing.assert_array_equal(found >= 0, expected_right.any(-1))
    np.testing.assert_array_equal(found[found >= 0], changed[..., 8][found >= 0])
    programs = np.asarray(program_ids(jnp.asarray(changed), jnp.asarray(numbers)))
    np.testing.assert_array_equal(programs[found >= 0], expected_right.argmax(-1)[found >= 0])
    assert np.all(programs[found < 0] == -1) and 20 < (found >= 0).sum() < 5000


def test_z_is_all_that_ends_in_the_answer():
    z, table = solutions(PROBLEMS), rationales(PROBLEMS.numbers)
    assert z.programs is not None
    assert table.shape == (200, len(PROGRAMS), 9) and len(np.unique(PROGRAMS, axis=0)) == 54
    for n, answer in enumerate(PROBLEMS.answers):
        ends = [
            i
            for i, row in enumerate(table[n])
            if value(*text(row[[0, 1, 2, 5, 6]]).split()) == answer
        ]
        assert z.programs[n][z.where[n]].tolist() == ends
        np.testing.assert_array_equal(z.tokens[n][z.where[n]], table[n][ends])
    assert PROBLEMS.programs[0] in z.programs[0]


def test_a_rationale_is_true_if_it_agrees_on_all_numbers():
    programs = np.broadcast_to(np.arange(54), (5, 54))
    found = is_true(PROBLEMS.take(slice(5)), programs)
    for n in range(5):
        place, first, other, second, last = PROGRAMS[PROBLEMS.programs[n]]
        for program in range(54):
            a, one, b, two, c = PROGRAMS[program]
            same = all(
                value(x[a], OPERATORS[one], x[b], OPERATORS[two], x[c])
                == value(x[place], OPERATORS[first], x[other], OPERATORS[second], x[last])
                for x in itertools.permutations(range(1, 7), 3)
            )
            assert found[n, program] == same
    assert not is_true(PROBLEMS.take(slice(1)), np.array([[-1]])).any()


def test_words_are_tokens():
    assert text(np.array(ids("5 + 4 = 2 * 3 = 6"))) == "5 + 4 = 2 * 3 = 6"


# A model of five rationales, of which the first three end in the answer.
LOGITS = np.array([0.2, -0.9, 0.4, 0.8, 0.0])
ENDS = np.arange(5) < 3
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum()
P = PROBS[ENDS].sum()
SCORES = np.eye(5) - PROBS
MML = (PROBS[ENDS] / P) @ SCORES[ENDS]


def mean_gradient(name: str, draws: int) -> np.ndarray:
    """An estimator's mean over all ``5 ** draws`` outcomes and all memories."""
    outcomes = np.array(list(itertools.product(range(5), repeat=draws)))

    @jax.jit
    def gradient(chosen, kept):
        def of_logits(logits):
            log_probs = jax.nn.log_softmax(logits)
            drawn = Drawn(
                log_probs[chosen],
                jnp.asarray(chosen),
                jnp.asarray(ENDS)[chosen],
                jnp.ones(chosen.shape, bool),
                log_probs[kept],
                jnp.ones(kept.shape, bool),
            )
            return -(ESTIMATORS[name](drawn) * weights).sum()

        weights = jnp.asarray(PROBS, jnp.float32)[chosen].prod(axis=1)
        return jax.grad(of_logits)(jnp.asarray(LOGITS, jnp.float32))

    found = [np.asarray(gradient(outcomes, np.full(len(outcomes), kept))) for kept in range(3)]
    return (PROBS[ENDS] / P) @ np.array(found)


@pytest.mark.parametrize(
    "name", ["IWAE", "TRICE", "TRICE, no control variate", "REINFORCE", "JEPO"]
)
@pytest.mark.parametrize("draws", [1, 4])
def test_estimators_have_the_means_that_theory_gives(name, draws):
    exact = Exact(None, None, np.array([P]), MML[None], None)  # pyright: ignore[reportArgumentType]
    mean = expected(name, draws, exact)
    assert mean is not None
    np.testing.assert_allclose(mean_gradient(name, draws), mean, atol=2e-4)


def test_jepo_follows_its_bound():
    def bound(p, draws=4):
        correct = np.arange(draws + 1)
        levels = np.log((correct + (draws - correct) * MISPRINT) / draws)
        return binom.pmf(correct, draws, p) @ levels

    slope = (bound(P + 1e-5) - bound(P - 1e-5)) / 2e-5
    np.testing.assert_allclose(mean_gradient("JEPO", 4), slope * P * MML, atol=2e-4)


def test_estimators_of_a_found_set_go_to_the_exact_gradients_from_below():
    along = {
        name: [mean_gradient(name, draws) @ MML / (MML @ MML) for draws in (1, 2, 5)]
        for name in ("MML, distinct draws", "STaR, distinct draws", "IWAE")
    }
    for values in along.values():
        assert values[0] == pytest.approx(P, abs=1e-4) and values[0] < values[1] < values[2] < 1.1


def test_hard_em_takes_the_most_likely_of_what_it_found():
    # Only where 2 was not drawn, 0 is the most likely, and 1 only where neither was.
    draws, p = 3, PROBS
    none_of = lambda *z: (1 - p[list(z)].sum()) ** draws  # noqa: E731
    share = [none_of(2) - none_of(0, 2), none_of(0, 2) - none_of(0, 1, 2), 1 - none_of(2)]
    expected_mean = np.array(share) @ SCORES[ENDS]
    np.testing.assert_allclose(mean_gradient("Hard EM, draws", draws), expected_mean, atol=1e-5)


def test_iwae_is_rejection_sampling():
    rng = np.random.default_rng(0)
    log_probs, correct = -rng.exponential(3, (20, 6)), rng.random((20, 6)) < 0.4

    def loss(x):
        programs, everywhere = jnp.zeros((20, 6), int), jnp.ones((20, 6), bool)
        drawn = Drawn(x, programs, jnp.asarray(correct), everywhere, x[:, 0], x[:, 0] < 0)
        return ESTIMATORS["IWAE"](drawn).sum()

    mean = correct / np.maximum(correct.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(-jax.grad(loss)(jnp.asarray(log_probs)), mean, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "weights"),
    [("MML, distinct draws", [0.25, 0, 0.75, 0]), ("STaR, distinct draws", [0.5, 0, 0.5, 0])],
)
def test_equal_draws_count_once(name, weights):
    programs, correct = jnp.array([[4, 4, 7, 9]]), jnp.array([[True, True, True, False]])

    def loss(x):
        everywhere = jnp.ones(x.shape, bool)
        drawn = Drawn(x, programs, correct, everywhere, x[:, 0], jnp.array([True]))
        return ESTIMATORS[name](drawn).sum()

    gradient = jax.grad(loss)(jnp.log(jnp.array([[0.1, 0.1, 0.3, 0.2]])))
    np.testing.assert_allclose(-gradient[0], weights, atol=1e-6)


def test_memory_is_the_last_correct_draw():
    tokens = np.arange(3 * 4 * 9).reshape(3, 4, 9)
    correct = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], bool)
    draws = Draws(*map(jnp.asarray, (tokens, np.zeros((3, 4), int), correct)))
    old, known = np.full((3, 9), -5), np.array([False, True, False])
    memory, has = remember(jnp.asarray(old), jnp.asarray(known), draws)
    np.testing.assert_array_equal(memory, [tokens[0, 2], old[1], old[2]])
    assert has.tolist() == [True, True, False]


def test_batches_are_epochs():
    rows = list(training.batches(np.random.default_rng(0), 10, 4, 5))
    assert sorted(np.concatenate(rows)[:10]) == sorted(np.concatenate(rows)[10:]) == list(range(10))


TINY = ("--sizes.width", "8", "--sizes.layers", "1", "--sizes.pretraining", "3")
TINY += ("--sizes.num-train", "20")


def call(command_class, *arguments):
    run_command(command_class, prog="rationales", argv=[str(a) for a in arguments])


def test_train_never_repeats_a_run(tmp_path, monkeypatch):
    made = []

    def make(run: Run):
        made.append((run.objective, run.seed))
        correct = np.random.default_rng(len(made)).random(run.num_dev) < 0.2 * len(made)
        bits = {"answer": pack(correct), "true rationale": pack(correct)}
        found = {"scores": {"answer": 1.0}, "outcomes": bits, "correct draws": [0.1, 0.2]}
        return dataclasses.asdict(run) | found | {"seconds": 1.0}

    monkeypatch.setattr(training, "make", make)
    flags = ("--out", tmp_path, "--num-dev", 30, "--objectives", "IWAE", "TRICE")
    call(RationaleTraining, *flags, "--seeds", 0)
    call(RationaleTraining, *flags, "--seeds", 0, 1)
    call(RationaleTraining, *flags, "--seeds", 0, 1, 2, "--minutes", 0)
    assert made == [("IWAE", 0), ("TRICE", 0), ("IWAE", 1), ("TRICE", 1)]
    lines = (tmp_path / "runs.jsonl").read_text("utf-8").splitlines()
    assert len({identity(json.loads(line)) for line in lines}) == 4
    summary = json.loads((tmp_path / "train.json").read_text("utf-8"))["answer"]
    assert summary["IWAE"]["difference"] is None
    scores = [np.mean(list(summary[name]["seeds"].values())) for name in ("IWAE", "TRICE")]
    assert summary["TRICE"]["difference"]["mean"] == pytest.approx(scores[1] - scores[0])
    assert (tmp_path / "train.png").is_file()


@pytest.mark.slow
def test_training_runs_and_is_a_function_of_its_seed():
    run = Run("TRICE", 1, 4, 3, 4, 1e-3, 20, 10, 8, 1, 3, 0.2, 0)
    first, second = training.make(run), training.make(run)
    assert first | {"seconds": 0} == second | {"seconds": 0}
    for objective in ("MML, exact", "Supervised", "REINFORCE"):
        found = training.make(dataclasses.replace(run, objective=objective))
        assert set(found["scores"]) == {"answer", "true rationale"}


@pytest.mark.slow
def test_measured_means_are_within_three_standard_errors_of_theory(monkeypatch):
    # A tiny decoder that learns three problems by heart, and is measured on them.
    monkeypatch.setattr("experiments.rationales.variance.DEV", training.TRAIN)
    sizes = command.RationaleSizes(width=16, layers=1, pretraining=1, true_share=0.2, num_train=3)
    options = {"learning_rate": 1e-2, "batch_size": 3, "problems": 3, "stages": (20, 38, 46)}
    found = measure(GradientVariance(**options, sizes=sizes, largest=4, repeats=100))
    assert 0.05 < found["stages"][1]["p"] < found["stages"][2]["p"] < 0.98
    for stage in found["stages"][1:]:
        z = {
            (name, count): cell["z"]
            for name, by_count in stage["estimators"].items()
            for count, cell in by_count.items()
            if cell["z"] is not None
        }
        assert len(z) == 15 and max(map(abs, z.values())) < 3
        bounds = [stage["bound"][count] for count in (1, 2, 4)]
        for bound in bounds:
            assert abs(bound["mean"] - bound["theory"]) < 3 * bound["standard error"]
        assert bounds[0]["theory"] < bounds[1]["theory"] < bounds[2]["theory"] < stage["log p"]


def test_a_stage_is_the_same_model_whatever_was_measured_before():
    sizes = command.RationaleSizes(width=16, layers=1, pretraining=1, num_train=8)
    model = training.model_of(16, 1)
    params = training.start(16, 1, 1, sizes.true_share, sizes.pretraining_seed)

    def reached(*stages):
        options = GradientVariance(stages=stages, sizes=sizes, batch_size=3)
        return dict(train_exactly(model, params, options))

    alone, both = reached(5), reached(5, 2)
    assert list(both) == [2, 5]
    jax.tree.map(np.testing.assert_array_equal, alone[5], both[5])
    gaps = jax.tree.map(lambda x, y: np.abs(x - y).max(), both[2], both[5])
    assert max(jax.tree.leaves(gaps)) > 0


def test_refuses_what_cannot_be(tmp_path):
    with pytest.raises(SystemExit) as stopped:
        call(RationaleTraining, "--out", tmp_path, "--objectives", "MLM")
    assert stopped.value.code == 2
    with pytest.raises(InputError, match="stages: expected at least one value, found none"):
        GradientVariance(stages=())
    with pytest.raises(InputError, match="power of 2"):
        GradientVariance(largest=48)
    with pytest.raises(InputError, match="multiple of 4"):
        command.RationaleSizes(width=30)


def test_figure_leaves_out_what_is_noise(tmp_path):
    cell = {"squared bias": 0.5, "variance": 2.0, "mean squared error": 2.5, "estimates": 10}
    known = {**cell, "bias in theory": 0.25}
    noisy = {**cell, "squared bias": 0.1, "bias in theory": None}
    assert figures._shown({**cell, "bias in theory": None}, "squared bias") == 0.5
    assert figures._shown(known, "squared bias") == 0.25
    assert figures._shown(noisy, "squared bias") == 0.0 and figures._shown(noisy, "variance") == 2.0
    stage = {
        "steps": 5,
        "p": 0.3,
        "estimators": {"IWAE": {1: known, 2: known}, "TRICE": {1: noisy}},
    }
    figures.draw_variance({"stages": [stage, stage]}, tmp_path / "variance.png")
    assert (tmp_path / "variance.png").stat().st_size > 10_000
