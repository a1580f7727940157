"""One table of finished runs, whenever and wherever they were made.

``python -m experiments.tabulate --help``. ``compare`` makes runs in one folder; here runs of many
folders, and files of runs, become one Markdown table with intervals and paired tests::

    python -m experiments.tabulate --runs runs/monday runs/tuesday --against MML
    python -m experiments.tabulate --runs runs/monday --save monday.jsonl
    python -m experiments.tabulate --runs monday.jsonl tuesday.jsonl --metrics accuracy "hit@1"

A file that ``--save`` writes has a line for each run with its settings and the scores of every
question. Runs that differ in more than objective and seed are rows of their own, named after what
differs.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hardem_jax.analysis.finished_runs import read_runs, rows, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import write_text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tabulate:
    """Tabulate finished runs.

    Attributes:
        runs: folders of runs, folders that ``compare`` wrote, or files from ``--save``.
        metrics: columns of the table; by default, every metric recorded per question.
        against: the row from which differences are taken.
        save: write the runs to this file, one per line.
    """

    runs: tuple[Path, ...]
    metrics: tuple[str, ...] = ()
    against: str | None = None
    save: Path | None = None

    def run(self) -> None:
        found = rows(run for source in self.runs for run in read_runs(source))
        if self.save is not None:
            lines = (run.line() for seeds in found.values() for run in seeds.values())
            write_text(self.save, "".join(f"{line}\n" for line in lines))
        print(table(found, self.metrics, self.against), end="")


if __name__ == "__main__":
    run_command(Tabulate, prog="python -m experiments.tabulate")
