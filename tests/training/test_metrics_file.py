"""What is read from metrics.jsonl, and what a resumed run cuts from it."""

import json

import pytest

from hardem_jax.errors import InputError
from hardem_jax.training.run_progress import read_metrics, truncate_metrics


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
@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_resuming_cuts_what_comes_after_the_checkpoint(tmp_path, step, tail):
    path = tmp_path / "metrics.jsonl"
    whole = [{"step": s, "kind": kind} for s in (1, 2, 3) for kind in ("train", "eval")]
    path.write_text("".join(json.dumps(line) + "\n" for line in whole) + tail)
    truncate_metrics(path, step)
    assert lines(path) == [line for line in whole if line["step"] <= step]


def test_an_evaluation_that_the_checkpoint_lacks_is_cut(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = [{"step": s, "kind": kind} for s in (1, 2) for kind in ("train", "eval")]
    path.write_text("".join(json.dumps(line) + "\n" for line in whole))
    truncate_metrics(path, 2, evaluated=False)
    assert lines(path) == whole[:-1]


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "kind": "train"}\n{"step": 2, "ki\n')
    with pytest.raises(InputError, match="metrics.jsonl: line 2: expected JSON, found"):
        truncate_metrics(path, 3)


def test_cutting_a_file_that_is_not_there(tmp_path):
    truncate_metrics(tmp_path / "metrics.jsonl", 3)
    assert not (tmp_path / "metrics.jsonl").exists()
