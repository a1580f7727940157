"""Best value and patience; what is read from metrics.jsonl, and what a resumed run cuts from it."""

import json
import math

import pytest

from hardem_jax.errors import InputError
from hardem_jax.training.run_progress import RunProgress, read_metrics, truncate_metrics


def play(values, mode="max", patience=None):
    progress = RunProgress()
    steps = enumerate(values, 1)
    gains = [
        progress.record(10 * i, {"m": value, "step": 7.0}, "m", mode, patience)
        for i, value in steps
    ]
    return progress, gains


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
    progress, found = play(values, mode)
    assert found == gains
    assert (progress.best_metric, progress.best_step) == (best, best_step)
    steps = [entry["step"] for entry in progress.history]
    assert steps == [10 * (i + 1) for i in range(len(values))]


@pytest.mark.parametrize(
    ("values", "stopped"),
    [([1.0, 0.0], False), ([1.0, 0.0, 1.0], True), ([1.0, 0.0, 2.0, 0.0], False)],
)
def test_patience_counts_evaluations_in_a_row(values, stopped):
    progress, _ = play(values, patience=2)
    assert progress.stopped_early is stopped


def test_json_round_trip_is_exact():
    progress, _ = play([0.1 + 0.2, 1 / 3, 0.0], patience=2)
    progress.averager.add({"loss": 1 / 7})
    assert RunProgress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_a_monitor_that_is_not_measured_is_named():
    with pytest.raises(InputError, match=r"\(EM\), found 'F1'"):
        RunProgress().record(1, {"EM": 1.0}, "F1", "max", None)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_log_is_read_up_to_a_line_that_was_never_completed(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n{"step"')
    assert read_metrics(tmp_path) == [{"step": 1}]
    file.write_text('{"step": 1}\n{"step"\n')
    with pytest.raises(InputError, match="metrics.jsonl: line 2: expected JSON"):
        read_metrics(tmp_path)


@pytest.mark.parametrize("tail", ["", '{"step": 4, "ki', '{"step": 3, "kind": "train"}'])
@pytest.mark.parametrize(("step", "evaluated"), [*((n, True) for n in range(4)), (2, False)])
def test_resuming_cuts_what_the_checkpoint_lacks(tmp_path, step, evaluated, tail):
    """What comes after it, and perhaps the evaluation at its step."""
    path = tmp_path / "metrics.jsonl"
    whole = [{"step": s, "kind": kind} for s in (1, 2, 3) for kind in ("train", "eval")]
    path.write_text("".join(json.dumps(line) + "\n" for line in whole) + tail)
    truncate_metrics(path, step, evaluated=evaluated)
    expected = [line for line in whole if line["step"] <= step]
    assert lines(path) == (expected if evaluated else expected[:-1])
