"""Kills of a training run in a bucket: ``python -m tests.robustness.buckets``.

A run on a tiny synthetic corpus reads its data from an emulated bucket and writes its folder there.
It is killed (SIGKILL, or SIGTERM) at a random moment, resumed on the same disk or, every other
time, on one that knows nothing of it, and evaluated from the bucket. Parameters, metrics and
predictions must be those of a run on the disk that nobody disturbed, bit by bit. A kill may come
before anything is in the bucket or while a checkpoint is being uploaded: the table says what it
left there::

    python -m tests.robustness.buckets --out kills --count 20
    python -m tests.robustness.buckets --out kills --count 20 --cloud gs
"""

import dataclasses
import json
import random
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from hardem_jax.buckets.copies import checkpoint_of, copy, whole
from hardem_jax.buckets.names import VARIABLE
from hardem_jax.buckets.store import Folder
from hardem_jax.cli.command import run_command
from tests.emulators import BUCKET, SECRET, emulated
from tests.robustness.processes import Ended, Runner
from tests.robustness.subjects import EVALUATE, PREPARE, TRAIN, file_contents, trained, write_corpus

#: Seconds between two signs of life, short for tests; three of them must pass before a takeover.
BEAT = 0.5
#: Seconds between two looks into the bucket, each of which keeps the emulator from its work.
POLL = 0.1
#: Maximum number of attempts if a kill comes too late.
ATTEMPTS = 20


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one kill.

    Attributes:
        after: seconds between the start and the kill.
        left: steps of the whole checkpoints in ``last``, in the bucket, at the kill.
        partial: objects of checkpoints that were not whole.
        elsewhere: resumed on a disk that knew nothing of the run.
        differs: what is not as in the undisturbed run; empty if nothing.
        said: messages of the resumed run.
    """

    after: float
    left: tuple[int, ...]
    partial: int
    elsewhere: bool
    differs: tuple[str, ...]
    said: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kills:
    """Kill a run in an emulated bucket, resume it and compare; exit code 1 if one differs.

    Attributes:
        out: folder for the corpus, the undisturbed run and the copies of the machines.
        cloud: whose emulator.
        count: number of kills, each of a run of its own.
        seed: of the moments.
        how: the signal; after SIGTERM the run saves and uploads before it ends.
    """

    out: Path
    cloud: Literal["gs", "s3"] = "s3"
    count: int = 20
    seed: int = 0
    how: Literal["SIGKILL", "SIGTERM"] = "SIGKILL"

    def run(self) -> None:
        with emulated(self.cloud) as environment:
            bench = Bench(self.out.absolute(), self.cloud, environment)
            rng = random.Random(self.seed)
            outcomes = []
            for number in range(self.count):
                outcome = bench.outcome(number, rng, signal.Signals[self.how])
                print(f"kill {number}: {', '.join(outcome.differs) or 'identical'}", flush=True)
                outcomes.append(outcome)
        table = Table("kill", "after, s", "checkpoints left", "objects in part", "disk", "result")
        for number, o in enumerate(outcomes):
            left, disk = ", ".join(map(str, o.left)) or "none", "new" if o.elsewhere else "same"
            verdict = ", ".join(o.differs) or "identical"
            table.add_row(str(number), f"{o.after:.2f}", left, str(o.partial), disk, verdict)
        Console(width=120).print(table)
        bad = sum(bool(outcome.differs) for outcome in outcomes)
        print(
            f"undisturbed {bench.seconds:.1f} s; {len(outcomes)} kills, {bad} bad, "
            f"{sum(not o.left for o in outcomes)} before the first checkpoint, "
            f"{sum(o.partial > 0 for o in outcomes)} with a checkpoint in part"
        )
        if bad:
            raise SystemExit(1)


class Bench:
    """A corpus, an undisturbed run on the disk, and the data in the bucket.

    Args:
        folder: absolute path; emptied.
        cloud: "gs" or "s3".
        environment: that leads to its emulator.
    """

    def __init__(self, folder: Path, cloud: str, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self._bucket = f"{cloud}://{BUCKET}"
        self._clean = folder / "clean"
        self._runner = Runner(folder / "compiled")
        shutil.rmtree(folder, ignore_errors=True)
        write_corpus(folder / "corpus")
        for command in (PREPARE, TRAIN, EVALUATE):
            argv = command.argv(self._clean)
            ended = self._runner.run(argv, self._clean / "output", keep=True)
            _check(ended)
        prepared = {name: self._clean / "prepared" / name for name in self._files("prepared")}
        Folder(f"{self._bucket}/data/prepared").upload(prepared)
        self._undisturbed = trained(self._clean / "run"), self._predictions(self._clean)
        run, began = Folder(f"{self._bucket}/undisturbed/run"), time.monotonic()
        process = self._train("undisturbed", "undisturbed")
        while process.alive and not _uploading(run):
            time.sleep(POLL)
        first = time.monotonic()
        _check(process.end())
        #: How long a run takes that nobody disturbs, and what of it after its first upload.
        self.seconds, self.uploading = time.monotonic() - began, time.monotonic() - first

    def outcome(self, number: int, rng: random.Random, how: signal.Signals) -> Outcome:
        """The outcome of a kill of a new run."""
        elsewhere = number % 2 == 1
        for attempt in range(ATTEMPTS):
            name = f"kill-{number}-{attempt}"
            run = Folder(f"{self._bucket}/{name}/run")
            began = time.monotonic()
            process = self._train(name, name)
            # Most kills come when there is something to damage, every fourth at any time.
            early = number % 4 == 0
            while process.alive and not (early or _uploading(run)):
                time.sleep(POLL)
            longest = self.seconds if early else self.uploading
            process.wait(rng.uniform(0, longest * 0.8**attempt))
            process.send(how)
            killed = -how if how == signal.SIGKILL else 128 + how
            if process.end().code != killed:  # it had ended
                continue
            after = time.monotonic() - began
            found = run.listing()
            kept = whole(found)
            steps = {o.split("/")[-1] for n in kept if (o := checkpoint_of(n)) and "last/" in o}
            partial = sum(n not in kept and checkpoint_of(n) is not None for n in found)
            ended = self._train(name, f"{name}-again" if elsewhere else name).end()
            differs = self._differences(name, ended)
            left = tuple(sorted(map(int, steps)))
            return Outcome(after, left, partial, elsewhere, differs, ended.lines)
        raise RuntimeError("no kill came in time")

    def _train(self, name: str, disk: str) -> Any:
        argv = self._argv(TRAIN.line, name)
        return self._runner.start(argv, self._folder / "output" / disk, **self._options(disk))

    def _differences(self, name: str, ended: Ended) -> tuple[str, ...]:
        """What differs from the undisturbed run, after an evaluation on a third disk."""
        if ended.code:
            return (f"exit code {ended.code}: {' '.join(ended.lines[-2:])}",)
        line = EVALUATE.line.replace("{folder}/predictions", "{disk}/predictions")
        disk = f"{name}-evaluated"
        output = self._folder / "output" / disk
        evaluated = self._runner.run(self._argv(line, name, output), output, **self._options(disk))
        if evaluated.code:
            return (f"evaluate: exit code {evaluated.code}: {' '.join(evaluated.lines[-2:])}",)
        results, predictions = self._undisturbed
        found = trained(copy(f"{self._bucket}/{name}/run"))
        differs = [key for key in results | found if found.get(key) != results.get(key)]
        differs += ["predictions"] * (self._predictions(output) != predictions)
        listing = Folder(f"{self._bucket}/{name}/run").listing()
        differs += ["no scores"] * (not any(key.startswith("scores-") for key in listing))
        differs += ["objects left over"] * (len(whole(listing)) != len(listing))
        printed = [*ended.lines, *evaluated.lines, *map(str, file_contents(output).values())]
        differs += ["a secret"] * any(SECRET in line for line in printed)
        return tuple(differs)

    def _argv(self, line: str, name: str, disk: Path | None = None) -> list[str]:
        line = line.replace("{folder}/prepared", f"{self._bucket}/data/prepared")
        places = {"folder": f"{self._bucket}/{name}", "corpus": self._folder / "corpus"}
        return [word.format(disk=disk, **places) for word in line.split()]

    def _options(self, disk: str) -> dict[str, Any]:
        copies = str(self._folder / "copies" / disk)
        return {"environment": {**self._environment, VARIABLE: copies}, "beat": BEAT}

    def _files(self, name: str) -> list[str]:
        return list(file_contents(self._clean / name))

    def _predictions(self, folder: Path) -> Any:
        return json.loads((folder / "predictions.json").read_text("utf-8"))


def _uploading(run: Folder) -> bool:
    """Whether an object of a checkpoint has been uploaded."""
    return any(map(checkpoint_of, run.listing()))


def _check(ended: Ended) -> None:
    if ended.code:
        raise RuntimeError(f"without a fault: {' '.join(ended.lines[-3:])}")


if __name__ == "__main__":
    run_command(Kills, prog="python -m tests.robustness.buckets")
