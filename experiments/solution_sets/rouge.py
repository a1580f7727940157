"""Speed and size of Z on NarrativeQA: ``python -m experiments.solution_sets.rouge --help``.

Z are the spans of a summary whose ROUGE-L with an answer is the best. The paper (Min et al.,
2019) reports a mean |Z| of 4.3 and a median of 5, and 7.1 for its noisy variant; which spans it
keeps is not said in full, so every reading of it is a row here. On a sample, each span is also
scored on its own: that has to give the same Z, and takes longer.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.progress import track
from rich.table import Table

from experiments.benchmark.measure import machine, machine_line, wide_console
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.examples import ReadingExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import write_json
from hardem_jax.data.readers.narrativeqa import add_rouge_mentions, read_narrativeqa
from hardem_jax.errors import InputError, require
from hardem_jax.metrics import rouge
from hardem_jax.solutions.rouge.score import lcs_f1, rouge_l_1_0_1
from hardem_jax.solutions.rouge.search import RougeRules

PAPER = {"paper": (4.3, 5), "paper, noisy": (7.1, None)}
VARIANTS = {
    "best (default)": RougeRules(),
    "as the fifth best, or better": RougeRules(keep=5),
    "five best": RougeRules(keep=5, ties=False),
    "best, by the package": RougeRules("pltrdy"),
    "as the fifth best, or better, by the package": RougeRules("pltrdy", keep=5),
    "five best, by the package": RougeRules("pltrdy", keep=5, ties=False),
    "best, by the package, whatever its score": RougeRules("pltrdy", minimum=1e-6),
}
SCORERS = {"lcs": lcs_f1, "pltrdy": rouge_l_1_0_1}
CHECKED = [rules for rules in VARIANTS.values() if rules.minimum == RougeRules().minimum]


@dataclasses.dataclass(frozen=True)
class Rouge:
    """Measure how fast Z is enumerated, how large it is, and whether it is right.

    Attributes:
        folder: NarrativeQA in the official layout.
        split: whose questions.
        processes: for Z; starting them is part of the time.
        check: questions, drawn at random, each span of which is also scored on its own.
        seed: of the draw.
        out: write the figures here, as JSON.
    """

    folder: Path
    split: tuple[str, ...] = ("train", "valid")
    processes: int = 2
    check: int = 10
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "processes", at_least=1)
        require(self, "check", at_least=0)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        skips = ExclusionCounts()
        examples = [
            example
            for split in self.split
            for example in read_narrativeqa(self.folder, split, skips=skips)
        ]
        if not examples:
            raise InputError(f"--folder: expected questions with answers in {self.folder}")
        about = machine()
        content: dict[str, Any] = {"flags": flags(self), "machine": about}
        content |= {"left_out": skips.as_dict(), "questions": len(examples)}
        content["rows"] = [
            {"name": name, **measure(rules, examples, self.processes)}
            for name, rules in track(VARIANTS.items(), transient=True)
        ]
        number = min(self.check, len(examples))
        chosen = random.Random(self.seed).sample(examples, number)
        content["brute_force"] = beside_brute_force(chosen, self.processes)
        about["load_average_after"] = list(os.getloadavg())
        if self.out is not None:
            write_json(self.out, content)
        console = wide_console()
        console.print(skips, highlight=False, markup=False)
        console.print(variants_table(content["rows"], len(examples)))
        for line in (*lines(content), machine_line(about)):
            console.print(line, highlight=False, markup=False)


def measure(
    rules: RougeRules, examples: Sequence[ReadingExample], processes: int
) -> dict[str, Any]:
    """Seconds that Z takes, its size, and what its spans score by the metric (times not counted).

    ``best`` and ``mean`` of the spans of a question are averaged over all questions, one without
    Z counting 0.
    """
    begin = time.perf_counter()
    found = list(add_rouge_mentions(examples, rules, processes))
    wall = time.perf_counter() - begin
    scores = [of_mentions(example, rouge.rouge_l) for example in found]
    old = [of_mentions(example, rouge.rouge_l_0_3_2) for example in found]
    sizes = [len(of_one) for of_one in scores if of_one]
    return {
        "rules": flags(rules),
        "wall_s": wall,
        "covered": len(sizes) / len(found),
        "mean": statistics.mean(sizes) if sizes else None,
        "median": statistics.median(sizes) if sizes else None,
        "max": max(sizes, default=None),
        "best_rouge_l": statistics.mean(max(of_one, default=0.0) for of_one in scores),
        "best_rouge_l_0_3_2": statistics.mean(max(of_one, default=0.0) for of_one in old),
        "mean_rouge_l": statistics.mean(statistics.mean(of_one or [0.0]) for of_one in scores),
    }


def of_mentions(example: ReadingExample, metric: Any) -> list[float]:
    """The metric of every span of Z, as an answer."""
    return [
        metric(example.documents[document].text[start:end], example.golds)
        for document, start, end in example.mentions or ()
    ]


def beside_brute_force(examples: Sequence[ReadingExample], processes: int) -> dict[str, Any]:
    """Time and result of scoring each span on its own, by both scorers."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        done = list(track(pool.map(check, examples), total=len(examples), transient=True))
    total: dict[str, Any] = {"questions": len(examples), "processes": processes}
    total["different"] = [message for result in done for message in result["different"]]
    for name in ("spans", *(f"{scorer}_s" for scorer in SCORERS)):
        total[name] = sum(result[name] for result in done)
    return total


