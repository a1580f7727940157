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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.benchmark.measure import interleave, median_ratio, quartiles
from experiments.benchmark.steps.setting import MIN_TOKENS, Preset
from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError, require


@dataclasses.dataclass(frozen=True)
class History:
    """Measure the training step of several commits, in turns.

    Attributes:
        commits: any names that git knows; speed is relative to the first.
        repository: a checkout of this project with its history.
        preset: size of the encoder; "tiny" only to see that everything runs.
        tokens: T.
        steps: training steps in a turn.
        rounds: turns of every commit.
        out: write the measurements here, as JSON.
    """

    commits: tuple[str, ...]
    repository: Path = Path()
    preset: Preset = "minilm"
    tokens: int = 128
    steps: int = 5
    rounds: int = 3
    out: Path | None = None

    def __post_init__(self) -> None:
        if not self.commits:
            raise InputError("commits: expected at least one value, found none")
        require(self, "steps", "rounds", at_least=1)
        require(self, "tokens", at_least=MIN_TOKENS)

    def run(self) -> None:
        show = "show", "--no-patch", "--format=%cs %s"  # date and subject
        titles = {c: self._git(*show, f"{c}^{{commit}}").decode().strip() for c in self.commits}
        if len(titles) < len(self.commits):
            raise InputError(f"--commits: expected distinct commits, found {self.commits}")
        report = Report(self, self.out)
        with contextlib.ExitStack() as stack:
            turns = {}
            for commit in titles:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="commit-"))
                archive = self._git("archive", "--format=tar", commit)
                subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)
                turns[commit] = lambda _, at=(commit, Path(folder)): self._measure(*at)
            measured = interleave(turns, self.rounds)
        seconds = {c: [t["wall_s"]["median"] for t in turns] for c, turns in measured.items()}
        results = [
            {
                "commit": commit,
                "title": titles[commit],
                "wall_s": quartiles(seconds[commit]),
                "speed": median_ratio(seconds[self.commits[0]], seconds[commit]),
                "first_step_s": statistics.median(turn["first_step_s"] for turn in turns),
                "peak_mib": max((turn["peak_mib"] or 0) for turn in turns) or None,
            }
            for commit, turns in measured.items()
        ]
        columns = {
            "commit": "commit",
            "date and subject": "title",
            "ms per step": ("wall_s", 1000, 0),
            "speed, first = 1": ("speed", 1, 2),
            "first step, s": ("first_step_s", 1, 1),
            "peak MiB": ("peak_mib", 1, 0),
        }
        title = "One training step by commit, medians over rounds (quartiles)"
        report.write({"results": results}, table(title, results, columns, left=2))

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
            **{name: getattr(self, name) for name in ("preset", "tokens", "steps")},
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


def main(argv: Sequence[str] | None = None) -> None:
    run_command(History, prog="python -m experiments.benchmark.history", argv=argv)


if __name__ == "__main__":
    main()
