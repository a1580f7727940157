"""Annealing: its probability, its one draw, and the objectives as values."""

import dataclasses
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numpy.testing import assert_allclose, assert_array_equal

from hardem_jax import EM, MML, FirstOnly, HardEM, posteriors
from hardem_jax.loss_variants import (
    count_weighted_mml_loss,
    entropy_regularized_loss,
    released_mml_loss,
    thresholded_loss,
)
from hardem_jax.losses import (
    annealed_loss,
    em_loss,
    first_only_loss,
    hard_em_loss,
    hard_probability,
    mml_loss,
)
from hardem_jax.objectives import (
    AnyObjective,
    CountWeightedMML,
    EntropyRegularizedMML,
    ReleasedMML,
    ThresholdedHardEM,
    label,
    weights,
)
from hardem_jax.posteriors import Annealed, Sampled, Tempered, TopK
from tests.loss_cases import options

STEPS = np.array([0, 1, 50, 80, 99, 100, 101, 10**9])
# Hard EM costs log 4, MML log 2 and First-only log 8 in every row.
LOG_PROBS = np.log(np.tile(np.array([1 / 8, 1 / 4, 1 / 8], np.float32), (16, 1)))
HARD, SOFT, FIRST = np.log([4.0, 2.0, 8.0])
ROWS = {"reduce_fn": None}


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"tau": 100}, [0.0, 0.01, 0.5, 0.8, 0.99, 1.0, 1.0, 1.0]),
        ({"tau": 100, "cap": 0.8}, [0.0, 0.01, 0.5, 0.8, 0.8, 0.8, 0.8, 0.8]),
        ({"tau": None}, [1.0] * 8),
        ({"tau": 0}, [1.0] * 8),
        ({"tau": 100, "schedule": "switch"}, [0.0] * 5 + [1.0] * 3),
        ({"tau": 100, "schedule": "switch", "cap": 0.8}, [0.0] * 5 + [0.8] * 3),
        ({"tau": 100, "schedule": "as-printed"}, [1.0, 0.99, 0.5, 0.2, 0.01, 0.0, 0.0, 0.0]),
    ],
    ids=str,
)
def test_probability_of_a_hard_step(options, expected):
    probability = jax.jit(lambda step: hard_probability(step, **options))(STEPS)
    assert_allclose(jnp.broadcast_to(probability, 8), expected, rtol=1e-5, atol=1e-7)
    at_50 = hard_probability(50, **options)  # a plain int is a step, too
    assert at_50.dtype == np.float32 and at_50.shape == ()
    assert_allclose(at_50, expected[2], rtol=1e-6)


@pytest.mark.parametrize("schedule, before", [("switch", 0.0), ("linear", 40 / 41)])
def test_the_last_step_of_annealing_is_the_same_compiled_or_not(schedule, before):
    """A compiler multiplies by 1 / 41, and 41 times that is less than 1."""
    call = jax.jit(lambda step: hard_probability(step, tau=41, schedule=schedule))
    got = [call(step) for step in (40, 41)]
    assert_allclose(got, [before, 1.0], rtol=1e-6)
    assert got[1] == 1.0
    of_every_tau = jax.jit(jax.vmap(lambda tau: hard_probability(tau, tau=tau, schedule=schedule)))
    assert_array_equal(of_every_tau(np.arange(1, 2000)), 1.0)


@jax.jit
def losses_and_draws(steps, keys):
    """``[S, 16]`` annealed losses with tau=100, cap=0.8, and the metric, for many steps."""
    objective = HardEM(tau=100, cap=0.8)

    def one(step, key):
        loss, metrics = objective(LOG_PROBS, step=step, key=key, **ROWS)
        return loss, metrics["hard"]

    return jax.vmap(one)(steps, keys)


def test_one_draw_for_the_whole_batch_with_the_right_frequency_and_the_metric_knows_it():
    repeats = 2_000
    steps = np.repeat(STEPS[[0, 2, 6]], repeats)
    keys = jax.random.split(jax.random.key(1), steps.size)
    loss, is_hard = map(np.asarray, losses_and_draws(steps, keys))
    expected = np.where(is_hard, HARD, SOFT)[:, None]
    assert_allclose(loss, np.broadcast_to(expected, loss.shape), rtol=1e-6)
    frequency = is_hard.reshape(3, repeats).mean(-1)
    probability = np.array([0.0, 50 / 100, 0.8])
    four_deviations = 4 * np.sqrt(probability * (1 - probability) / repeats)
    assert (np.abs(frequency - probability) <= four_deviations).all(), frequency


