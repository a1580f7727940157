"""kill -9 at random moments, the same command again, the same run bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("kill_worker.py")
KILLS = 10


def start(folder):
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def kill_at_random(process, rng):
    """Kills it at a random moment; returns the steps it was seen to begin in this life.

    One in five dies while starting. The others die some steps later plus a
    moment that has nothing to do with steps, so that it falls on anything: a
    save, a clean-up, an evaluation.
    """
    steps = 0 if rng.random() < 0.2 else rng.randint(1, 30)
    for _ in range(steps):
        process.stdout.readline()
    time.sleep(rng.uniform(0.0, 0.15 if steps else 2.0))
    process.send_signal(signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"ended before it was killed: {err}"
    return steps


def metric_lines(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "steps_per_second"} for line in lines]


def test_killed_ten_times_ends_as_if_never_killed(tmp_path):
    rng = random.Random(int(os.environ.get("HARDEM_KILL_SEED", "0")))
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    reference = start(undisturbed)
    lives = [kill_at_random(start(disturbed), rng) for _ in range(KILLS)]
    assert 0 in lives and max(lives) > 0, "choose another seed: both kinds of kill are needed"
    checkpoints = [
        int(path.name) for path in (disturbed / "last").glob("[0-9]*") if path.suffix == ""
    ]
    assert max(checkpoints) > 30, "the killed runs did not get on"
    finish(start(disturbed))
    finish(reference)
    with (
        np.load(undisturbed / "final.npz") as expected,
        np.load(disturbed / "final.npz") as found,
    ):
        assert set(found.files) == set(expected.files)
        for name in expected.files:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert metric_lines(disturbed) == metric_lines(undisturbed)
