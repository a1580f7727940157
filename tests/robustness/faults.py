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

import dataclasses
import functools
import itertools
import json
import random
import shutil
import signal
import time
import typing
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from hardem_jax.cli.command import run_command
from hardem_jax.data.files import write_json
from tests.robustness.processes import TIMEOUT, Ended, Runner, Running
from tests.robustness.subjects import (
    RETRIEVE,
    SHOW,
    SUBJECTS,
    Subject,
    file_contents,
    write_corpus,
)

Name = Literal["train", "evaluate", "prepare", "index", "build"]
Signal = Literal["SIGKILL", "SIGTERM", "SIGINT", "SIGUSR1"]
Damage = Literal["flipped bit", "truncated", "emptied", "deleted", "lengthened"]
Fault = Literal[Signal, "full disk", "second process", Damage]
SIGNALS, FAULTS = typing.get_args(Signal), typing.get_args(Fault)
GOOD = ("identical", "refused in one line", "continued with a warning")
BAD = ("DIFFERENT", "SILENT", "TRACEBACK", "LEFTOVERS")
MISSED = "missed the command"
#: Maximum number of attempts if a fault comes too late.
ATTEMPTS = 20


def _flipped(content: bytes, rng: random.Random) -> bytes:
    index = rng.randrange(len(content))
    return content[:index] + bytes([content[index] ^ 1 << rng.randrange(8)]) + content[index + 1 :]


