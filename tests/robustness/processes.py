"""Commands in processes of their own: what they print and how they end."""

import contextlib
import dataclasses
import fcntl
import importlib
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardem_jax.buckets import mirror
from hardem_jax.cli.command import run_command

#: Commands that run longer, in seconds, are killed.
TIMEOUT = 300.0
PIPE_SIZE = 2**20


@dataclasses.dataclass(frozen=True)
class Ended:
    """A finished process: its exit code (if negative, the signal that killed it), lines of stderr,
    and stdout."""

    code: int
    lines: tuple[str, ...]
    printed: bytes

    @property
    def traceback(self) -> bool:
        return len(self.lines) > 1 or any("Traceback" in line for line in self.lines)


class Runner:
    """Runs commands in processes that have already imported the package."""

    def __init__(self, cache: Path) -> None:
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "HF_HUB_OFFLINE": "1",
        }
        self._context = multiprocessing.get_context("forkserver")
        # Not the modules that index and build data: they start threads, whose locks would stay
        # held after a fork.
        self._context.set_forkserver_preload(["experiments.triviaqa", "hardem_jax.spans.task"])

    def start(self, argv: list[str], **options: Any) -> "Running":
        """Starts ``argv``, module first, with options of `_child`."""
        return Running(self._context, argv, options)

    def run(self, argv: list[str], **options: Any) -> Ended:
        return self.start(argv, **options).end()


class Running:
    """A process that runs a command. Pipes take what it prints, whatever files may hold."""

    def __init__(self, context: Any, argv: list[str], options: dict[str, Any]):
        ours, theirs = zip(*(context.Pipe(duplex=False) for _ in range(2)), strict=True)
        self._pipes = ours
        for pipe in theirs:
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self._process = context.Process(target=_child, args=(argv, theirs), kwargs=options)
        self._process.start()
        for pipe in theirs:
            pipe.close()

    @property
    def alive(self) -> bool:
        return self._process.exitcode is None

    def wait(self, seconds: float) -> None:
        """Waits for the end, but no longer than this."""
        self._process.join(seconds)

    def send(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self._process.pid, signum)

    def end(self) -> Ended:
        """Waits for the end; a process that times out is killed and counts as a traceback."""
        self.wait(TIMEOUT)
        hung = self.alive
        if hung:
            self._process.kill()
            self._process.join()
        printed, errors = (os.read(pipe.fileno(), PIPE_SIZE) for pipe in self._pipes)
        lines = errors.decode("utf-8", errors="replace").splitlines()
        if hung:
            lines += [f"Traceback: did not end within {TIMEOUT:.0f} s"]
        messages = (line for line in lines if line.strip() and ": reading " not in line)
        return Ended(self._process.exitcode, tuple(messages), printed)


def _child(
    argv: list[str],
    pipes: Any,
    *,
    limit: int | None = None,
    keep: bool = False,
    environment: Mapping[str, str] | None = None,
    beat: float | None = None,
) -> None:
    """Runs a command.

    Args:
        argv: module and arguments.
        pipes: for its output.
        limit: limit on file sizes, in bytes.
        keep: write compiled programs to the cache; a process that will be killed must not, since
            it could leave an incomplete entry.
        environment: variables to set.
        beat: seconds between two signs of life of a claim on a folder of a bucket.
    """
    os.environ |= environment or {}
    if beat is not None:
        mirror.BEAT = beat
    for stream, pipe in enumerate(pipes, start=1):
        os.dup2(pipe.fileno(), stream)
    # Python's old stream objects remember what kind of file they wrote to.
    sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False) for stream in (1, 2))
    # Processes that a shell starts in the background inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import jax  # imported here to keep --help fast

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if keep else 1e9)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    module = importlib.import_module(f"experiments.{argv[0]}")
    run_command(module.COMMANDS, prog=f"python -m experiments.{argv[0]}", argv=argv[1:])
