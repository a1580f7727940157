"""A process for each library and variant, so that none shares threads, memory or a crash.

The functions below `Worker` run in its process. This module imports neither JAX nor PyTorch.
"""

import contextlib
import dataclasses
import gc
import importlib.metadata
import math
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from experiments.benchmark.steps.setting import Device, Setting
from hardem_jax.errors import MissingPackageError, require_packages

T = TypeVar("T")
CHECKED_STEPS = 2
#: Variant -> mode of `torch.compile`; None to compile nothing.
PYTORCH = {"pytorch": None, "pytorch-compile": "default", "pytorch-graphs": "reduce-overhead"}
_CLEAR_PEAK = "5"  # Linux, proc(5): resets the peak resident set size


class WorkerError(RuntimeError):
    """What a worker could not do: one line, and the traceback."""


class Worker:
    """A process that holds steps by name and runs them when told; `folder` is for its caches.

    It is ended if something has not returned by `until`, on `time.monotonic`.
    """

    def __init__(self, folder: Path, until: float = math.inf):
        spawn = multiprocessing.get_context("spawn")
        self.until = until
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, folder))
        self._process.start()
        theirs.close()

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """What one of the functions below returns in the process, or a `WorkerError`."""
        left = max(0.0, self.until - time.monotonic())
        try:
            self._pipe.send((function, arguments))
            if not self._pipe.poll(None if left == math.inf else left):
                self._process.kill()
                raise WorkerError("its time was over (--minutes)", "")
            done, returned = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            raise WorkerError(f"its process ended with exit code {code}", "") from None
        if not done:
            raise WorkerError(*returned)
        return returned

    def attempt(self, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        """The same, with ``error`` and ``traceback`` in place of what could not be returned."""
        try:
            return self(function, *arguments)
        except WorkerError as error:
            return dict(zip(("error", "traceback"), error.args, strict=True))

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: Any) -> None:
        self._pipe.close()  # which ends the process
        self._process.join()


def _serve(pipe: Any, folder: Path) -> None:
    """Calls functions and answers, until the other end is closed."""
    # A compilation found in a cache of an earlier run would look instant.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="inductor-", dir=folder)
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            function, arguments = pipe.recv()
            try:
                answer = (True, function(*arguments))
            except Exception as error:
                # Any type: the compilers of both libraries have many, and some cannot be pickled.
                said = str(error).strip().splitlines() or [""]
                kind = "" if isinstance(error, MissingPackageError) else type(error).__name__
                line = f"{kind}: {said[0]}".removeprefix(": ").removesuffix(": ")
                answer = (False, (line, traceback.format_exc()))
            pipe.send(answer)


#: Variant -> what is measured; its `run` returns when all steps have finished.
_steps: dict[str, Any] = {}


def build(variant: str, setting: Setting, folder: Path) -> dict[str, Any]:
    """Makes a step to run, after another whose losses and gradient norms ``without_dropout`` are to
    be compared; ``first_step_s`` has the seconds of the first step, compilation included."""
    step = make(variant, dataclasses.replace(setting, dropout=0.0), folder)
    losses, norms = zip(*step.run(CHECKED_STEPS), strict=True)
    del step
    gc.collect()  # models hold reference cycles; their memory is not to be measured later
    step = _steps[variant] = make(variant, setting, folder)
    seconds = timed(step.run)["wall_s"]
    step.run(1)  # buffers of the second step come from what the first one gave back
    if setting.device != "cpu":
        if torch := sys.modules.get("torch"):
            torch.cuda.reset_peak_memory_stats()
    elif Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK)
    return {"without_dropout": {"loss": losses, "grad_norm": norms}, "first_step_s": seconds}


def run(variant: str, steps: int, device: str) -> dict[str, Any]:
    """Seconds per step, and peak memory in MiB: of the process on CPUs, else of one device."""
    times = timed(_steps[variant].run, steps)
    if device != "cpu":
        if torch := sys.modules.get("torch"):
            peak = torch.cuda.max_memory_allocated()
        else:
            peak = sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"]
        return {**times, "peak_mib": peak / 2**20}
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:")]
    return {**times, "peak_mib": peaks[0] if peaks else None}


def timed(work: Callable[[int], Any], repeat: int = 1) -> dict[str, float]:
    """Seconds per repetition: wall clock, and CPU time of all threads together."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(repeat)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_s": wall / repeat, "cpu_s": cpu / repeat}


def find_device(device: Literal["auto", Device]) -> dict[str, Any]:
    """The device that "auto" stands for, its kind, and its bf16 operations a second if known."""
    import jax

    from experiments.benchmark.steps.jax_steps import use_device
    from hardem_jax.training.metrics_log import peak_flops

    found = use_device(device)
    one = jax.devices()[0]
    return {"device": found, "kind": one.device_kind, "peak_flops_per_s": peak_flops([one])}


def libraries() -> dict[str, str]:
    """Versions of what the process has loaded."""
    names = ("torch", "transformers") if "torch" in sys.modules else ("jax", "jaxlib", "flax")
    return {name: importlib.metadata.version(name) for name in names}


def make(variant: str, setting: Setting, folder: Path) -> Any:
    """The step of a variant, see `experiments.benchmark.train_step`."""
    if variant.startswith("pytorch"):
        require_packages("parity", "torch", "transformers")
        from experiments.benchmark.steps import pytorch

        return pytorch.ReaderStep(setting, folder, mode=PYTORCH[variant])
    from experiments.benchmark.steps import jax_steps

    task = "spans" if variant == "ours" else variant
    return jax_steps.TrainingStep(dataclasses.replace(setting, task=task), folder)
