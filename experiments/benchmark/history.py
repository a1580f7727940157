"""The training step at several commits: ``python -m experiments.benchmark.history --help``.

Each commit is unpacked into a folder of its own and measured by its own `experiments.benchmark`,
our step only, with the packages that are installed now, so that only this project's code differs.
The commits take turns for several rounds, so that other load on the machine hits all alike.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.progress import track
from rich.table import Table

from experiments.benchmark.measure import (
    machine,
    machine_line,
    median_ratio,
    quartiles,
    wide_console,
    with_quartiles,
)
from experiments.benchmark.steps.setting import MIN_TOKENS
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.files import write_json
from hardem_jax.errors import InputError, require


@dataclasses.dataclass(frozen=True)
class History:
    """Measure the training step of several commits, in turns.

    Attributes:
        commits: any names that git knows; speed is relative to the first.
        repository: a checkout of this project with its history.
        preset: size of the encoder; "tiny" only to see that everything runs.
        rows: of the batch.
        tokens: T.
        steps: training steps in a turn.
        rounds: turns of every commit.
        device: "cpu" or "gpu".
        out: write the measurements here, as JSON.
    """

    commits: tuple[str, ...]
    repository: Path = Path()
    preset: Literal["tiny", "minilm", "bert-base", "bert-large"] = "minilm"
    rows: int = 16
    tokens: int = 128
    steps: int = 5
    rounds: int = 3
    device: Literal["cpu", "gpu"] = "cpu"
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "steps", "rounds", at_least=1)
        require(self, "rows", at_least=2)
        require(self, "tokens", at_least=MIN_TOKENS)

    def run(self) -> None:
        titles = {commit: self._title(commit) for commit in self.commits}
        if len(titles) < len(self.commits):
            raise InputError(f"--commits: expected distinct commits, found {self.commits}")
        about = machine()
        turns: dict[str, list[dict[str, Any]]] = {commit: [] for commit in titles}
        with contextlib.ExitStack() as stack:
            folders = {
                commit: Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="commit-")))
                for commit in titles
            }
            for commit, folder in folders.items():
                self._unpack(commit, folder)
            names = list(titles)
            for turn in track(range(self.rounds), "measuring", transient=True):
                first = turn % len(names)
                for commit in names[first:] + names[:first]:
                    turns[commit].append(self._measure(commit, folders[commit]))
        about["load_average_after"] = machine()["load_average"]
        results = summarize(titles, turns)
        if self.out is not None:
            write_json(self.out, {"flags": flags(self), "machine": about, "results": results})
        console = wide_console()
        console.print(table(results))
        console.print(machine_line(about), highlight=False, markup=False)

    def _title(self, commit: str) -> str:
        """Date and subject."""
        shown = self._git("show", "--no-patch", "--format=%cs %s", f"{commit}^{{commit}}")
        return shown.decode().strip()

    def _unpack(self, commit: str, folder: Path) -> None:
        archive = self._git("archive", "--format=tar", commit)
        subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "-C", str(self.repository), *arguments]
        ran = subprocess.run(command, capture_output=True, check=False)
        if ran.returncode:
            said = ran.stderr.decode().strip().splitlines()
            raise InputError(f"git {' '.join(arguments)}: {said[-1] if said else 'failed'}")
        return ran.stdout

    def _measure(self, commit: str, folder: Path) -> dict[str, Any]:
        """What the commit's own benchmark says of its step."""
        out = folder / "measured.json"
        sizes = {"preset": self.preset, "rows": self.rows, "tokens": self.tokens}
        options = {**sizes, "steps": self.steps, "device": self.device, "variants": "ours"}
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "experiments.benchmark", *arguments]
        command += ["--rounds", "1", "--out", str(out)]
        # No other copy of the project may be found before the commit's own.
        environment = os.environ | {"PYTHONPATH": str(folder)}
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            said = ran.stderr.strip().splitlines()
            raise InputError(f"{commit}: its benchmark failed: {said[-1] if said else '?'}")
        return json.loads(out.read_text())["results"][0]["variants"]["ours"]


def summarize(
    titles: Mapping[str, str], turns: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """The figures of each commit.

    Args:
        titles: commit -> date and subject; speed is relative to the first.
        turns: commit -> what its benchmark measured, round by round.
    """
    seconds = {
        commit: [turn["wall_s"]["median"] for turn in measured]
        for commit, measured in turns.items()
    }
    base = seconds[next(iter(titles))]
    return [
        {
            "commit": commit,
            "title": title,
            "wall_s": quartiles(seconds[commit]),
            "speed": median_ratio(base, seconds[commit]),
            "first_step_s": statistics.median(turn["first_step_s"] for turn in turns[commit]),
            "peak_mib": max((turn["peak_mib"] or 0) for turn in turns[commit]) or None,
        }
        for commit, title in titles.items()
    ]


def table(results: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each commit."""
    drawn = Table(title="One training step by commit, medians over rounds (quartiles)")
    for name in ("commit", "date and subject"):
        drawn.add_column(name)
    for name in ("ms per step", "speed, first = 1", "first step, s", "peak MiB"):
        drawn.add_column(name, justify="right")
    for result in results:
        drawn.add_row(
            result["commit"],
            result["title"],
            with_quartiles(result["wall_s"], factor=1000, digits=0),
            with_quartiles(result["speed"], factor=1, digits=2),
            f"{result['first_step_s']:.1f}",
            "?" if result["peak_mib"] is None else f"{result['peak_mib']:.0f}",
        )
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    run_command(History, prog="python -m experiments.benchmark.history", argv=argv)


if __name__ == "__main__":
    main()
