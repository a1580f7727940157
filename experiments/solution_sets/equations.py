"""Size of Z on DROP: ``python -m experiments.solution_sets.equations --help``.

The paper (Min et al., 2019) reports that its Z holds a solution for 93 % of the questions and
8.2 of them in the mean, 3 in the median, but not which combinations of numbers it allows. Every
reading of it is a row here, next to the same figures for the whole development set.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.examples import NumericExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_config import to_json
from hardem_jax.data.readers.drop import read_drop
from hardem_jax.data.solve import numeric_question
from hardem_jax.errors import InputError, require
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig

PAPER = {"name": "paper", "full": (0.93, 8.2, 3)}
COLUMNS = {
    "numbers of passage, question, S": "name",
    "covered %": ("coverage", 100, 1),
    "mean": ("mean", 1, 1),
    "median": "median",
    "full dev: %": ("full_coverage", 100, 1),
    "its mean": ("full_mean", 1, 1),
    "its median": "full_median",
}

_ALL = EquationRules(special_pairs=True, lone_special=True)
_PASSAGE = EquationRules(special_numbers=False, question_numbers=False, lone_text=False)
_WITHOUT_SPECIAL = EquationRules(special_numbers=False)
_PLAIN_INTEGERS = NumberConfig(commas=False, decimals=False, words="none")


@dataclasses.dataclass(frozen=True)
class Variant:
    """One reading of Z_tot.

    Attributes:
        name: row of the table.
        rules: of equations.
        numbers: of the text.
        full: coverage, mean and median of |Z| over the 6,025 numeric questions of the whole
            development set, where an earlier measurement by another program gave them.
    """

    name: str
    rules: EquationRules
    numbers: NumberConfig = NumberConfig()
    full: tuple[float, float, float] | None = None


VARIANTS = (
    Variant("P, two numbers", _PASSAGE, full=(0.716, 5.7, 2)),
    Variant("P+Q", _WITHOUT_SPECIAL, full=(0.757, 6.2, 2)),
    Variant("P+Q+S, everything", _ALL, full=(0.940, 11.1, 5)),
    Variant("P+Q+S, no SxS", EquationRules(lone_special=True), full=(0.936, 9.3, 4)),
    Variant("P+Q+S, no SxS, no lone S (default)", EquationRules(), full=(0.929, 9.1, 3)),
    Variant("... distinct values, everything", dataclasses.replace(_ALL, distinct_values=True),
            full=(0.939, 7.0, 4)),
    Variant("... integers only, everything", _ALL, _PLAIN_INTEGERS, full=(0.721, 13.9, 9)),
    Variant("default, percent as term", EquationRules(percent="term")),
    Variant("default, percent as factor", EquationRules(percent="factor")),
    Variant("default, counts 0 to 9", EquationRules(max_count=9)),
    Variant("default, distinct values", EquationRules(distinct_values=True)),
    Variant("default, all number words", EquationRules(), NumberConfig(words="all")),
    Variant("default, ordinals", EquationRules(), NumberConfig(ordinals=True)),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Equations:
    """Count the equations in Z.

    Attributes:
        file: DROP files in the official layout, one or several.
        max_words: passages are cut after this many words.
        out: write the figures here, as JSON.
    """

    file: tuple[Path, ...]
    max_words: int = 400
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "max_words", at_least=1)

    def run(self) -> None:
        report, skips = Report(self, self.out), ExclusionCounts()
        examples = read_all(self.file, skips, self.max_words)
        rows = [measure(variant, examples) for variant in track(VARIANTS, transient=True)]
        content = {"left_out": skips.as_dict(), "rows": rows, "numeric": len(examples)}
        content |= {"read": len(examples) + skips.total}
        title = (
            f"Z of the {len(examples)} numeric of {content['read']} questions; of those with a "
            "solution, mean and median |Z|"
        )
        drawn = table(title, [_with_full(row) for row in (*rows, PAPER)], COLUMNS)
        report.write(content, skips, drawn)


def read_all(
    files: Iterable[Path], skips: ExclusionCounts, max_words: int = 400
) -> list[NumericExample]:
    """The questions with a number as answer.

    Raises:
        InputError: if there are none.
    """
    examples = [e for file in files for e in read_drop(file, skips=skips, max_words=max_words)]
    if not examples:
        names = ", ".join(map(str, files)) or "no file at all"
        raise InputError(f"--file: expected questions with a number as answer, found {names}")
    return examples


def measure(variant: Variant, examples: Sequence[NumericExample]) -> dict[str, Any]:
    """Coverage and size of Z."""
    found = (numeric_question(example, variant.numbers, variant.rules) for example in examples)
    return {
        "name": variant.name,
        **size_of([len(question.equations) for question in found]),
        "numeric": len(examples),
        "rules": to_json(variant.rules),
        "numbers": to_json(variant.numbers),
        "full": variant.full,
    }


def size_of(sizes: Sequence[int]) -> dict[str, float | None]:
    """Coverage, and mean and median of the sizes above 0; None where there are none.

    Example:
        >>> size_of([0, 1, 2, 6])
        {'coverage': 0.75, 'mean': 3, 'median': 2}
    """
    found = [size for size in sizes if size]
    return {
        "coverage": len(found) / len(sizes),
        "mean": statistics.mean(found) if found else None,
        "median": statistics.median(found) if found else None,
    }


def _with_full(row: dict[str, Any]) -> dict[str, Any]:
    full = row["full"] or (None, None, None)
    names = "full_coverage", "full_mean", "full_median"
    return row | dict(zip(names, full, strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Equations, prog="python -m experiments.solution_sets.equations", argv=argv)


if __name__ == "__main__":
    main()
