"""Coverage of WikiTableQuestions: ``python -m experiments.solution_sets.programs --help``.

A question is covered if Z (`hardem_jax.solutions.programs`) holds any program, and truly covered if
it holds the annotated one. SQUALL (Shi et al., 2020) annotates about 80 % of the training questions
with SQL; `experiments.solution_sets.squall.search` states when an annotation is in Z. Annotations
serve this analysis only: nothing is trained on them.

``--random`` compares the executor with two slow ones on random programs.
"""

import dataclasses
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import track
from rich.table import Table as Printed

from experiments.report import Report
from experiments.solution_sets.program_differences import (
    compare_executors,
    random_cases,
    real_cases,
)
from experiments.solution_sets.program_reference import Reference, table_values
from experiments.solution_sets.squall.search import Verdict, judge
from experiments.solution_sets.squall.sql import read_squall
from hardem_jax.cli.command import run_command
from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_config import to_json
from hardem_jax.data.readers.wikitablequestions import read_wikitablequestions
from hardem_jax.errors import InputError, require
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.solutions.programs.enumeration import Solutions, enumerate_programs
from hardem_jax.solutions.programs.rules import ProgramRules
from hardem_jax.solutions.programs.table import program_table
from hardem_jax.solutions.programs.types import Program
from hardem_jax.solutions.sql.columns import mask_rows

# SQLite, the slowest, executes the random programs of every tenth table.
_SQLITE_EVERY = 10
# Question ids listed for each reason.
_EXAMPLES = 8

_GROUPS = ("parts", "dates", "superlatives", "neighbours", "nested", "groups", "distinct", "sums")
_GROUPS += ("differences", "comparisons", "negation", "alternatives", "inclusive", "contains")
_GROUPS += ("similar", "empty", "row_numbers")


@dataclasses.dataclass(frozen=True)
class Programs:
    """Measure how many questions Z covers, how large it is, and why annotations are not in it.

    Attributes:
        folder: WikiTableQuestions in its official layout.
        splits: whose questions.
        squall: SQUALL's annotations, a ``.jsonl.gz``; none are looked for without it.
        limit: questions of each split, from its start; None for all.
        rules: which programs there are.
        variants: also measure without each group of operators.
        random: random programs that all executors execute, half of them on random tables.
        check: random solutions of the first split that the slow executor executes.
        seed: of everything random.
        out: write the figures here, as JSON.
    """

    folder: Path
    splits: tuple[str, ...] = ("random-split-1-dev",)
    squall: Path | None = None
    limit: int | None = None
    rules: ProgramRules = ProgramRules()
    variants: bool = False
    random: int = 0
    check: int = 0
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        if not self.splits:
            raise InputError("splits: expected at least one, found none")
        require(self, "random", "check", at_least=0)
        require(self, "limit", at_least=1)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        skips = ExclusionCounts()
        annotations = dict(read_squall(self.squall)) if self.squall else {}
        splits = {name: self._questions(name, skips) for name in self.splits}
        report = Report(self, self.out)
        content: dict[str, Any] = {"left_out": skips.as_dict()}
        content["rows"] = [
            {"split": split, "name": name, **measure(questions, annotations, rules)}
            for split, questions in splits.items()
            for name, rules in self._variants()
        ]
        questions = splits[self.splits[0]]
        if self.check:
            content["checked"] = check_solutions(questions, self.rules, self.check, self.seed)
        if self.random:
            content["executors"] = compare_all(questions, self.random, self.seed)
        shown = [str(skips), coverage_table(content["rows"])]
        if annotations:
            shown.append(reasons_table(content["rows"]))
        report.write(content, *shown, *lines(content))

    def _questions(self, split: str, skips: ExclusionCounts) -> list[TableQuestion]:
        found = list(read_wikitablequestions(self.folder, split, skips=skips))[: self.limit]
        if not found:
            raise InputError(f"--splits: expected questions in {split}, found none")
        return found

    def _variants(self) -> Iterator[tuple[str, ProgramRules]]:
        yield "all", self.rules
        if self.variants:
            for name in _GROUPS:
                if getattr(self.rules, name):
                    shown = name.replace("_", " ")
                    yield f"... without {shown}", dataclasses.replace(self.rules, **{name: False})


