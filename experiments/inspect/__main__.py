"""Questions with their Z and P(z | x) as one HTML file: ``python -m experiments.inspect --help``.

`sources` says what there is to see and what models say of it; `page` puts it into a file that a
browser opens without a network.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hardem_jax.cli.command import run_command
from hardem_jax.data.files import check_writable, write_text
from hardem_jax.errors import InputError, require


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inspect:
    """Write questions, their Z and P(z | x) to one HTML file.

    A run shows P(z | x) after each of its checkpoints that is kept, ``best`` and ``last``, and of
    questions that ``train --watched`` names after every evaluation.

    Attributes:
        source: a prepared split, a build, the folder of a run, or one that ``compare`` wrote.
        out: HTML file to write.
        against: folders of other runs, to be shown next to it on the same questions.
        data: split or build to ask the models about; by default the one that the run was evaluated
            on. The documents of a build are cut into windows as the run reads them.
        split: of a build; by default that of the run, or "dev".
        checkpoint: of runs; the second is left out where it is of the same step.
        count: questions, the first ones, and at most as many that are left out of the split.
        solutions: of each question, the most likely ones, or without a model the first.
        batch_size: inputs read at once.
        force: replace the file that is in ``out``.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    out: Path
    against: tuple[Path, ...] = ()
    data: Path | None = None
    split: str | None = None
    checkpoint: tuple[Literal["best", "last"], ...] = ("best", "last")
    count: int = 2000
    solutions: int = 100
    batch_size: int = 32
    force: bool = False

    def __post_init__(self) -> None:
        require(self, "count", "solutions", "batch_size", at_least=1)
        if not self.checkpoint:
            raise InputError("checkpoint: expected best, last or both, found none")

    def run(self) -> None:
        from experiments.inspect.page import page, record
        from experiments.inspect.sources import open_source, run_folders, views_of_run

        check_writable(self.out)
        if os.path.exists(self.out) and not self.force:
            raise InputError(f"{self.out}: expected a new file, found one (--force replaces it)")
        folders = run_folders(self.source)
        if self.against and not folders:
            raise InputError(f"{self.source}: expected a run to compare, found none")
        for other in self.against:
            found = run_folders(other)
            if not found:
                raise InputError(f"--against: {other}: expected a run or a comparison, found none")
            folders += found
        with tempfile.TemporaryDirectory() as scratch:
            source = open_source(
                folders[0] if folders else self.source,
                data=self.data,
                split=self.split,
                count=self.count,
                scratch=Path(scratch),
            )
            runs = []
            for folder in folders:
                print(f"{folder}: reading {len(source.questions)} questions", file=sys.stderr)
                runs.append(views_of_run(folder, source, self.checkpoint, self.batch_size))
            content = record(source, runs, most=self.solutions, left_out=self.count)
        text = page(content)
        write_text(self.out, text)
        print(f"{self.out}: {len(source.questions)} questions, {len(text) / 2**20:.1f} MiB")


if __name__ == "__main__":
    run_command(Inspect, prog="python -m experiments.inspect")
