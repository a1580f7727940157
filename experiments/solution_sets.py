"""Table 1 of the paper, sizes of Z: ``python -m experiments.solution_sets --help``.

Prints questions and |Z| of builds and prepared splits as a Markdown table, next to the paper's
(Min et al., 2019)::

    python -m experiments.solution_sets --data built/wikisql built/drop prepared/triviaqa

``prepare`` of each data set's module makes these folders. The paper leaves open what Z ranges over;
every reading is an option of ``prepare``, such as ``--rules.no-vacuous-conditions``, and a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.report import markdown, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import read_meta
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.documents.prepared import FORMAT, TAGGINGS_FORMAT
from hardem_jax.errors import InputError

#: Training questions, mean and median |Z| of each data set.
PAPER = {
    "TriviaQA": (61_888, 2.7, 2),
    "NarrativeQA": (32_747, 4.3, 5),
    "TriviaQA-open": (78_785, 6.7, 4),
    "NQ-open": (79_168, 1.8, 1),
    "DROP, numbers": (46_973, 8.2, 3),
    "WikiSQL": (56_355, 346.1, 5),
}
COLUMNS = {
    "data": "data",
    "left out": "left out",
    "questions": "questions",
    "with a solution": "with a solution",
    "mean size": ("mean", 1, 1),
    "median": "median",
    "largest": "max",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SolutionSets:
    """Tabulate questions and the sizes of their Z, next to those of the paper.

    Mean and median are of the questions with a solution. "train" leaves out the others.

    Attributes:
        data: folders of builds, each split of which is a row, and of prepared splits.
    """

    data: tuple[Path, ...]

    def run(self) -> None:
        if not self.data:
            raise InputError("data: expected at least one folder, found none")
        rows = [row for folder in self.data for row in _rows(folder)]
        for name, (questions, mean, median) in PAPER.items():
            paper = {"questions": questions, "mean": mean, "median": median}
            rows.append({"data": f"paper: {name}, train", **paper})
        print(markdown(table("", rows, COLUMNS)), end="")


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each split of a build, or for a prepared split."""
    if (folder / "meta.json").is_file():
        found = read_json_object(folder / "meta.json").get("format")
        format = TAGGINGS_FORMAT if found == TAGGINGS_FORMAT else FORMAT
        yield _row(str(folder), read_meta(folder, format=format), "questions with a mention")
    else:
        from hardem_jax.data.built import open_build  # imports TFDS, which help does not need

        for split, of_split in open_build(folder).meta["splits"].items():
            yield _row(f"{folder}, {split}", of_split, "questions with a solution")


def _row(name: str, meta: Mapping[str, Any], solved: str) -> dict[str, Any]:
    counts = dict(meta["counts"])
    return {
        "data": name,
        **{key: counts[key] for key in ("left out", "questions")},
        "with a solution": counts[solved],
        **meta["solutions per question"],
    }


if __name__ == "__main__":
    run_command(SolutionSets, prog="python -m experiments.solution_sets")
