"""A process of the benchmark: ``python -m experiments.benchmark.steps.worker FOLDER [THREADS]``.

Reads one JSON request per line, answers each with one line. Every library gets a process of its
own, so that neither its threads nor its memory nor its death touch the others; the process that
sends the requests has a `Worker` for each, and decides whose turn it is.

A request holds ``do`` and
    check      variant, setting: losses and gradient norms of the first steps;
    build      name, variant, setting: makes a step and runs it, returns the time of the first;
    run        name, steps: seconds of wall clock and of CPU per step;
    describe   versions and threads.
The answer to what went wrong is ``error``, one line, and ``traceback``.
"""

import contextlib
import dataclasses
import gc
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from experiments.benchmark.steps.setting import Setting

CHECKED_STEPS = 2
_ROOT = Path(__file__).resolve().parents[3]
_CLEAR_PEAK = "5"  # Linux, proc(5): resets the peak resident set size


class Step(Protocol):
    """What is measured: a number of steps, finished on return; loss and gradient norm."""

    def run(self, steps: int) -> list[tuple[float, float]]: ...


class Bench:
    """The steps that this process holds.

    Args:
        folder: weights, from `ours.write_weights`.
        threads: CPUs to use; None leaves it to the libraries.
    """

    def __init__(self, folder: Path, threads: int | None):
        self._folder, self._threads = folder, threads
        self._steps: dict[str, Step] = {}
        self._device = "cpu"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        do = {"check": self._check, "build": self._build, "run": self._run}
        do["describe"] = self._describe
        return do[request.pop("do")](**request)

    def _check(self, variant: str, setting: dict[str, Any]) -> dict[str, Any]:
        step = self._make(variant, setting)
        metrics = step.run(CHECKED_STEPS)
        del step
        gc.collect()  # models hold reference cycles; their memory is not to be measured later
        return {"loss": [loss for loss, _ in metrics], "grad_norm": [norm for _, norm in metrics]}

    def _build(self, name: str, variant: str, setting: dict[str, Any]) -> dict[str, Any]:
        step = self._steps[name] = self._make(variant, setting)
        began = time.perf_counter()
        step.run(1)
        first_step = time.perf_counter() - began
        step.run(1)  # buffers of the second step come from what the first one gave back
        self._reset_peak()
        return {"first_step_s": first_step}

    def _run(self, name: str, steps: int) -> dict[str, Any]:
        step = self._steps[name]
        wall, cpu = time.perf_counter(), time.process_time()
        step.run(steps)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"wall_s": wall / steps, "cpu_s": cpu / steps, "peak_mib": self._peak_mib()}

    def _make(self, variant: str, setting: dict[str, Any]) -> Step:
        what = Setting.from_fields(setting)
        self._device = what.device
        if variant.startswith("pytorch"):
            import torch  # pyright: ignore[reportMissingImports]

            from experiments.benchmark.steps import pytorch

            if self._threads is not None:
                torch.set_num_threads(self._threads)
            kinds = variant.split("-")[1:]
            return pytorch.ReaderStep(
                what,
                self._folder,
                compiled="compile" in kinds,
                candidate_losses="released" in kinds,
                unpadded="unpadded" in kinds,
            )
        import jax

        from experiments.benchmark.steps import ours

        jax.devices(what.device)  # says clearly what is missing; without it JAX takes another
        if variant == "ours":
            return ours.TaskStep(what, self._folder)
        if variant == "matrix product":
            return ours.MatrixProduct(what)
        if variant in ours.STEPS:
            return ours.TaskStep(dataclasses.replace(what, task=variant), self._folder)
        return ours.LossStep(what, variant.removeprefix("loss "))

    def _describe(self) -> dict[str, Any]:
        if torch := sys.modules.get("torch"):
            about = {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
            about["torch threads"] = torch.get_num_threads()
            if self._device == "gpu":
                about["torch device"] = torch.cuda.get_device_name()
            return about
        about = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax")}
        return about | {"jax device": sys.modules["jax"].devices()[0].device_kind}

    def _reset_peak(self) -> None:
        if self._device == "gpu":
            if torch := sys.modules.get("torch"):
                torch.cuda.reset_peak_memory_stats()
        elif Path("/proc/self/clear_refs").exists():
            Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK)

    def _peak_mib(self) -> float | None:
        """Peak memory: of the device on a GPU, resident on a CPU (None where it is not known)."""
        if self._device == "gpu":
            if torch := sys.modules.get("torch"):
                return torch.cuda.max_memory_allocated() / 2**20
            return sys.modules["jax"].devices()[0].memory_stats()["peak_bytes_in_use"] / 2**20
        status = Path("/proc/self/status")
        if not status.exists():
            return None
        [line] = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
        return int(line.split()[1]) / 2**10


class WorkerError(RuntimeError):
    """What a worker could not do, in one line; `traceback` has the rest."""

    def __init__(self, message: str, traceback: str = ""):
        super().__init__(message)
        self.traceback = traceback


class Worker:
    """A process that holds training steps and runs them when told; see `worker`.

    Args:
        folder: weights, and place for caches.
        device: "cpu" or "gpu".
        threads: CPUs to use; None leaves it to the libraries.
    """

    def __init__(self, folder: Path, *, device: str, threads: int | None):
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
            "JAX_PLATFORMS": "cuda,cpu" if device == "gpu" else "cpu",
            # Several processes share the device, and its peak memory is to be read off.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            # A compilation found in a cache of an earlier run would look instant.
            "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(prefix="inductor-", dir=folder),
            "HF_HUB_OFFLINE": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "TRANSFORMERS_VERBOSITY": "error",
        }
        arguments = [str(folder)] if threads is None else [str(folder), str(threads)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.benchmark.steps.worker", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            WorkerError: the worker could not do it, or has died.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # a dead worker: its answer is missing, too
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"the process ended with code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"], answer["traceback"])
        return answer

    def check(self, variant: str, setting: Setting) -> dict[str, list[float]]:
        """Losses and gradient norms of the first steps without dropout."""
        setting = dataclasses.replace(setting, dropout=0.0)
        return self.ask("check", variant=variant, setting=dataclasses.asdict(setting))

    def build(self, name: str, variant: str, setting: Setting) -> float:
        """Make a step and run it; returns the seconds to the end of the first one."""
        setting_fields = dataclasses.asdict(setting)
        return self.ask("build", name=name, variant=variant, setting=setting_fields)["first_step_s"]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextlib.contextmanager
def worker_pool(
    folder: Path, *, device: str, threads: int | None
) -> Iterator[Callable[[], Worker]]:
    """A function that starts workers, which end with the context."""
    workers: list[Worker] = []

    def new_worker() -> Worker:
        workers.append(Worker(folder, device=device, threads=threads))
        return workers[-1]

    try:
        yield new_worker
    finally:
        for worker in workers:
            worker.close()


def main() -> None:
    folder = Path(sys.argv[1])
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else None
    if threads is not None:
        # Before JAX or PyTorch counts the CPUs and starts its threads.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    bench = Bench(folder, threads)
    for line in sys.stdin:
        try:
            answer = bench.answer(json.loads(line))
        except Exception as error:
            # Any type: the compilers of both libraries have many, and the answer reports it.
            said = str(error).strip().splitlines() or [""]
            answer = {
                "error": f"{type(error).__name__}: {said[0]}".removesuffix(": "),
                "traceback": traceback.format_exc(),
            }
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