#: How a file changes; None for a file that is deleted.
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "flipped bit": _flipped,
    "truncated": lambda content, rng: content[: rng.randrange(len(content))],
    "emptied": lambda content, rng: b"",
    "deleted": lambda content, rng: None,
    "lengthened": lambda content, rng: content + rng.randbytes(rng.randint(1, 64)),
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
    only: tuple[Name, ...] = typing.get_args(Name)
    faults: tuple[Fault, ...] = FAULTS

    def run(self) -> None:
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
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for case, outcome in outcomes.items():
        counts[case.fault, case.command][outcome.verdict] += 1
    commands = dict.fromkeys(case.command for case in outcomes)
    result = Table("fault", *commands, title="Outcomes of faults")
    for fault in dict.fromkeys(case.fault for case in outcomes):
        cells = (counts[fault, command].items() for command in commands)
        result.add_row(fault, *("\n".join(f"{n} {verdict}" for verdict, n in c) for c in cells))
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
        # Results without a fault, by command; computed once.
        self._undisturbed = functools.cache(lambda command: command.results(self._clean))

    def _make_undisturbed(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        write_corpus(self._folder / "corpus")
        seconds = {}
        for name in ("prepare", "train", "evaluate", "index", "build"):
            subject = SUBJECTS[name]
            # Run twice, to measure the time with a warm compilation cache.
            for folder in (self._folder / "first", self._clean):
                process = self._runner.start(
                    subject.make.argv(folder), folder / "output", keep=True
                )
                _wait_for_work(subject, process, folder)
                began = time.monotonic()
                ended = process.end()
                seconds[name] = time.monotonic() - began
                if ended.code:
                    raise RuntimeError(f"{name} without a fault: {' '.join(ended.lines[-3:])}")
        for command in (RETRIEVE, SHOW):
            self._runner.run(command.argv(self._clean), self._clean / "output", keep=True)
        write_json(self._folder / "seconds.json", seconds)

    def outcome(self, case: Case) -> Outcome:
        """Returns the outcome of a fault, from the record if it was injected before."""
        key = dataclasses.asdict(case)
        if self._record.is_file():
            for line in map(json.loads, self._record.read_text("utf-8").splitlines()):
                if line["case"] == key:
                    return Outcome(**line["outcome"])
        rng = random.Random(f"{self._seed} {case}")
        for attempt in range(ATTEMPTS):
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(parents=True)
            if case.fault in DAMAGES:
                outcome = self._damage(case, rng)
            else:
                # How long the command runs depends on the load of the machine.
                longest = self._seconds[case.command] * 0.8**attempt
                outcome = self._disturb(case, rng, longest)
            if outcome is not None:
                with self._record.open("a", encoding="utf-8") as file:
                    row = {"case": key, "outcome": dataclasses.asdict(outcome)}
                    file.write(json.dumps(row) + "\n")
                return outcome
        return Outcome(MISSED, 0, "")  # not recorded, so another call may try again

    def _take(self, *names: str) -> None:
        for name in names:
            shutil.copytree(self._clean / name, self._work / name)

    def _damage(self, case: Case, rng: random.Random) -> Outcome:
        """Damages one file of the undisturbed results and runs the command that reads it."""
        subject = SUBJECTS[case.command]
        self._take("prepared", "run", "index", "built")
        matches = {f for p in subject.damaged for f in self._work.glob(p) if f.is_file()}
        file = rng.choice(sorted(f for f in matches if f.stat().st_size))
        content = DAMAGES[case.fault](file.read_bytes(), rng)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        ended = self._runner.run(subject.use.argv(self._work), self._work / "output")
        if ended.code:
            named = any(file.name in line for line in ended.lines)
            refused = ended.code == 2 and not ended.traceback and named
            verdict = "refused in one line" if refused else "TRACEBACK"
        elif subject.use.results(self._work) != self._undisturbed(subject.use):
            verdict = "SILENT"
        else:
            verdict = "continued with a warning" if ended.warned else "identical"
        said = f"{file.relative_to(self._work)}: {' '.join(ended.lines[-2:])}"
        return Outcome(verdict, len(ended.lines), said)

    def _disturb(self, case: Case, rng: random.Random, longest: float) -> Outcome | None:
        """Disturbs the command within ``longest`` seconds of work, then runs it again.

        Returns None if the fault missed the command.
        """
        subject = SUBJECTS[case.command]
        self._take(*subject.needs)
        argv = subject.make.argv(self._work)
        ends = self._hit(case, argv, rng, longest)
        if not ends:
            return None
        crashed = any(end.traceback or end.code in (1, 2) and not end.lines for end in ends)
        partial = [] if case.fault == "SIGKILL" else [*self._work.rglob("*.partial")][:1]
        silent = not any(end.lines for end in ends)
        complete = case.fault == "second process" and any(end.code not in (1, 2) for end in ends)
        if not (crashed or partial or complete):
            again = self._runner.run(argv, self._work / "again")
            crashed = bool(again.code) or again.traceback
            ends.append(again)
        if crashed:
            verdict = "TRACEBACK"
        elif partial:
            verdict = "LEFTOVERS"
        elif subject.make.results(self._work) != self._undisturbed(subject.make):
            verdict = "DIFFERENT"
        else:
            verdict = "identical" if silent else "refused in one line"
        said = [path.name for path in partial] + [" ".join(end.lines[-2:]) for end in ends]
        return Outcome(verdict, max(len(end.lines) for end in ends), "; ".join(said))

    def _hit(self, case: Case, argv: list[str], rng: random.Random, longest: float) -> list[Ended]:
        """Returns how the processes of a disturbed command ended; none if it was missed."""
        subject, output = SUBJECTS[case.command], self._work / "output"
        if case.fault == "full disk":
            # The disk is full somewhere within the largest file.
            sizes = map(len, file_contents(self._clean / subject.make.result).values())
            return [self._runner.run(argv, output, limit=rng.randrange(max(sizes)))]
        process = self._runner.start(argv, output)
        _wait_for_work(subject, process, self._work)
        process.wait(rng.uniform(0, longest))
        if case.fault in SIGNALS:
            number = signal.Signals[case.fault]
            process.send(number)
            ended = process.end()
            hit = ended.code == (-number if case.fault == "SIGKILL" else 128 + number)
            return [ended] if hit else []
        process.send(signal.SIGSTOP)
        ends = []
        if process.alive and _at_work(subject, process, self._work):
            ends.append(self._runner.run(argv, self._work / "second"))
        process.send(signal.SIGCONT)
        first = process.end()
        return [*ends, first] if ends else []


def _at_work(subject: Subject, process: Running, folder: Path) -> bool:
    """Returns whether a command has started working (and holds its lock, if it has one)."""
    if subject.lock is None:
        return process.reported_progress
    return any(folder.glob(subject.lock))


def _wait_for_work(subject: Subject, process: Running, folder: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while process.alive and not _at_work(subject, process, folder):
        if time.monotonic() > deadline:
            return
        time.sleep(0.002)


if __name__ == "__main__":
    run_command(Faults, prog="python -m tests.robustness.faults")
