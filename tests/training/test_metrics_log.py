"""What lands in metrics.jsonl and on the terminal."""

import functools
import importlib
import json
from types import SimpleNamespace

import pytest

from hardem_jax.errors import InputError
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.metrics_log import Display, JsonLines, RunLog, peak_flops
from hardem_jax.training.run_progress import Averager, RunProgress


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_averages_are_means_since_the_reset():
    averager = Averager()
    for loss in (1.0, 2.0, 6.0):
        averager.add({"loss": loss})
    assert averager.means() == {"loss": (1.0 + 2.0 + 6.0) / 3}
    averager.reset()
    averager.add({"loss": 5.0})
    assert averager.means() == {"loss": 5.0}


def test_one_flushed_line_per_write(tmp_path):
    writer = JsonLines(tmp_path)
    writer.write(1, "train", {"loss": 0.5})
    writer.write(1, "eval", {"EM": 50.0})
    # Read before closing: a killed process never closes.
    assert lines(tmp_path / "metrics.jsonl") == [
        {"step": 1, "kind": "train", "loss": 0.5},
        {"step": 1, "kind": "eval", "EM": 50.0},
    ]
    writer.close()


def run_log(directory, *, start=0, token_cost=None, **options):
    options = {"progress": False, "log_every": 2, **options}
    config = LoopConfig(num_steps=4, monitor="em", **options)
    seconds = iter(range(0, 1000, 10))
    clock = functools.partial(next, seconds)
    return RunLog(directory, config, start, RunProgress(), 0.0, token_cost, clock=clock)


def test_tensorboard_files_are_written_on_request(tmp_path):
    for tensorboard in (False, True):
        log = run_log(tmp_path, tensorboard=tensorboard)
        log.evaluation(1, {"em": 0.5}, gained=True)
        log.close()
        assert bool(list(tmp_path.glob("tensorboard/events.*"))) is tensorboard


TRACKER = """
made = []

class Tracker:
    def __init__(self, directory, step):
        self.said = [(directory.name, step)]
        made.append(self)

    def write(self, step, kind, metrics):
        self.said.append((step, kind, metrics))

    def close(self):
        self.said.append("closed")
"""


def test_a_tracker_gets_what_the_file_gets(tmp_path, monkeypatch):
    (tmp_path / "own_tracker.py").write_text(TRACKER)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    log = run_log(folder, start=1, writers=("own_tracker:Tracker",))
    log.step(2, {"loss": 0.5, "items": 8.0})
    log.evaluation(2, {"em": 50.0}, gained=True)
    log.close()
    (tracker,) = importlib.import_module("own_tracker").made
    place, *written, end = tracker.said
    assert (place, end) == (("run", 1), "closed")
    assert [{"step": s, "kind": k, **m} for s, k, m in written] == lines(folder / "metrics.jsonl")
    means = written[0][2]
    # The clock above advances by 10 seconds whenever it is read: once at the start, once here.
    assert (means["steps_per_second"], means["items_per_second"]) == (0.1, 0.8)


def test_rates_of_tokens_and_of_what_the_devices_could_do(tmp_path):
    for name, cost in (("unknown", None), ("known", 1e-3)):
        folder = tmp_path / name
        folder.mkdir()
        log = run_log(folder, token_cost=cost)
        log.step(1, {"tokens": 3000.0})
        log.step(2, {"tokens": 5000.0})
        log.close()
        (means,) = lines(folder / "metrics.jsonl")
        # Two steps in the 10 seconds between two looks at the clock.
        assert means["tokens_per_second"] == 800
        assert means.get("mfu") == (None if cost is None else pytest.approx(0.8))


@pytest.mark.parametrize("name", ["json", "json:Tracker", "no_such_module:Tracker", ":x"])
def test_a_tracker_that_is_not_there_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=f"loop.writers: expected MODULE:NAME .*, found '{name}'"):
        run_log(tmp_path, writers=(name,))


def test_plain_lines_where_there_is_no_terminal(capsys):
    labels = (("loss", "loss"), ("hard", "hard share"), ("z_size", "mean |Z|"))
    display = Display(100, 0, labels, on=True)
    display.advance()
    metrics = {"loss": 0.25, "hard": 0.5, "grad_norm": 3.0, "steps_per_second": 2.0}
    display.averages(40, metrics)
    display.close()
    # z_size is not among the metrics of this task; 60 steps are left at 2 a second.
    expected = "step 40/100  2 steps/s  loss 0.25  hard share 0.5  0:00:30 left\n"
    assert capsys.readouterr().err == expected


def test_off_means_silent(capsys):
    display = Display(100, 0, (("loss", "loss"),), on=False)
    display.averages(40, {"loss": 0.25, "steps_per_second": 2.0})
    display.print("hello")
    display.close()
    assert capsys.readouterr() == ("", "")


def test_a_bar_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    display = Display(100, 39, (("loss", "loss"),), on=True)
    display.advance()
    display.averages(40, {"loss": 0.25, "steps_per_second": 2.0})
    display.print("evaluated [EM 50]")
    display.close()
    err = capsys.readouterr().err
    assert "40/100" in err.replace(" ", "") and "loss 0.25" in err
    assert "evaluated [EM 50]" in err


@pytest.mark.parametrize(
    ("kind", "tflops"),
    [
        ("TPU v5 lite", 197),
        ("TPU v5p", 459),
        ("TPU v5", 459),
        ("TPU v6 lite", 918),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA T4", None),
        ("cpu", None),
    ],
)
def test_peaks_of_devices_by_the_names_that_they_give_themselves(kind, tflops):
    devices = [SimpleNamespace(device_kind=kind)] * 8
    assert peak_flops(devices) == (None if tflops is None else pytest.approx(8e12 * tflops))


def test_a_device_of_unknown_peak_makes_the_sum_unknown():
    assert peak_flops([SimpleNamespace(device_kind=kind) for kind in ("TPU v4", "cpu")]) is None