def test_eight_devices_draw_as_one():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    placed = jax.device_put(LOG_PROBS, NamedSharding(mesh, PartitionSpec("data")))
    rows = jax.jit(lambda x, key: annealed_loss(x, step=1, key=key, tau=2, reduce_fn=None))
    for seed in range(8):
        key = jax.random.key(seed)
        one, many = rows(LOG_PROBS, key), rows(placed, key)
        assert len(set(np.asarray(many).tolist())) == 1
        assert_allclose(many, one, rtol=1e-6)


def test_neither_step_nor_key_recompiles():
    traced = []

    @jax.jit
    def step_fn(log_probs, step, key):
        traced.append(step)
        return HardEM(tau=4, cap=0.8)(log_probs, step=step, key=key)[0]

    values = {float(step_fn(LOG_PROBS, step, jax.random.key(step))) for step in range(12)}
    assert len(traced) == 1
    assert_allclose(sorted(values), [SOFT, HARD], rtol=1e-6)


@pytest.mark.parametrize(
    "objective, loss, metrics",
    [
        (HardEM(), hard_em_loss, {"hard": 1}),
        (HardEM(tau=0), hard_em_loss, {"hard": 1}),
        (HardEM(tau=7), hard_em_loss, {"hard": 1}),
        (HardEM(tau=7, schedule="switch"), hard_em_loss, {"hard": 1}),
        (HardEM(tau=8, schedule="switch"), mml_loss, {"hard": 0}),
        (HardEM(tau=7, schedule="as-printed"), mml_loss, {"hard": 0}),
        (MML(), mml_loss, {}),
        (FirstOnly(), first_only_loss, {}),
        (EM(Tempered(0.5)), options(em_loss, posterior=Tempered(0.5)), {}),
        (EM(Annealed(tau=14, end=16.0)), options(em_loss, posterior=Tempered(4.0)), {}),
        (
            ThresholdedHardEM(epoch=8, alpha=0.2),
            options(thresholded_loss, threshold=0.2, keep_single=True),
            {"kept": 0},
        ),
        (
            ThresholdedHardEM(epoch=7, alpha=0.2),
            options(thresholded_loss, threshold=0.1),
            {"kept": 1},
        ),
        (CountWeightedMML(), count_weighted_mml_loss, {}),
        (EntropyRegularizedMML(weight=0.3), options(entropy_regularized_loss, weight=0.3), {}),
        (ReleasedMML(), released_mml_loss, {}),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_an_objective_is_its_loss_in_both_layouts(objective, loss, metrics):
    at = {"step": 7, "key": jax.random.key(3)}
    where = np.ones(LOG_PROBS.shape, bool)
    where[:, 1] = False
    padded, told = objective(LOG_PROBS, where=where, **at)
    assert_allclose(padded, loss(LOG_PROBS, where=where), rtol=1e-6)
    assert told == metrics and all(x.dtype == np.float32 for x in told.values())
    rows = {"segment_ids": np.array([0, 2, 0]), "num_segments": 3, **ROWS}
    assert_allclose(objective(LOG_PROBS[0], **rows, **at)[0], loss(LOG_PROBS[0], **rows))


@pytest.mark.parametrize("kind", get_args(AnyObjective))
def test_every_objective_that_commands_offer_has_defaults_and_a_label_of_its_own(kind):
    loss, metrics = kind()(LOG_PROBS, step=0, key=jax.random.key(0))
    assert loss.shape == () and all(value.shape == () for value in metrics.values())
    assert label(kind()) == kind.title
    assert [label(other()) for other in get_args(AnyObjective)].count(kind.title) == 1


def test_weights_say_what_an_objective_trusts_in_both_layouts():
    log_probs = jnp.log(jnp.array([[0.1, 0.3, 0.2], [0.4, 0.2, 0.1]]))
    where = np.array([[True, True, True], [True, True, False]])
    of_row = np.array([[1 / 6, 3 / 6, 2 / 6], [2 / 3, 1 / 3, 0]])
    assert_allclose(weights(MML(), log_probs, where=where), of_row, rtol=1e-5)
    assert_array_equal(weights(HardEM(), log_probs, where=where), [[0, 1, 0], [1, 0, 0]])
    rows = {"segment_ids": np.nonzero(where)[0], "num_segments": 2}
    assert_allclose(weights(MML(), log_probs[where], **rows), of_row[where], rtol=1e-5)
    step_0, step_1 = (weights(HardEM(tau=1), log_probs, step=step) for step in (0, 1))
    assert (step_0 != step_1).any()
    assert_array_equal(weights(ThresholdedHardEM(alpha=0.35), log_probs).sum(-1), [0, 1])


def test_the_share_of_questions_kept():
    log_probs = jnp.log(jnp.array([[0.6, 0.3], [0.2, 0.1], [0.3, 0.0], [0.9, 0.0]]))
    where = np.array([[True, True], [True, True], [True, False], [False, False]])
    objective = ThresholdedHardEM(epoch=10)
    for step, share in (9, 2 / 3), (10, 2 / 3), (20, 1.0):
        metrics = objective(log_probs, step=step, key=None, where=where)[1]
        assert_allclose(metrics["kept"], share, rtol=1e-6)
    assert objective(log_probs, step=0, key=None, where=where & False)[1]["kept"] == 0


def test_a_label_names_what_is_not_default():
    assert label(HardEM(tau=4000.0, cap=0.8)) == "Hard EM, tau 4000, cap 0.8"
    assert label(EM(TopK(5))) == "EM, posterior top-k 5"
    assert label(EM(Tempered(0.5))) == "EM, posterior tempered 0.5"

    assert label(EM(posteriors.uniform)) == "EM, posterior uniform"  # type: ignore[arg-type]

    # Only the first option goes without its name.
    start, end = Annealed(1000.0, start=2.0), Annealed(1000.0, end=2.0)
    assert label(EM(start)) == "EM, posterior annealed 1000 start 2"
    assert label(EM(end)) == "EM, posterior annealed 1000 end 2"
    assert label(EM(dataclasses.replace(start, end=4.0))).endswith("1000 start 2 end 4")
    assert label(EM(Sampled(0.5))) == "EM, posterior sampled 0.5"

    class OwnObjective(MML):
        title = "mine"

    assert label(OwnObjective()) == "mine"


TAUS = [(4000, "4000"), (4000.0, "4000"), (0.1, "0.1"), (1e6, "1e+06"), (1000001.0, "1000001")]
TAUS += [(1 / 3, "0.3333333333333333"), (float("inf"), "inf"), (np.float32(8), "8")]


@pytest.mark.parametrize("tau, text", TAUS)
def test_a_number_in_a_label_is_exact(tau, text):
    assert label(HardEM(tau=tau)) == f"Hard EM, tau {text}"
    assert float(text) == tau


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ThresholdedHardEM(alpha=1.0),
            "alpha: expected .* less than 1, found 1.0",
        ),
        (
            lambda: ThresholdedHardEM(gamma=0.0),
            "gamma: expected more than 0 .*, found 0.0",
        ),
        (lambda: ThresholdedHardEM(epoch=2.5), "epoch: expected an integer, found 2.5"),
        (lambda: EntropyRegularizedMML(weight=-1e39), "weight: expected at least -3.4028234"),
        (lambda: HardEM(tau=-1), "HardEM: tau must be None, 0 or a number of steps, got -1"),
        (lambda: HardEM(tau=float("nan")), "HardEM: tau must be .* got nan"),
        (lambda: HardEM(10, cap=0.0), r"HardEM: cap must be in \(0, 1\], got 0.0"),
        (lambda: HardEM(10, cap=1.5), r"HardEM: cap must be in \(0, 1\], got 1.5"),
        (lambda: HardEM(0, cap=0.8), "HardEM: cap=0.8 applies to annealing and needs a tau"),
        (lambda: HardEM(schedule="switch"), "HardEM: schedule=switch applies to annealing"),
        (lambda: hard_probability(5, tau=10, schedule="cosine"), "schedule must be one of linear"),
        (lambda: HardEM(10, schedule="cosine"), "schedule: expected one of .*'switch'.*'cosine'"),
        (
            lambda: annealed_loss([0.0], step=np.array([0, 5]), key=jax.random.key(0), tau=10),
            r"step must be a scalar, got shape \(2,\)",
        ),
        (lambda: Tempered(-0.1), "inverse_temperature must be a finite float32, >= 0"),
        (lambda: Sampled(float("inf")), "inverse_temperature must be a finite float32, >= 0"),
        (lambda: TopK(0), r"k must be 1 to 2\*\*31 - 1, got 0"),
        (lambda: TopK(2**31), r"k must be 1 to 2\*\*31 - 1, got 2147483648"),
        (lambda: Annealed(0.0), "tau must be a finite float32, > 0"),
        (lambda: Annealed(1.0, end=float("nan")), "end must be a finite float32, > 0"),
        (lambda: Annealed(10, 1e-30, 1e10), "end / start must be a finite float32, > 0"),
    ],
)
def test_options_that_make_no_sense(call, message):
    with pytest.raises(ValueError, match=message):
        call()
