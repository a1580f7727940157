"""Worker processes, as the process that measures sees them."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments.benchmark.setting import Setting

_ROOT = Path(__file__).resolve().parents[2]


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
            [sys.executable, "-m", "experiments.benchmark.worker", *arguments],
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
