"""The benchmarks at tiny sizes: what they compute and write, never how fast."""

import functools
import json
import os
import time

import numpy as np
import pytest

from experiments.benchmark import train_step
from experiments.benchmark.steps import jax_steps, workers
from experiments.benchmark.steps.jax_steps import TrainingStep
from experiments.benchmark.steps.setting import STEPS, Setting, step_flops
from experiments.benchmark.train_step import interleave
from experiments.report import Report
from tests import commands

TINY = ["--preset", "tiny", "--layers", "1", "--tokens", "24", "--rows", "4"]
TINY += ["--rounds", "2", "--steps", "1"]
SETTING = Setting("tiny", rows=6, tokens=40, solutions=50, shortest=0.5)
fails = functools.partial(commands.fails, train_step.TrainStep)


def run(capsys, out, *arguments):
    """The JSON file and what was printed."""
    commands.call(train_step.TrainStep, *TINY, *arguments, "--out", out)
    return json.loads(out.read_text()), capsys.readouterr().out


@pytest.mark.slow
def test_train_step_agrees_with_pytorch(capsys, tmp_path, monkeypatch):
    """Padded rows, two processes; a compiler that fails is a row, not the end."""
    pytest.importorskip("torch", reason="comparing with PyTorch needs torch")
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    content, printed = run(
        *(capsys, tmp_path / "out.json"), *("--shortest", "0.5", "--solutions", "7")
    )
    assert content["flags"]["solutions"] == 7
    assert len(content["machine"]["load_average_after"]) == 3
    [result] = content["results"]
    ours, torch, compiled = (result["variants"][name] for name in train_step.VARIANTS)
    assert {"torch", "jax"} <= result["libraries"].keys()
    for measure in ("loss", "grad_norm"):
        mine, theirs = (row["without_dropout"][measure] for row in (ours, torch))
        assert len(mine) == 2 and mine[0] != mine[1]
        np.testing.assert_allclose(mine, theirs, rtol=1e-4)
    for row in ours, torch:
        assert len(row["rounds"]["wall_s"]) == len(row["rounds"]["cpu_s"]) == 2
        assert row["examples_per_s"] > 0 and row["first_step_s"] > 0
        assert set(row["wall_s"]) == set(row["speed_cpu_s"]) == {"low", "median", "high"}
        assert row["peak_mib"] is None or row["peak_mib"] > 1
    assert torch["speed_wall_s"]["median"] == 1  # it is the only, hence the faster one
    assert "no-such-compiler" in compiled["traceback"]
    assert "failed" in printed and compiled["error"] in " ".join(printed.split())
    for name in ("ours", "pytorch", "pytorch-compile", "load average"):
        assert name in printed


@pytest.mark.slow
def test_the_layout_of_a_step_changes_no_loss():
    plain = {"tokens": 24, "solutions": 3, "shortest": 0.5, "dropout": 0.0}

    def losses(**others):
        return TrainingStep(Setting("tiny", 1, **plain, **others)).run(2)

    expected = losses(rows=8)
    for layout in ({"rows": 8, "packed_tokens": 40}, {"rows": 8, "scan_layers": True}):
        np.testing.assert_allclose(losses(**layout), expected, rtol=1e-5, err_msg=str(layout))


@pytest.mark.slow
def test_nothing_to_measure_is_one_line(capsys, tmp_path, monkeypatch):
    line = fails(capsys, *TINY, "--variants", "ours", "--device", "tpu")
    assert line.startswith("error: device: expected a tpu, found none")
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch is broken')")
    monkeypatch.syspath_prepend(tmp_path)
    line = fails(capsys, *TINY, "--variants", "pytorch")
    assert "nothing could be measured: pytorch: RuntimeError: torch is broken" in line


def test_a_row_says_how_to_install_what_it_needs(capsys, monkeypatch):
    missing = "torch: not installed (pip install '.[parity]' in a checkout)"
    rows = {
        "ours": {"examples_per_s": 2.0},
        "pytorch": {"error": missing},
        "queries": {"error": "its time was over"},
    }
    found = [{"tokens": 24, "libraries": {}, "variants": rows}]
    device = {"device": "cpu", "kind": "cpu"}
    monkeypatch.setattr(train_step.TrainStep, "_measured", lambda self, report: (found, device))
    train_step.TrainStep().run()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("│")[3].strip() for line in lines if line.startswith("│")] == [
        *("2.0", "pip install '.[parity]'", "time was over")
    ]
    assert f"24 tokens, pytorch: {missing}" in lines


def test_what_is_not_built_or_run_in_time_is_given_up(tmp_path):
    with workers.Worker(tmp_path, until=time.monotonic() + 30) as worker:
        assert worker(abs, -3) == 3
        for function, argument, message in (
            (int, "x", "ValueError: invalid literal"),
            (os._exit, 7, "exit code 7"),
        ):
            with pytest.raises(workers.WorkerError, match=message):
                worker(function, argument)
    with workers.Worker(tmp_path, until=time.monotonic() + 1) as worker:
        with pytest.raises(workers.WorkerError, match=r"its time was over \(--minutes\)'"):
            worker(time.sleep, 60)


def test_groups_that_would_end_too_late_are_left_out(capsys, monkeypatch):
    """The second would take as long as the first, more than is left."""
    monkeypatch.setattr(workers, "find_device", _device)
    monkeypatch.setattr(jax_steps, "write_weights", lambda setting, folder: None)
    first = {"tokens": 24, "libraries": {}, "variants": {"ours": {}}, "least_s": 61.0}
    command = train_step.TrainStep(variants=("ours", "queries"), tokens=(24, 40), minutes=1.0)
    monkeypatch.setattr(train_step.TrainStep, "_measure", lambda *arguments: first)
    results, _ = command._measured(Report(command, None))
    assert results == [first]
    assert "are over: ours, queries (40 tokens); taggings (24 tokens);" in capsys.readouterr().out


