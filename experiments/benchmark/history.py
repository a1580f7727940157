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
from typing import Any

from experiments.benchmark.measure import (
    interleave,
    machine,
    median_ratio,
    quartiles,
    report,
    table,
    with_quartiles,
)
from experiments.benchmark.setting import MIN_TOKENS, Preset
from hardem_jax.cli.command import run_command
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
        out: write the measurements here, as JSON.
    """

    commits: tuple[str, ...]
    repository: Path = Path()
    preset: Preset = "minilm"
    rows: int = 16
    tokens: int = 128
    steps: int = 5
    rounds: int = 3
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "steps", "rounds", at_least=1)
        require(self, "rows", at_least=2)
        require(self, "tokens", at_least=MIN_TOKENS)

    def run(self) -> None:
        show = "show", "--no-patch", "--format=%cs %s"  # date and subject
        titles = {c: self._git(*show, f"{c}^{{commit}}").decode().strip() for c in self.commits}
        if len(titles) < len(self.commits):
            raise InputError(f"--commits: expected distinct commits, found {self.commits}")
        about = machine()
        with contextlib.ExitStack() as stack:
            turns = {}
            for commit in titles:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="commit-"))
                archive = self._git("archive", "--format=tar", commit)
                subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)
                turns[commit] = lambda _, at=(commit, Path(folder)): self._measure(*at)
            measured = interleave(turns, self.rounds)
        results = summarize(titles, measured)
        rows = [
            {
                "commit": result["commit"],
                "date and subject": result["title"],
                "ms per step": with_quartiles(result["wall_s"], factor=1000, digits=0),
                "speed, first = 1": with_quartiles(result["speed"], factor=1, digits=2),
                "first step, s": f"{result['first_step_s']:.1f}",
                "peak MiB": "?" if result["peak_mib"] is None else f"{result['peak_mib']:.0f}",
            }
            for result in results
        ]
        title = "One training step by commit, medians over rounds (quartiles)"
        report(self, about, {"results": results}, table(title, rows, left=2))

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
        options = {
            **{name: getattr(self, name) for name in ("preset", "rows", "tokens", "steps")},
            **{"variants": "ours", "rounds": 1, "out": out},
        }
        command = [sys.executable, "-m", "experiments.benchmark"]
        command += [text for name, value in options.items() for text in (f"--{name}", str(value))]
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
    titles: Mapping[str, str], measured: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """The figures of each commit.

    Args:
        titles: commit -> date and subject; speed is relative to the first.
        measured: commit -> what its benchmark measured, round by round.
    """
    seconds = {c: [turn["wall_s"]["median"] for turn in turns] for c, turns in measured.items()}
    base = seconds[next(iter(titles))]
    return [
        {
            "commit": commit,
            "title": title,
            "wall_s": quartiles(seconds[commit]),
            "speed": median_ratio(base, seconds[commit]),
            "first_step_s": statistics.median(turn["first_step_s"] for turn in measured[commit]),
            "peak_mib": max((turn["peak_mib"] or 0) for turn in measured[commit]) or None,
        }
        for commit, title in titles.items()
    ]


def main(argv: Sequence[str] | None = None) -> None:
    run_command(History, prog="python -m experiments.benchmark.history", argv=argv)


if __name__ == "__main__":
    main()