def check(example: ReadingExample) -> dict[str, Any]:
    """Scores every span of one question, one after the other, and compares Z of every rule."""
    result: dict[str, Any] = {"different": []}
    for scorer in SCORERS:
        begin = time.perf_counter()
        scored = score_all(example, scorer)
        result |= {"spans": len(scored), f"{scorer}_s": time.perf_counter() - begin}
        for rules in CHECKED:
            if rules.scorer != scorer:
                continue
            [found] = add_rouge_mentions([example], rules)
            if found.mentions != select(scored, rules):
                result["different"].append(f"{example.id}: {rules}")
    return result


def score_all(example: ReadingExample, scorer: str) -> list[tuple[float, int, int]]:
    """(score, start, end) of all spans with a letter or digit, each compared with each answer."""
    text, max_words = example.documents[0].text, RougeRules().max_words
    ends, places = [], []
    begin = 0
    for word in text.split():
        begin = text.index(word, begin)
        places.append(begin)
        begin += len(word)
        ends.append(begin)
    golds, scored = set(example.golds), []
    for first, start in enumerate(places):
        for end in ends[first : first + max_words]:
            span = text[start:end].lower()
            if any(character.isalnum() for character in span):
                best = max(SCORERS[scorer](span, gold).f for gold in golds)
                scored.append((best, start, end))
    return scored


def select(
    scored: Sequence[tuple[float, int, int]], rules: RougeRules
) -> tuple[tuple[int, int, int], ...]:
    """Z as the rules define it, from the scores of all spans."""
    ranked = sorted((-score, *span) for score, *span in scored if score >= rules.minimum)
    last = ranked[: rules.keep][-1:]
    more = [span for span in ranked[rules.keep :] if rules.ties and span[0] == last[0][0]]
    return tuple(sorted((0, start, end) for _, start, end in ranked[: rules.keep] + more))


def variants_table(rows: Sequence[dict[str, Any]], questions: int) -> Table:
    """A row for each variant, and the paper's."""
    table = Table(title=f"Z of {questions} questions; of those with a span, mean and median |Z|")
    table.add_column("spans")
    names = ("covered %", "mean", "median", "largest", "best ROUGE-L", "mean ROUGE-L", "0.3.2")
    for name in (*names, "questions/s"):
        table.add_column(name, justify="right")
    for row in rows:
        sizes = [
            "-" if row[name] is None else f"{row[name]:{form}}"
            for name, form in (("mean", ".1f"), ("median", "g"), ("max", "d"))
        ]
        kinds = ("best_rouge_l", "mean_rouge_l", "best_rouge_l_0_3_2")
        scores = [f"{100 * row[name]:.1f}" for name in kinds]
        speed = f"{questions / row['wall_s']:.0f}"
        table.add_row(row["name"], f"{100 * row['covered']:.1f}", *sizes, *scores, speed)
    table.add_section()
    for name, (mean, median) in PAPER.items():
        blank = ("", "", "", "", "")
        table.add_row(name, "", f"{mean}", "-" if median is None else f"{median}", *blank)
    return table


def lines(content: dict[str, Any]) -> Iterator[str]:
    """What the table does not say, in sentences."""
    brute, questions = content["brute_force"], content["questions"]
    processes = content["flags"]["processes"]
    yield f"{processes} processes, starting them included. Each span scored on its own, of"
    yield f"{brute['questions']} questions, {brute['spans']} spans:"
    for scorer in SCORERS:
        row = next(row for row in content["rows"] if row["rules"]["scorer"] == scorer)
        alone = brute[f"{scorer}_s"] / brute["processes"] / max(1, brute["questions"])
        together = row["wall_s"] / questions
        yield (
            f"  {scorer}: {row['wall_s']:.1f} s for all {questions} questions together; one span "
            f"after the other would take {alone * questions:.0f} s, {alone / together:.0f} times "
            "as long"
        )
    yield f"  {len(brute['different'])} differences in {len(CHECKED)} rules for each question"
    yield from brute["different"]


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Rouge, prog="python -m experiments.solution_sets.rouge", argv=argv)


if __name__ == "__main__":
    main()