def measure(
    questions: Sequence[TableQuestion], annotations: Mapping[str, str], rules: ProgramRules
) -> dict[str, Any]:
    """Coverage, sizes and speed, and where the annotated programs are.

    Args:
        questions: of a split.
        annotations: SQL by question id, for some of the questions.
        rules: which programs there are. Annotated programs are looked for in all of Z, also where
            ``cap`` leaves only a sample of it.
    """
    sizes, one_link, seconds, kept = [], 0, 0.0, 0
    verdicts: dict[str, Verdict] = {}
    for number, question in enumerate(track(questions, transient=True)):
        target = answer_of(question)

        def enumerate_all(rules: ProgramRules, seed: int) -> Solutions:
            where = question.table, question.question  # noqa: B023, called in this round
            return enumerate_programs(*where, target, rules, seed=seed)  # noqa: B023

        begin = time.process_time()
        found = enumerate_all(rules, number)
        seconds += time.process_time() - begin
        sizes.append(found.size)
        one_link += found.max_links < rules.max_links
        if (sql := annotations.get(question.id)) is None:
            continue
        asked = sql, question.question, question.table, target
        verdict = judge(*asked, found.programs, found.links)
        kept += verdict.found
        if not verdict.found and len(found.programs) < found.size:
            everything = enumerate_all(dataclasses.replace(rules, cap=None), number)
            verdict = judge(*asked, everything.programs, everything.links)
        verdicts[question.id] = verdict
    nonempty = [size for size in sizes if size]
    return {
        "rules": to_json(rules),
        "questions": len(questions),
        "covered": len(nonempty) / len(questions),
        "mean": statistics.mean(nonempty) if nonempty else None,
        "median": statistics.median(nonempty) if nonempty else None,
        "max": max(nonempty, default=None),
        "cut": sum(rules.cap is not None and size > rules.cap for size in sizes),
        "one_link": one_link,
        "cpu_s": seconds,
        "annotated": len(verdicts),
        "annotated_in_z": sum(verdict.found for verdict in verdicts.values()),
        "annotated_kept": kept,
        "reasons": reasons(verdicts),
    }


def answer_of(question: TableQuestion) -> Denotation:
    """The answer to compare results with."""
    return Denotation(tuple(map(str, question.answer)), question.values)


def reasons(verdicts: Mapping[str, Verdict]) -> list[dict[str, Any]]:
    """Why annotated programs are not in Z: reason, detail, number and some ids, by number."""
    counts: Counter[tuple[str, str]] = Counter()
    ids: dict[tuple[str, str], list[str]] = {}
    for id, verdict in verdicts.items():
        if not verdict.found:
            key = verdict.reason, verdict.detail
            counts[key] += 1
            ids.setdefault(key, []).append(id)
    return [
        {"reason": key[0], "detail": key[1], "number": number, "ids": ids[key][:_EXAMPLES]}
        for key, number in counts.most_common()
    ]


def check_solutions(
    questions: Sequence[TableQuestion], rules: ProgramRules, number: int, seed: int
) -> dict[str, int]:
    """Executes random solutions of random questions slowly, and counts those that are none.

    Of each question at most 50, so that there may be fewer than ``number``.
    """
    rng = random.Random(seed)
    checked = wrong = 0
    for question in rng.sample(questions, len(questions)):
        if checked >= number:
            break
        target = answer_of(question)
        found = enumerate_programs(question.table, question.question, target, rules)
        indexed = program_table(question.table)
        totals = mask_rows(indexed.every_row & ~indexed.ordinary)
        about = table_values(question.table), indexed.num_rows, totals, found.links.truths
        reference = Reference(*about)
        for row in rng.sample(found.programs.tolist(), min(len(found.programs), 50)):
            checked += 1
            result = reference.execute(Program.from_row(row, found.links))
            wrong += not target.matches(result or [])
    return {"solutions": checked, "wrong": wrong}


