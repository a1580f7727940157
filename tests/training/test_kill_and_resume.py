"""kill -9 at random moments, the same command again, the same run bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.training import toy_problem as toy

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("kill_worker.py")
KILLS = 6


def start(folder):
    # No cache of compiled programs: a kill may leave half an entry.
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(folder)],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def kill(process, steps, delay):
    """Kills it `delay` seconds after it was seen to begin `steps` steps (0: while it starts).

    The delay has nothing to do with steps, so the end falls on anything: a
    save, a clean-up, an evaluation.
    """
    for _ in range(steps):
        process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"ended before it was killed: {err}"


def newest_checkpoint(folder):
    """Step of the newest complete checkpoint, 0 if there is none."""
    names = [path.name for path in (folder / "last").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=0)


@pytest.mark.slow
def test_killed_again_and_again_ends_as_if_never_killed(tmp_path):
    rng = random.Random(int(os.environ.get("HARDEM_KILL_SEED", "0")))
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    reference = start(undisturbed)
    # Two lives end while starting, the others are of all lengths, in random order.
    lives = [0, 0] + [rng.randint(8 * i + 1, 8 * i + 8) for i in range(KILLS - 2)]
    rng.shuffle(lives)
    reached = [0]
    for steps in lives:
        kill(start(disturbed), steps, delay=rng.uniform(0.0, 0.15 if steps else 2.0))
        reached.append(newest_checkpoint(disturbed))
    assert reached == sorted(reached), "a kill has cost a checkpoint that was there"
    assert len(set(reached)) > KILLS / 2, "the killed runs did not get on"
    finish(start(disturbed))
    finish(reference)
    with (
        np.load(undisturbed / "final.npz") as expected,
        np.load(disturbed / "final.npz") as found,
    ):
        assert set(found.files) == set(expected.files)
        for name in expected.files:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert toy.logged(disturbed) == toy.logged(undisturbed)
