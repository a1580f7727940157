"""Schedules: literal tables of step -> probability of a hard step."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from hardem_jax.schedules import as_printed, linear, scaled_tau, switch_at

STEPS = np.array([0, 1, 50, 80, 99, 100, 101, 10**9])


@pytest.mark.parametrize(
    "schedule, expected",
    [
        (linear(100), [0.0, 0.01, 0.5, 0.8, 0.99, 1.0, 1.0, 1.0]),
        (linear(100, cap=0.8), [0.0, 0.01, 0.5, 0.8, 0.8, 0.8, 0.8, 0.8]),
        (as_printed(100), [1.0, 0.99, 0.5, 0.2, 0.01, 0.0, 0.0, 0.0]),
        (switch_at(100), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
    ],
    ids=["linear", "capped", "as_printed", "switch_at"],
)
def test_probability_at_each_step(schedule, expected):
    assert_allclose(jax.jit(jax.vmap(schedule))(STEPS), expected, rtol=1e-5, atol=1e-7)
    at_50 = schedule(50)  # a plain int is a step, too
    assert at_50.dtype == np.float32 and at_50.shape == ()
    assert_allclose(at_50, expected[2], rtol=1e-6)


def test_scaled_tau_is_the_same_share_of_the_run():
    assert scaled_tau(8_000, reference_steps=40_000, num_steps=10_000) == 8_000 / 4