def compare_all(questions: Sequence[TableQuestion], number: int, seed: int) -> dict[str, Any]:
    """Differences between executors, on random tables and on real ones."""
    pairs = [(question.table, question.question) for question in questions]
    halves = {
        "random_tables": (random_cases(seed), number // 2, seed),
        "real_tables": (real_cases(pairs, seed), number - number // 2, seed + 1),
    }
    return {
        name: dataclasses.asdict(compare_executors(*half, sqlite_every=_SQLITE_EVERY))
        for name, half in halves.items()
    }


def coverage_table(rows: Sequence[Mapping[str, Any]]) -> Printed:
    """A row for each split and variant."""
    table = Printed(title="Z of WikiTableQuestions; of those with a solution, mean and median")
    for name in ("split", "programs"):
        table.add_column(name)
    names = ("questions", "covered %", "annotated", "in Z %", "kept %", "mean", "median", "largest")
    for name in (*names, "cut", "one link", "questions/CPU s"):
        table.add_column(name, justify="right")
    for row in rows:
        shares = [
            f"{100 * row[name] / row['annotated']:.1f}" if row["annotated"] else "-"
            for name in ("annotated_in_z", "annotated_kept")
        ]
        sizes = [
            f"{row[name]:{form}}" if row[name] is not None else "-"
            for name, form in (("mean", ".1f"), ("median", ".10g"), ("max", "d"))
        ]
        counts = str(row["questions"]), f"{100 * row['covered']:.1f}", str(row["annotated"])
        speed = f"{row['questions'] / row['cpu_s']:.0f}"
        limits = str(row["cut"]), str(row["one_link"])
        table.add_row(row["split"], row["name"], *counts, *shares, *sizes, *limits, speed)
    return table


def reasons_table(rows: Sequence[Mapping[str, Any]]) -> Printed:
    """Why annotated programs are not in Z: all splits together, variants left out."""
    base = [row for row in rows if row["name"] == "all"]
    total = sum(row["annotated"] for row in base)
    numbers: Counter[tuple[str, str]] = Counter()
    ids: dict[tuple[str, str], list[str]] = {}
    for row in base:
        for entry in row["reasons"]:
            key = entry["reason"], entry["detail"]
            numbers[key] += entry["number"]
            ids.setdefault(key, []).extend(entry["ids"])
    table = Printed(
        title=f"Why annotated programs are not in Z: of {total}, those of 0.1 % and more"
    )
    for name in ("reason", "which"):
        table.add_column(name)
    for name in ("number", "%"):
        table.add_column(name, justify="right")
    table.add_column("such as")
    by_reason: Counter[str] = Counter()
    for (reason, _), number in numbers.items():
        by_reason[reason] += number
    for reason, whole in by_reason.most_common():
        table.add_row(reason, "", str(whole), f"{100 * whole / total:.1f}", "")
        for key, number in numbers.most_common():
            if key[0] == reason and number >= total / 1000:
                share = f"{100 * number / total:.1f}"
                table.add_row("", key[1], str(number), share, ", ".join(ids[key][:3]))
    return table


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    """What the tables do not say, in sentences."""
    if checked := content.get("checked"):
        yield f"{checked['solutions']} solutions executed slowly: {checked['wrong']} are none"
    for name, found in content.get("executors", {}).items():
        where = name.replace("_", " ")
        yield (
            f"{found['programs']} random programs on {where}, {found['empty']} of them without a "
            f"result: {found['different']} different results; of {found['by_sqlite']} by SQLite, "
            f"{found['sqlite']}; "
            f"{found['links']} links, {found['rows']} with other rows; "
            f"{found['fast_s']:.1f} s, plain Python {found['slow_s']:.1f} s, "
            f"SQLite {found['sqlite_s']:.1f} s"
        )
        yield from found["examples"]


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Programs, prog="python -m experiments.solution_sets.programs", argv=argv)


if __name__ == "__main__":
    main()
