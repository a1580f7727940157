"""Fault injection for commands: ``python -m tests.robustness.faults``.

Faults are injected into real commands on a tiny synthetic corpus: a signal, a full disk or a second
process while a command runs, or damage to a file that it reads. The same command then runs again
undisturbed, and its results are compared byte by byte (parameters bit by bit) with those of a run
without the fault. A table shows the outcomes. Signals and second processes hit a working command:
they arrive at a random time after it has taken its lock or reported what it reads, and are tried
again if they arrive too late. While a second process runs, the first is paused::

    python -m tests.robustness.faults --out faults --count 200
    python -m tests.robustness.faults --out faults --count 200 --only train evaluate

A second call continues where the first one stopped. A full disk is simulated by a limit on file
sizes (``RLIMIT_FSIZE``), which needs no separate file system; writes fail with EFBIG instead of
ENOSPC. Each command runs in its own process, forked from one that has already imported the
package, so that it starts immediately.
"""

import contextlib
import dataclasses
import fcntl
import importlib
import itertools
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from hardem_jax.cli.command import run_command
from hardem_jax.data.files import write_json
from hardem_jax.errors import InputError

Name = Literal["train", "evaluate", "prepare", "index", "build"]
SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "flipped bit": lambda content, rng: _flipped(content, rng),
    "truncated": lambda content, rng: content[: rng.randrange(len(content))],
    "emptied": lambda content, rng: b"",
    "deleted": lambda content, rng: None,
    "lengthened": lambda content, rng: content + rng.randbytes(rng.randint(1, 64)),
}
FAULTS = (*SIGNALS, "full disk", "second process", *DAMAGES)
GOOD = ("identical", "refused in one line", "continued with a warning")
BAD = ("DIFFERENT", "SILENT", "TRACEBACK", "LEFTOVERS")
MISSED = "missed the command"
#: Commands that run longer, in seconds, are killed.
TIMEOUT = 300.0
#: Maximum number of attempts if a fault comes too late.
ATTEMPTS = 20
STREAMS = ("stdout", "stderr")
#: What `evaluate` prints if stderr is not a terminal.
PROGRESS = re.compile(r": reading \d+ \w+$")
PIPE_SIZE = 2**20

_WINDOWS = [*("--windows.max-tokens", "32", "--windows.stride", "8")]
_WINDOWS += ["--windows.max-question-tokens", "8"]


@dataclasses.dataclass(frozen=True)
class Ended:
    """A finished process: its exit code (if negative, the signal that killed it) and stderr."""

    code: int
    lines: tuple[str, ...]

    @property
    def traceback(self) -> bool:
        return len(self.lines) > 1 or any("Traceback" in line for line in self.lines)

    @property
    def warned(self) -> bool:
        return any(line.startswith("warning: ") for line in self.lines)


