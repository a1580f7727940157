"""Best value and patience."""

import json
import math

import pytest

from hardem_jax.errors import InputError
from hardem_jax.training.early_stopping import Bookkeeping


def play(values, mode="max", patience=None):
    books = Bookkeeping()
    gains = [
        books.record(10 * (i + 1), {"m": value}, "m", mode, patience)
        for i, value in enumerate(values)
    ]
    return books, gains


@pytest.mark.parametrize(
    ("mode", "values", "gains", "best", "best_step"),
    [
        ("max", [1.0, 3.0, 2.0, 3.0], [True, True, False, False], 3.0, 20),
        ("min", [3.0, 1.0, 2.0, 0.5], [True, True, False, True], 0.5, 40),
        ("max", [0.0], [True], 0.0, 10),
        ("max", [math.nan, -5.0, math.nan], [False, True, False], -5.0, 20),
        ("min", [math.nan, 5.0, math.nan], [False, True, False], 5.0, 20),
    ],
)
def test_a_gain_is_strictly_better(mode, values, gains, best, best_step):
    books, found = play(values, mode)
    assert found == gains
    assert (books.best_metric, books.best_step) == (best, best_step)
    assert [entry["step"] for entry in books.history] == [10 * (i + 1) for i in range(len(values))]


@pytest.mark.parametrize(
    ("values", "stopped"),
    [([1.0, 0.0], False), ([1.0, 0.0, 1.0], True), ([1.0, 0.0, 2.0, 0.0], False)],
)
def test_patience_counts_evaluations_in_a_row(values, stopped):
    books, _ = play(values, patience=2)
    assert books.stopped_early is stopped


def test_json_round_trip_is_exact():
    books, _ = play([0.1 + 0.2, 1 / 3, 0.0], patience=2)
    books.averager.add({"loss": 1 / 7})
    again = Bookkeeping.from_json(json.loads(json.dumps(books.to_json())))
    assert again == books


def test_a_monitor_that_is_not_measured_is_named():
    with pytest.raises(InputError, match=r"no 'F1', only \['EM'\]"):
        Bookkeeping().record(1, {"EM": 1.0}, "F1", "max", None)
