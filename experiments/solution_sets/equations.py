"""Speed and size of Z on DROP: ``python -m experiments.solution_sets.equations --help``.

The paper (Min et al., 2019) reports that its Z holds a solution for 93 % of the questions and
8.2 of them in the mean, 3 in the median, but not which combinations of numbers it allows. Every
reading of it is a row here, next to the same figures for the whole development set.
"""

import dataclasses
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import track
from rich.table import Table

from experiments.benchmark.measure import machine, machine_line, wide_console
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.examples import NumericExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import write_json
from hardem_jax.data.readers.drop import read_drop
from hardem_jax.data.solve import numeric_question
from hardem_jax.errors import InputError, require
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig

# Training questions of the whole data set, and those of them whose answer is a number.
FULL_QUESTIONS, FULL_NUMERIC = 77_409, 46_973
PAPER = (0.93, 8.2, 3)

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
    """Measure how fast Z is enumerated, and how large it is.

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
        skips = ExclusionCounts()
        examples = [
            example
            for file in self.file
            for example in read_drop(file, skips=skips, max_words=self.max_words)
        ]
        if not examples:
            names = ", ".join(map(str, self.file)) or "no file at all"
            raise InputError(f"--file: expected questions with a number as answer, found {names}")
        about = machine()
        rows = [measure(variant, examples) for variant in track(VARIANTS, transient=True)]
        about["load_average_after"] = list(os.getloadavg())
        content = {"flags": flags(self), "machine": about, "left_out": skips.as_dict()}
        content |= {"read": len(examples) + skips.total, "numeric": len(examples), "rows": rows}
        if self.out is not None:
            write_json(self.out, content)
        console = wide_console()
        console.print(skips, highlight=False, markup=False)
        console.print(variants_table(rows, len(examples)))
        console.print(speed_line(rows, content["read"]), highlight=False, markup=False)
        console.print(machine_line(about), highlight=False, markup=False)


def measure(variant: Variant, examples: Sequence[NumericExample]) -> dict[str, Any]:
    """Size of Z and seconds it takes; the numbers of a passage are looked for once."""
    sizes = []
    wall, cpu = time.perf_counter(), time.process_time()
    for example in examples:
        question = numeric_question(example, variant.numbers, variant.rules)
        sizes.append(len(question.equations))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"name": variant.name, **size_of(sizes), "wall_s": wall, "cpu_s": cpu} | {
        "numeric": len(sizes),
        "rules": flags(variant.rules),
        "numbers": flags(variant.numbers),
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


def variants_table(rows: Sequence[dict[str, Any]], numeric: int) -> Table:
    """A row for each variant, and the paper's."""
    table = Table(title=f"Z of {numeric} questions; of those with a solution, mean and median |Z|")
    table.add_column("numbers of passage, question, S")
    for name in ("covered %", "mean", "median", "questions/CPU s", "full dev: %", "mean", "median"):
        table.add_column(name, justify="right")
    for row in rows:
        here = _cells(row["coverage"], row["mean"], row["median"])
        speed = f"{numeric / row['cpu_s']:.0f}"
        table.add_row(row["name"], *here, speed, *_cells(*(row["full"] or (None,) * 3)))
    table.add_section()
    table.add_row("paper", *_cells(None, None, None), "", *_cells(*PAPER))
    return table


def speed_line(rows: Sequence[dict[str, Any]], read: int) -> str:
    """Seconds of the default rules, here and for the whole training set."""
    default, numbers = flags(EquationRules()), flags(NumberConfig())
    [row] = [row for row in rows if (row["rules"], row["numbers"]) == (default, numbers)]
    numeric = row["numeric"]
    # There is one thread; its CPU time is what it would take on a core of its own.
    full = FULL_NUMERIC * row["cpu_s"] / numeric
    return (
        f"default: {row['wall_s']:.1f} s, of which {row['cpu_s']:.1f} s on the CPU, for the "
        f"{numeric} numeric of {read} questions: {numeric / row['cpu_s']:.0f} per CPU second. "
        f"The {FULL_NUMERIC} numeric of all {FULL_QUESTIONS} training questions take {full:.0f} s"
    )


def _cells(coverage: float | None, mean: float | None, median: float | None) -> list[str]:
    formats = ((coverage, 100, ".1f"), (mean, 1, ".1f"), (median, 1, "g"))
    return ["-" if value is None else f"{scale * value:{form}}" for value, scale, form in formats]


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Equations, prog="python -m experiments.solution_sets.equations", argv=argv)


if __name__ == "__main__":
    main()