class Runner:
    """Runs commands in processes that have already imported the package."""

    def __init__(self, cache: Path) -> None:
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "HF_HUB_OFFLINE": "1",
        }
        self._pipes: dict[Path, int] = {}
        self._output: dict[Path, bytes] = {}
        self._context = multiprocessing.get_context("forkserver")
        # Not the modules that index and build data: they start threads, whose locks would stay
        # held after a fork.
        self._context.set_forkserver_preload(["experiments.triviaqa", "hardem_jax.tasks.spans"])

    def start(self, argv: list[str], folder: Path, **options: Any) -> Any:
        """Starts a process for ``argv``, module first, that writes its output to the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in STREAMS:
            # Pipes are not subject to the limit on file sizes.
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
            pipe = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
            self._pipes[folder / name] = pipe
            self._output[folder / name] = b""
        process = self._context.Process(target=_child, args=(argv, folder), kwargs=options)
        process.start()
        return process

    def end(self, process: Any, folder: Path) -> Ended:
        """Waits for a process; one that times out is killed and counts as a traceback."""
        process.join(TIMEOUT)
        hung = process.exitcode is None
        if hung:
            process.kill()
            process.join()
        for name in STREAMS:
            content = self.output(folder, name)
            os.close(self._pipes.pop(folder / name))
            (folder / name).unlink()
            (folder / name).write_bytes(content)
        lines = (folder / "stderr").read_text("utf-8", errors="replace").splitlines()
        if hung:
            lines += [f"Traceback: did not end within {TIMEOUT:.0f} s"]
        messages = (line for line in lines if line.strip() and not PROGRESS.search(line))
        return Ended(process.exitcode, tuple(messages))

    def output(self, folder: Path, name: str) -> bytes:
        """Returns what the process that writes to ``folder`` has written to a stream so far."""
        file = folder / name
        with contextlib.suppress(BlockingIOError):  # nothing new
            self._output[file] += os.read(self._pipes[file], PIPE_SIZE)
        return self._output[file]

    def run(self, argv: list[str], folder: Path, **options: Any) -> Ended:
        return self.end(self.start(argv, folder, **options), folder)


def _child(argv: list[str], folder: Path, *, limit: int | None = None, keep: bool = False) -> None:
    """Runs a command.

    Args:
        argv: module and arguments.
        folder: folder for its output.
        limit: limit on file sizes, in bytes.
        keep: write compiled programs to the cache; a process that will be killed must not, since
            it could leave an incomplete entry.
    """
    for stream, name in enumerate(STREAMS, start=1):
        with open(folder / name, "wb") as file:
            os.dup2(file.fileno(), stream)
    # Python's old stream objects remember what kind of file they wrote to.
    sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False) for stream in (1, 2))
    # Processes that a shell starts in the background inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import jax  # imported here to keep --help fast

    seconds = 0.0 if keep else 1e9
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    module = importlib.import_module(f"experiments.{argv[0]}")
    run_command(module.COMMANDS, prog=f"python -m experiments.{argv[0]}", argv=argv[1:])


@dataclasses.dataclass(frozen=True)
class Subject:
    """A command under test.

    Attributes:
        make: folder -> the command that writes its results there.
        lock: pattern of a file in the folder that exists while the command works; None for a
            command without a lock, which reports on stderr that it has started.
        needs: folders of the undisturbed state that the command reads or resumes from.
        results: what to compare after it.
        use: folder -> the command that reads the results, for damaged files.
        damaged: files that may be damaged, as patterns in the folder.
        used: what to compare after ``use``.
    """

    make: Callable[[Path], list[str]]
    lock: str | None
    needs: tuple[str, ...]
    results: Callable[[Path], Any]
    use: Callable[[Path], list[str]]
    damaged: tuple[str, ...]
    used: Callable[[Path], Any]


def _prepare(folder: Path) -> list[str]:
    corpus = _corpus(folder)
    return [
        *("triviaqa", "prepare", "--qa-file", f"{corpus}/triviaqa/qa/wikipedia-train.json"),
        *("--evidence", f"{corpus}/triviaqa/evidence", "--tokenizer", f"{corpus}/bert"),
        *("--out", f"{folder}/prepared", "--force", *_WINDOWS),
    ]


def _train(folder: Path) -> list[str]:
    data = f"{folder}/prepared"
    return [
        *("triviaqa", "train", "--data", data, "--dev", data, "--out", f"{folder}/run"),
        *("--model.encoder", f"{_corpus(folder)}/bert", "--num-devices", "1"),
        *("--batches.batch-size", "4", "--batches.buckets", "32", "--loop.no-progress"),
        *("--loop.num-steps", "30", "--loop.eval-every", "10", "--loop.checkpoint-every", "5"),
        *("--loop.log-every", "5", "--optimizer.learning-rate", "1e-3"),
        *("objective:hard-em", "--objective.tau", "20"),
    ]


def _evaluate(folder: Path) -> list[str]:
    return [
        *("triviaqa", "evaluate", "--run-dir", f"{folder}/run", "--data", f"{folder}/prepared"),
        *("--num-devices", "1", "--predictions", f"{folder}/predictions.json"),
    ]


def _index(folder: Path) -> list[str]:
    return [
        *("retrieve", "index", "--passages", f"{_corpus(folder)}/passages.tsv"),
        *("--out", f"{folder}/index", "--force", "--articles.buckets", "4096"),
    ]


def _retrieve(folder: Path) -> list[str]:
    return [
        *("retrieve", "retrieve", "--index", f"{folder}/index", "--retriever.passages", "5"),
        *("--questions", f"{_corpus(folder)}/NQ-open.dev.jsonl", "--out", f"{folder}/dev.jsonl"),
    ]


def _build(folder: Path) -> list[str]:
    return [
        *("build", "build", "--out", f"{folder}/built", "--folder", f"{_corpus(folder)}/triviaqa"),
        *("--shard-size", "8", "data-set:triviaqa"),
    ]


def _show(folder: Path) -> list[str]:
    return ["build", "show", "--folder", f"{folder}/built", "--split", "train", "--count", "24"]


def _corpus(folder: Path) -> Path:
    return folder.parent / "corpus"


def file_contents(*names: str) -> Callable[[Path], dict[str, bytes]]:
    """Returns a function that reads these files, and all files in these folders, by path."""

    def read(folder: Path) -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        for name in names:
            path = folder / name
            files = [path] if path.is_file() else sorted(path.rglob("*"))
            contents |= {str(f.relative_to(folder)): f.read_bytes() for f in files if f.is_file()}
        return contents

    return read


def trained(folder: Path) -> dict[str, Any]:
    """Returns the parameters of a run and its metrics without timings."""
    import jax

    from hardem_jax.tasks.base import Trained
    from hardem_jax.tasks.spans import SpanTask

    run = folder / "run"
    leaves: dict[str, Any] = {}
    for name in ("last", "best"):
        params = Trained(SpanTask, run, name, batch_size=4).params
        leaves |= {
            f"{name} {i}": np.asarray(x).tobytes() for i, x in enumerate(jax.tree.leaves(params))
        }
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    timed = ("steps_per_second", "input_wait")
    metrics = [
        {k: v for k, v in line.items() if k not in timed}
        for line in lines
        if line["kind"] != "start"
    ]
    return {**leaves, "metrics": metrics}


PREDICTIONS = file_contents("predictions.json")
SUBJECTS: Mapping[str, Subject] = {
    "train": Subject(
        *(_train, "run/lock.json", ("prepared",), trained, _train),
        *(("run/last/*/**/*", "prepared/**/*"), trained),
    ),
    "evaluate": Subject(
        *(_evaluate, None, ("prepared", "run"), PREDICTIONS, _evaluate),
        *(("run/best/**/*", "run/config.json", "run/tokenizer.json"), PREDICTIONS),
    ),
    "prepare": Subject(
        *(_prepare, "prepared.partial/lock.json", (), file_contents("prepared"), _evaluate),
        *(("prepared/**/*",), PREDICTIONS),
    ),
    "index": Subject(
        *(_index, "index.partial/lock.json", (), file_contents("index"), _retrieve),
        *(("index/**/*",), file_contents("dev.jsonl")),
    ),
    "build": Subject(
        *(_build, "built/*/*/lock.json", (), file_contents("built"), _show),
        *(("built/**/*",), file_contents("output/stdout")),
    ),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One fault: the command, the kind of fault, and the number that seeds its details."""

    command: str
    fault: str
    number: int


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a fault: one of `GOOD`, `BAD` or `MISSED`, the largest number of lines on
    stderr, and the messages."""

    verdict: str
    lines: int
    said: str


def cases(count: int, only: Collection[str]) -> list[Case]:
    """Returns the first `count` faults, cycling over kinds of faults and the commands in `only`.

    Example:
        >>> cases(1, ("train",)), len(cases(200, tuple(SUBJECTS)))
        ([Case(command='train', fault='SIGKILL', number=0)], 200)
    """
    pairs = ((f, c, n) for n in itertools.count() for f in FAULTS for c in SUBJECTS if c in only)
    return [Case(command, fault, n) for fault, command, n in itertools.islice(pairs, count)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Faults:
    """Inject faults into commands and tabulate the outcomes; exit code 1 if one is bad.

    Attributes:
        out: folder for the corpus, undisturbed results and the record of all faults.
        count: number of faults, cycling over commands and kinds of faults.
        seed: seed of the details: when a signal arrives, which byte of which file is damaged.
        only: commands to test.
        faults: kinds of faults to inject; all by default.
    """

    out: Path
    count: int = 200
    seed: int = 0
    only: tuple[Name, ...] = ("train", "evaluate", "prepare", "index", "build")
    faults: tuple[str, ...] = FAULTS

    def run(self) -> None:
        if unknown := set(self.faults) - set(FAULTS):
            raise InputError(f"--faults: expected some of {', '.join(FAULTS)}, found {unknown}")
        bench = Bench(self.out.absolute(), self.seed)
        outcomes: dict[Case, Outcome] = {}
        for case in cases(self.count, self.only):
            if case.fault in self.faults:
                outcomes[case] = bench.outcome(case)
                print(f"{case.command}, {case.fault} {case.number}: {outcomes[case].verdict}")
        Console(width=200).print(table(outcomes))
        bad = {case: o for case, o in outcomes.items() if o.verdict in BAD}
        for case, outcome in bad.items():
            name = f"{case.command}, {case.fault} {case.number}"
            print(f"{outcome.verdict}: {name}: {outcome.said}")
        longest = max((outcome.lines for outcome in outcomes.values()), default=0)
        missed = sum(outcome.verdict == MISSED for outcome in outcomes.values())
        done = len(outcomes) - missed
        print(f"{done} faults, {len(bad)} bad; longest message: {longest} lines; {missed} missed")
        if bad:
            raise SystemExit(1)


def table(outcomes: Mapping[Case, Outcome]) -> Table:
    """Tabulates the outcomes, with commands as columns and faults as rows."""
    result = Table(title="Outcomes of faults")
    result.add_column("fault")
    columns = list(dict.fromkeys(case.command for case in outcomes))
    for name in columns:
        result.add_column(name)
    for fault in dict.fromkeys(case.fault for case in outcomes):
        row = [fault]
        for name in columns:
            ended = [o for c, o in outcomes.items() if (c.command, c.fault) == (name, fault)]
            counts = Counter(outcome.verdict for outcome in ended)
            row.append("\n".join(f"{n} {verdict}" for verdict, n in counts.items()))
        result.add_row(*row)
    return result


class Bench:
    """A folder with a corpus, undisturbed results, and a record of the faults injected so far.

    Args:
        folder: absolute path; created on first use.
        seed: see `Faults`.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._seed, self._folder = seed, folder
        self._record = folder / f"faults-{seed}.jsonl"
        self._clean, self._work = folder / "clean", folder / "work"
        self._runner = Runner(folder / "compiled")
        if not (folder / "seconds.json").is_file():
            self._make_undisturbed()
        self._seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text("utf-8"))
        self._expected: dict[tuple[str, bool], Any] = {}

    def _make_undisturbed(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        from tests.robustness.corpus import write_corpus

        write_corpus(self._folder / "corpus")
        seconds = {}
        for name in ("prepare", "train", "evaluate", "index", "build"):
            subject = SUBJECTS[name]
            # Run twice, to measure the time with a warm compilation cache.
            for folder in (self._folder / "first", self._clean):
                output = folder / "output"
                process = self._runner.start(subject.make(folder), output, keep=True)
                self._wait_for_work(subject, process, folder, output)
                began = time.monotonic()
                ended = self._runner.end(process, output)
                seconds[name] = time.monotonic() - began
                if ended.code:
                    raise RuntimeError(f"{name} without a fault: {' '.join(ended.lines[-3:])}")
        for name in ("index", "build"):
            self._runner.run(SUBJECTS[name].use(self._clean), self._clean / "output", keep=True)
        write_json(self._folder / "seconds.json", seconds)

    def outcome(self, case: Case) -> Outcome:
        """Returns the outcome of a fault, from the record if it was injected before."""
        key = dataclasses.asdict(case)
        if self._record.is_file():
            for line in map(json.loads, self._record.read_text("utf-8").splitlines()):
                if line["case"] == key:
                    return Outcome(**line["outcome"])
        rng = random.Random(f"{self._seed} {case}")
        outcome = Outcome(MISSED, 0, "")
        for attempt in range(ATTEMPTS):
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
            # How long the command runs depends on the load of the machine.
            longest = self._seconds[case.command] * 0.8**attempt
            if case.fault in DAMAGES:
                outcome = self._damage(case, rng)
            else:
                outcome = self._disturb(case, rng, longest)
            if outcome.verdict != MISSED:
                break
        if outcome.verdict == MISSED:  # not recorded, so another call may try again
            return outcome
        with self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"case": key, "outcome": dataclasses.asdict(outcome)}) + "\n")
        return outcome

    def _take(self, *names: str) -> None:
        for name in names:
            shutil.copytree(self._clean / name, self._work / name)

    def _damage(self, case: Case, rng: random.Random) -> Outcome:
        """Damages one file of the undisturbed results and runs the command that reads it."""
        subject = SUBJECTS[case.command]
        self._take(
            *(n for n in ("prepared", "run", "index", "built") if (self._clean / n).exists())
        )
        matches = {f for p in subject.damaged for f in self._work.glob(p) if f.is_file()}
        files = sorted(f for f in matches if f.stat().st_size)
        file = rng.choice(files)
        content = DAMAGES[case.fault](file.read_bytes(), rng)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        ended = self._runner.run(subject.use(self._work), self._work / "output")
        messages = f"{file.relative_to(self._work)}: {' '.join(ended.lines[-2:])}"
        lines = len(ended.lines)
        if ended.code:
            named = any(file.name in line for line in ended.lines)
            refused = ended.code == 2 and not ended.traceback and named
            return Outcome("refused in one line" if refused else "TRACEBACK", lines, messages)
        same = subject.used(self._work) == self._result(case.command, used=True)
        if same and not ended.warned:
            return Outcome("identical", lines, messages)
        return Outcome("continued with a warning" if same else "SILENT", lines, messages)

    def _disturb(self, case: Case, rng: random.Random, longest: float) -> Outcome:
        """Disturbs the command within ``longest`` seconds of work, then runs it again."""
        subject, output = SUBJECTS[case.command], self._work / "output"
        self._take(*subject.needs)
        argv, limit = subject.make(self._work), None
        if case.fault == "full disk":
            # The disk is full somewhere within the largest file.
            sizes = [
                len(content)
                for content in file_contents(*_WRITTEN[case.command])(self._clean).values()
            ]
            limit = rng.randrange(max(sizes))
        process = self._runner.start(argv, output, limit=limit)
        hit, ends = True, []
        if case.fault != "full disk":
            self._wait_for_work(subject, process, self._work, output)
            process.join(rng.uniform(0, longest))
        if case.fault in SIGNALS:
            _send(process, signal.Signals[case.fault])
        elif case.fault == "second process":
            _send(process, signal.SIGSTOP)
            hit = process.exitcode is None and self._at_work(subject, self._work, output)
            if hit:
                ends.append(self._runner.run(argv, self._work / "second"))
            _send(process, signal.SIGCONT)
        ends.append(self._runner.end(process, output))
        if case.fault in SIGNALS:
            number = signal.Signals[case.fault].value
            hit = ends[-1].code == (-number if case.fault == "SIGKILL" else 128 + number)
        if not hit:
            return Outcome(MISSED, 0, "")
        most, messages = (
            max(len(e.lines) for e in ends),
            "; ".join(" ".join(e.lines[-2:]) for e in ends),
        )
        if any(end.traceback or end.code in (1, 2) and not end.lines for end in ends):
            return Outcome("TRACEBACK", most, messages)
        refused = all(end.code in (1, 2) for end in ends)
        leftovers = [] if case.fault == "SIGKILL" else list(self._work.rglob("*.partial"))
        if leftovers:
            return Outcome("LEFTOVERS", most, f"{leftovers[0].name}: {messages}")
        if case.fault != "second process" or refused:
            again = self._runner.run(argv, self._work / "again")
            most = max(most, len(again.lines))
            messages = f"{messages}; {' '.join(again.lines[-2:])}"
            if again.code or again.traceback:
                return Outcome("TRACEBACK", most, messages)
        same = subject.results(self._work) == self._result(case.command, used=False)
        if not same:
            return Outcome("DIFFERENT", most, messages)
        return Outcome(
            "refused in one line" if any(e.lines for e in ends) else "identical", most, messages
        )

    def _at_work(self, subject: Subject, folder: Path, output: Path) -> bool:
        """Returns whether a command has started working (and holds its lock, if it has one)."""
        if subject.lock is not None:
            return any(folder.glob(subject.lock))
        text = self._runner.output(output, "stderr").decode("utf-8", errors="replace")
        return any(PROGRESS.search(line) for line in text.splitlines())

    def _wait_for_work(self, subject: Subject, process: Any, folder: Path, output: Path) -> None:
        deadline = time.monotonic() + TIMEOUT
        while process.exitcode is None and not self._at_work(subject, folder, output):
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)

    def _result(self, name: str, *, used: bool) -> Any:
        if (name, used) not in self._expected:
            subject = SUBJECTS[name]
            read = subject.used if used else subject.results
            self._expected[name, used] = read(self._clean)
        return self._expected[name, used]


#: What each command writes, relative to its folder.
_WRITTEN: Mapping[str, tuple[str, ...]] = {
    "train": ("run",),
    "evaluate": ("predictions.json",),
    "prepare": ("prepared",),
    "index": ("index",),
    "build": ("built",),
}


def _send(process: Any, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(process.pid, signum)


def _flipped(content: bytes, rng: random.Random) -> bytes:
    index = rng.randrange(len(content))
    return content[:index] + bytes([content[index] ^ 1 << rng.randrange(8)]) + content[index + 1 :]


if __name__ == "__main__":
    run_command(Faults, prog="python -m tests.robustness.faults")
