"""What lands in metrics.jsonl and on the terminal."""

import functools
from types import SimpleNamespace

import pytest

from hardem_jax.training.config import LoopConfig
from hardem_jax.training.metrics_log import RunLog, peak_flops
from hardem_jax.training.run_progress import RunProgress, read_metrics


def run_log(directory, *, start=0, token_cost=None, **options):
    options = {"progress": False, "log_every": 2, **options}
    config = LoopConfig(num_steps=4, monitor="em", **options)
    clock = functools.partial(next, iter(range(0, 1000, 10)))
    return RunLog(directory, config, start, RunProgress(), 0.0, token_cost, clock=clock)


def test_one_flushed_line_per_write(tmp_path):
    log = run_log(tmp_path)
    log.evaluation(1, {"EM": 50.0, "step": 7.0, "kind": 2.0}, gained=True)
    # Read before closing: a killed process never closes. Step and kind are those of the line.
    assert read_metrics(tmp_path) == [{"step": 1, "kind": "eval", "EM": 50.0}]
    log.close()


def test_tensorboard_files_are_written_on_request(tmp_path):
    for tensorboard in (False, True):
        log = run_log(tmp_path, tensorboard=tensorboard)
        log.evaluation(1, {"em": 0.5}, gained=True)
        log.close()
        assert bool(list(tmp_path.glob("tensorboard/events.*"))) is tensorboard


def test_lines_show_averages_and_the_time_left(tmp_path, capsys):
    labels = (("loss", "loss"), ("hard", "hard share"), ("z_size", "mean |Z|"))
    log = run_log(tmp_path, progress=True, shown=labels)
    for step in (1, 2):
        log.step(step, {"loss": 0.25, "hard": 0.5, "grad_norm": 3.0})
    log.close()
    # z_size is not among the metrics of this task; 2 of 4 steps are left at 2 in 10 seconds.
    expected = "step 2/4  0.2 steps/s  loss 0.25  hard share 0.5  0:00:10 left\n"
    assert capsys.readouterr().err == expected


def test_rates_of_tokens_and_of_what_the_devices_could_do(tmp_path):
    for name, cost in (("unknown", None), ("known", 1e-3)):
        folder = tmp_path / name
        folder.mkdir()
        log = run_log(folder, token_cost=cost)
        log.step(1, {"tokens": 3000.0})
        log.step(2, {"tokens": 5000.0})
        log.close()
        (means,) = read_metrics(folder)
        # Two steps in the 10 seconds between two looks at the clock.
        assert means["tokens_per_second"] == 800
        assert means.get("mfu") == (None if cost is None else pytest.approx(0.8))


PEAKS = [("TPU v5 lite", 197), ("TPU v5p", 459), ("TPU v5", 459), ("TPU v6 lite", 918)]
PEAKS += [("NVIDIA H200", 989), ("NVIDIA A100-SXM4-80GB", 312), ("NVIDIA T4", None), ("cpu", None)]


@pytest.mark.parametrize(("kind", "tflops"), PEAKS)
def test_peaks_of_devices_by_the_names_that_they_give_themselves(kind, tflops):
    devices = [SimpleNamespace(device_kind=kind)] * 8
    assert peak_flops(devices) == (None if tflops is None else pytest.approx(8e12 * tflops))


def test_a_device_of_unknown_peak_makes_the_sum_unknown():
    assert peak_flops([SimpleNamespace(device_kind=kind) for kind in ("TPU v4", "cpu")]) is None