def _device(device):
    return {"device": "cpu", "kind": "cpu", "peak_flops_per_s": None}


@pytest.mark.slow
def test_every_head_is_measured_within_the_minutes(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(train_step, "HEADS", ("taggings", "equations"))
    flags = ("--variants", "taggings", "--rounds", "3", "--minutes")
    line = fails(capsys, *TINY, *flags, "0")
    assert "nothing could be measured: taggings: its time was over (--minutes)" in line

    content, _ = run(capsys, tmp_path / "all.json", *flags, "60")
    measured = [result["variants"] for result in content["results"]]
    assert [list(variants) for variants in measured] == [["taggings"], ["equations"]]
    for variants in measured:
        [figures] = variants.values()
        assert len(figures["rounds"]["wall_s"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("task", STEPS)
def test_every_task_has_a_step(task):
    """Of its registry's module: random solutions have mass, and every loss a gradient."""
    sizes = {"rows": 4, "tokens": 48, "solutions": 6, "shortest": 0.5}
    [(loss, norm)] = TrainingStep(Setting("tiny", 2, task=task, **sizes)).run(1)
    assert np.isfinite(loss) and 0 < norm < np.inf


def test_disagreement_stops_the_benchmark():
    checks = {name: {"loss": [7.0], "grad_norm": [0.5]} for name in train_step.VARIANTS}
    train_step.check_agreement(checks, SETTING)
    checks["pytorch"]["grad_norm"] = [0.5 + 2e-4]
    with pytest.raises(RuntimeError, match="grad_norm of ours is 0.5, of pytorch 0.5002"):
        train_step.check_agreement(checks, SETTING)
    checks["pytorch"]["grad_norm"] = [float("nan")]
    with pytest.raises(RuntimeError, match="nan"):
        train_step.check_agreement(checks, SETTING)


def test_speed_is_relative_to_the_faster_pytorch_in_the_same_round():
    times = {
        "ours": {"wall_s": [1.0, 4.0, 2.0], "cpu_s": [1.0] * 3, "peak_mib": [7.0, 8.0, 9.0]},
        "pytorch": {"wall_s": [3.0, 8.0, 5.0], "cpu_s": [2.0] * 3, "peak_mib": [1.0] * 3},
        "pytorch-compile": {"wall_s": [2.0, 10.0, 3.0], "cpu_s": [3.0] * 3, "peak_mib": [1.0] * 3},
    }
    setting = Setting("tiny", rows=16, tokens=40, solutions=1)
    rows = {name: train_step.summarize(name, times, setting) for name in times}
    assert rows["ours"]["examples_per_s"] == 16 / 2.0 and rows["ours"]["peak_mib"] == 9
    # By the wall clock the compiled one is faster (median 3 against 5), by CPU time the other.
    assert rows["ours"]["speed_wall_s"]["median"] == sorted([2 / 1, 10 / 4, 3 / 2])[1]
    assert rows["ours"]["speed_cpu_s"]["median"] == 2.0 / 1.0
    assert rows["pytorch"]["speed_wall_s"]["median"] == sorted([2 / 3, 10 / 8, 3 / 5])[1]
    assert train_step.summarize("ours", {"ours": times["ours"]}, setting)["speed_wall_s"] is None


def test_figures_are_those_of_what_the_variant_reads():
    setting = Setting("bert-base", rows=4, tokens=64, solutions=1, shortest=0.5, dtype="bfloat16")
    times = {"wall_s": [0.5], "cpu_s": [0.5], "peak_mib": [1.0]}
    found = {
        name: train_step.summarize(name, {name: times}, setting, 1e15)
        for name in ("equations", "queries", "programs", "taggings", "naqanet")
    }
    for name in ("queries", "programs", "taggings"):
        where = STEPS[name].batch(setting.batch_sizes)["where"]
        assert where.all() and found[name]["tokens_per_s"] == where.sum() / 0.5
    where = STEPS["equations"].batch(setting.batch_sizes)["where"]
    assert found["equations"]["tokens_per_s"] == where.sum() / 0.5 < 2 * 4 * 64
    assert found["equations"]["mfu"] == pytest.approx(step_flops(setting) / 0.5 / 1e15)
    assert [found["naqanet"][x] for x in ("tokens_per_s", "mfu")] == [None] * 2


def test_turns_change_and_no_round_begins_that_would_end_too_late(monkeypatch):
    now, order = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def turn(name):
        now[0] += 2.5
        order.append(name)
        return len(order)

    turns = {name: (lambda name=name: turn(name)) for name in "ab"}
    assert interleave(turns, rounds=3) == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert "".join(order) == "abbaab"
    for until, rounds in ((0.0, 1), (109.9, 1), (110.0, 2), (114.0, 2), (1e9, 7)):
        now[0] = 100.0
        assert len(interleave(turns, 7, until=until)["a"]) == rounds


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["--rows", "3"], "rows: expected an even number, found 3"),
        (["--tokens", "8"], "tokens: expected at least 16, found 8"),
        (["--shortest", "0.1"], "shortest: "),
        (["--variants"], "variants: "),
        (["--out", "nowhere/out.json"], "out.json: cannot be written, its folder does not exist"),
        (["--tokens"], "tokens: "),
    ],
)
def test_wrong_flags_are_refused(capsys, flags, culprit):
    assert culprit in fails(capsys, *flags)
