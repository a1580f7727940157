"""The loss of a span reader is the objective over its mentions plus the selector's."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from hardem_jax import MML, FirstOnly, HardEM
from hardem_jax.spans.config import LatentConfig
from hardem_jax.spans.task import make_span_loss
from tests.spans.windows import WINDOWS, arrays, choice_window
from tests.task.toy import compile_together

COMBINE = {MML(): np.sum, HardEM(): np.max, FirstOnly(): lambda p: p[0]}
POSITIONS = LatentConfig(likelihood="position")


@pytest.fixture(scope="module")
def losses(reader):
    """Batch -> losses of windows on their own, by setting, and what the model says."""
    graphdef, params = reader
    settings = [*((objective,) for objective in COMBINE), (MML(), POSITIONS)]
    losses = {setting: make_span_loss(graphdef, *setting) for setting in settings}
    return functools.partial(compile_together(graphdef, losses), params)


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_loss_is_the_mean_over_items_of_span_and_selector_costs(losses, objective, combine):
    found, reading = losses(arrays(WINDOWS))
    start, end = (np.exp(np.asarray(x)) for x in (reading.spans.start, reading.spans.end))
    p_first = np.array([start[0, 3] * end[0, 3], start[0, 6] * end[0, 6]])
    span = -np.log(combine(p_first)) - np.log(start[1, 4] * end[1, 5])
    selector = np.asarray(jax.nn.log_softmax(reading.selector_logits))
    choice = -selector[0, 1] - selector[1, 1] - selector[2, 0] - selector[3, 0]
    loss, metrics = found[objective,]
    np.testing.assert_allclose(loss, (span + choice) / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["span_loss"], span / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["z_size"], 3 / 2)
    shares = p_first / p_first.sum()  # the other item has one solution
    np.testing.assert_allclose(metrics["z_entropy"], -(shares * np.log(shares)).sum() / 2, 1e-5)
    assert metrics.get("hard") == (1 if isinstance(objective, HardEM) else None)


def test_padding_of_any_kind_changes_nothing(losses):
    expected, _ = losses(arrays(WINDOWS))
    found, _ = losses(arrays([*WINDOWS, None, None], num_tokens=16, num_solutions=9))
    for setting, (loss, _) in expected.items():
        np.testing.assert_allclose(found[setting][0], loss, rtol=1e-5, err_msg=str(setting))


def test_the_annotated_mention_is_never_trained_on(losses):
    hidden = [dataclasses.replace(w, true_solution=-1) for w in WINDOWS]
    expected, found = losses(arrays(WINDOWS))[0], losses(arrays(hidden))[0]
    for setting in expected:
        assert found[setting][0] == expected[setting][0]


# A mention, yes, unknown, unknown next to a mention, nothing; whether there is an answer.
CHOSEN = [[(6, 6)], [(3, 3)], [(5, 5)], [(5, 5), (6, 6)], []]
HOLDS = [1, 1, 0, 1, 0]


def test_the_selector_is_to_say_whether_a_window_holds_an_answer(losses):
    """Not whether it has a Z, which "unknown" is, too."""
    found, said = losses(arrays([choice_window([6, 7, 8], own) for own in CHOSEN], num_tokens=12))
    log_probs = np.asarray(jax.nn.log_softmax(said.selector_logits))
    expected = -sum(log_probs[row, label] for row, label in enumerate(HOLDS)) / 4
    assert found[MML(),][1]["selector_loss"] == pytest.approx(expected, rel=1e-5)


def test_positions_of_a_window_alone(losses):
    found, said = losses(arrays(WINDOWS))
    _, metrics = found[MML(), POSITIONS]
    start, end = (np.exp(np.asarray(x)) for x in (said.spans.start, said.spans.end))
    first = start[0, [3, 6]].sum() * end[0, [3, 6]].sum()
    expected = -np.log(first) - np.log(start[1, 4] * end[1, 5])
    np.testing.assert_allclose(metrics["span_loss"], expected / 2, rtol=1e-5)


DOCUMENT = LatentConfig(scope="document", group_size=2)
QUESTION = LatentConfig(scope="question", group_size=2, likelihood="position")


@pytest.fixture(scope="module")
def grouped(reader):
    """Losses of windows that share a softmax, by setting, and what the model says."""
    graphdef, params = reader
    losses = {
        (objective, latent): make_span_loss(graphdef, objective, latent, negatives=1)
        for objective in COMBINE
        for latent in (DOCUMENT, QUESTION)
    }
    # Two items: the windows of q1 and a negative, those of q2 (one) and a negative.
    windows = [WINDOWS[0], WINDOWS[2], WINDOWS[3], WINDOWS[1], None, WINDOWS[2]]
    return compile_together(graphdef, losses)(params, arrays(windows))


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_windows_of_a_group_have_one_softmax_and_one_z(grouped, objective, combine):
    found, said = grouped
    value, metrics = found[objective, DOCUMENT]
    start, end = (np.exp(np.asarray(x)) for x in (said.spans.start, said.spans.end))
    sums = np.exp(np.asarray(said.spans.log_partitions))
    weight = np.prod(sums[0] / (sums[0] + sums[1]))
    p_first = weight * np.array([start[0, 3] * end[0, 3], start[0, 6] * end[0, 6]])
    # The second window of the second item is padding, which leaves the first all of the mass.
    span = -np.log(combine(p_first)) - np.log(start[3, 4] * end[3, 5])
    np.testing.assert_allclose(metrics["span_loss"], span / 2, rtol=1e-5)
    selector = np.asarray(jax.nn.log_softmax(said.selector_logits))
    choice = -sum(selector[row, int(row in (0, 3))] for row in (0, 1, 2, 3, 5))
    np.testing.assert_allclose(value, (span + choice) / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["z_size"], 3 / 2)


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_positions_are_latent_variables_of_their_own(grouped, objective, combine):
    found, said = grouped
    _, metrics = found[objective, QUESTION]
    sums = np.exp(np.asarray(said.spans.log_partitions))
    expected = 0.0
    for side, log_probs in enumerate((said.spans.start, said.spans.end)):
        chance = np.exp(np.asarray(log_probs))
        of_q1 = chance[0, [3, 6]] * sums[0, side] / (sums[0, side] + sums[1, side])
        expected -= np.log(combine(of_q1)) + np.log(chance[3, 5 if side else 4])
    np.testing.assert_allclose(metrics["span_loss"], expected / 2, rtol=1e-5)
