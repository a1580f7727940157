"""A process for each library and variant, so that none shares threads, memory or a crash.

The functions below `Worker` run in its process. This module imports neither JAX nor PyTorch.
"""

import concurrent.futures
import dataclasses
import gc
import importlib.metadata
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol, TypeVar

from experiments.benchmark.measure import timed
from experiments.benchmark.setting import Setting

T = TypeVar("T")
CHECKED_STEPS = 2
PRODUCT = "matrix product"
_CLEAR_PEAK = "5"  # Linux, proc(5): resets the peak resident set size


class Step(Protocol):
    """What is measured; `run` returns when all steps have finished."""

    def run(self, steps: int) -> Any: ...


class WorkerError(RuntimeError):
    """What a worker could not do: one line, and the traceback."""

    def __init__(self, message: str, traceback: str = ""):
        super().__init__(message, traceback)
        self.message, self.traceback = message, traceback


class Worker:
    """A process that holds steps by name and runs them when told.

    Args:
        folder: weights, and place for caches.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        spawn = multiprocessing.get_context("spawn")
        self._pool = concurrent.futures.ProcessPoolExecutor(
            1, mp_context=spawn, initializer=_start, initargs=(folder,)
        )

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """What one of the functions below returns in the process.

        Raises:
            WorkerError: it failed, or the process has died.
        """
        try:
            return self._pool.submit(_reporting, function, *arguments).result()
        except BrokenProcessPool as error:
            raise WorkerError(str(error)) from error

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


def _start(folder: Path) -> None:
    # A compilation found in a cache of an earlier run would look instant.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="inductor-", dir=folder)
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"


def _reporting(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except Exception as error:
        # Any type: the compilers of both libraries have many, and some cannot be pickled.
        said = str(error).strip().splitlines() or [""]
        line = f"{type(error).__name__}: {said[0]}".removesuffix(": ")
        raise WorkerError(line, traceback.format_exc()) from None


_steps: dict[str, Step] = {}


def check(variant: str, setting: Setting, folder: Path) -> dict[str, list[float]]:
    """Losses and gradient norms of the first steps without dropout."""
    step = make(variant, dataclasses.replace(setting, dropout=0.0), folder)
    metrics = step.run(CHECKED_STEPS)
    del step
    gc.collect()  # models hold reference cycles; their memory is not to be measured later
    return {"loss": [loss for loss, _ in metrics], "grad_norm": [norm for _, norm in metrics]}


def build(variant: str, setting: Setting, folder: Path) -> float:
    """Makes a step and runs it; returns the seconds of the first one, compilation included."""
    step = _steps[variant] = make(variant, setting, folder)
    seconds = first_step(step)
    if setting.device == "gpu":
        if torch := sys.modules.get("torch"):
            torch.cuda.reset_peak_memory_stats()
    elif Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK)
    return seconds


def first_step(step: Step) -> float:
    """Runs a new step twice; returns the seconds of the first time."""
    began = time.perf_counter()
    step.run(1)
    seconds = time.perf_counter() - began
    step.run(1)  # buffers of the second step come from what the first one gave back
    return seconds


def run(variant: str, steps: int, device: str) -> dict[str, Any]:
    """Seconds per step, and the highest memory so far."""
    return {**timed(_steps[variant].run, steps), "peak_mib": _peak_mib(device)}


def libraries(device: str) -> dict[str, Any]:
    """Versions, threads and devices of what the process has loaded."""
    if torch := sys.modules.get("torch"):
        about = {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
        about["torch threads"] = torch.get_num_threads()
        if device == "gpu":
            about["torch device"] = torch.cuda.get_device_name()
        return about
    from experiments.benchmark.jax_steps import versions

    return versions()


def make(variant: str, setting: Setting, folder: Path) -> Step:
    """The step of a variant, see `experiments.benchmark.train_step`."""
    if variant.startswith("pytorch"):
        from experiments.benchmark import pytorch

        kinds = variant.split("-")[1:]
        return pytorch.ReaderStep(
            setting,
            folder,
            compiled="compile" in kinds,
            candidate_losses="released" in kinds,
            unpadded="unpadded" in kinds,
        )
    from experiments.benchmark import jax_steps

    if variant == PRODUCT:
        return jax_steps.MatrixProduct(setting)
    task = "spans" if variant == "ours" else variant
    return jax_steps.TrainingStep(dataclasses.replace(setting, task=task), folder)


def _peak_mib(device: str) -> float | None:
    """Peak memory: of the device on a GPU, resident on a CPU (None where it is not known)."""
    if device == "gpu":
        if torch := sys.modules.get("torch"):
            return torch.cuda.max_memory_allocated() / 2**20
        return sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"] / 2**20
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    [line] = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
    return int(line.split()[1]) / 2**10
