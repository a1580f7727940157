"""Two processes that meet on loopback: the run of one process, killed and resumed too."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.training import mesh as mesh_module
from hardem_jax.training.distributed import initialize_distributed, is_multi_process
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.state import named_leaves
from tests.processes import ROOT
from tests.training import process_worker as worker
from tests.training import toy_problem as toy


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"JAX_COORDINATOR_ADDRESS": "host:1"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, False),  # no srun
        ({"SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_STEP_NUM_TASKS": "4"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, True),
        # A host of a slice asks for its neighbours, unless there is no one to ask.
        ({"TPU_ML_PLATFORM": "JAX"}, True),
        ({"TPU_ML_PLATFORM": "JAX", "JAX_PLATFORMS": "cpu"}, False),
        ({"TPU_ML_PLATFORM": "JAX", "TPU_SKIP_MDS_QUERY": "1"}, False),
        (
            {"TPU_ML_PLATFORM": "JAX", "TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "a,b"},
            True,
        ),
    ],
)
def test_a_launcher_is_known_by_its_variables(environment, expected):
    assert is_multi_process(environment) is expected


def test_what_is_missing_or_not_a_number_is_named(monkeypatch):
    monkeypatch.setenv("JAX_NUM_PROCESSES", "two")
    initialize_distributed()  # nothing says that there are others
    with pytest.raises(InputError, match="JAX_NUM_PROCESSES: expected a number, found 'two'"):
        initialize_distributed("on")


def start(folder, **environment):
    """Both processes of a run."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    shared = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    shared |= {"PYTHONPATH": str(ROOT), "JAX_COORDINATOR_ADDRESS": address}
    shared |= {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    return [
        subprocess.Popen(
            [sys.executable, "-W", "error", worker.__file__, str(folder)],
            cwd=ROOT,
            env=shared | environment | {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(index)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]


def finish(processes):
    for index, process in enumerate(processes):
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        whom = "the others" if index == 0 else "process 0"
        assert f"process {index} of 2: waiting for {whom} at localhost:" in err


def kill_one(processes, step):
    """Kills the second when it begins this step; the first cannot go on and is ended as well."""
    assert f"step {step}\n" in processes[1].stdout
    processes[1].send_signal(signal.SIGKILL)
    processes[0].send_signal(signal.SIGKILL)
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL, err


@pytest.mark.slow
def test_a_dead_process_ends_the_other_within_seconds(tmp_path):
    victim, processes = 0, start(tmp_path / "run", SECONDS_PER_STEP="0.2", HEARTBEAT_SECONDS="10")
    assert "step 4\n" in processes[victim].stdout
    processes[victim].kill()
    began = time.monotonic()
    _, err = processes[1 - victim].communicate(timeout=600)
    # JAX aborts; a loaded machine may need a while to do so.
    assert processes[1 - victim].returncode == -signal.SIGABRT, err
    assert time.monotonic() - began < 40
    processes[victim].communicate()


def terminate_one(processes, step):
    """SIGTERM to the second at this step: both save the same step and say so in one line."""
    assert f"step {step}\n" in processes[1].stdout
    processes[1].send_signal(signal.SIGTERM)
    said = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [143, 143], said
    last = [text.splitlines()[-1] for text in said]
    assert last[0] == last[1] and last[0].startswith("stopped by SIGTERM after step ")
    return int(last[0].split(";")[0].split()[-1])


def losses(folder):
    return [(line["step"], line["loss"]) for line in toy.logged(folder, "train")]


@pytest.mark.slow
def test_two_processes_train_as_one_and_resume_after_signals(tmp_path, monkeypatch):
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    reference = start(undisturbed)
    kill_one(start(disturbed, SECONDS_PER_STEP="0.4"), step=4)
    stopped = terminate_one(start(disturbed, SECONDS_PER_STEP="1"), step=4)
    assert 4 < stopped < worker.CONFIG.num_steps
    assert (disturbed / "last" / str(stopped)).is_dir()
    finish(start(disturbed))
    finish(reference)
    with np.load(undisturbed / "final.npz") as expected, np.load(disturbed / "final.npz") as found:
        for name in expected.files:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    assert losses(disturbed) == losses(undisturbed)
    # One process on the same number of devices, with the same batches.
    monkeypatch.setattr(mesh_module, "MIN_SPLIT_SIZE", toy.WIDTH)
    single = worker.run(tmp_path / "single", data_mesh(4, fsdp=worker.FSDP), toy.batches())
    for (_, one), (_, two) in zip(losses(tmp_path / "single"), losses(undisturbed), strict=True):
        assert two == pytest.approx(one, rel=1e-5)
    with np.load(undisturbed / "final.npz") as two:
        for name, leaf in named_leaves(single.state.params).items():
            np.testing.assert_allclose(two[f"1.{name}"], leaf, atol=1e-5)
