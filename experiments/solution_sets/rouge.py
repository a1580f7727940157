"""Size of Z on NarrativeQA: ``python -m experiments.solution_sets.rouge --help``.

Z are the spans of a summary whose ROUGE-L with an answer is the best. The paper (Min et al.,
2019) reports a mean |Z| of 4.3 and a median of 5, and 7.1 for its noisy variant; which spans it
keeps is not said in full, so every reading of it is a row here. On a sample, each span is also
scored on its own, which has to give the same Z.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.examples import ReadingExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_config import to_json
from hardem_jax.data.readers.narrativeqa import add_rouge_mentions, read_narrativeqa
from hardem_jax.errors import InputError, require
from hardem_jax.metrics import rouge
from hardem_jax.solutions.rouge.score import lcs_f1, rouge_l_1_0_1
from hardem_jax.solutions.rouge.search import RougeRules, Scorer

PAPER = [
    {"name": "paper", "mean": 4.3, "median": 5},
    {"name": "paper, noisy", "mean": 7.1, "median": None},
]
COLUMNS = {
    "spans": "name",
    "covered %": ("covered", 100, 1),
    "mean": ("mean", 1, 1),
    "median": "median",
    "largest": "max",
    "best ROUGE-L": ("best_rouge_l", 100, 1),
    "mean ROUGE-L": ("mean_rouge_l", 100, 1),
    "0.3.2": ("best_rouge_l_0_3_2", 100, 1),
}
VARIANTS = {
    "best (default)": RougeRules(),
    "as the fifth best, or better": RougeRules(keep=5),
    "five best": RougeRules(keep=5, ties=False),
    "best, by the package": RougeRules("pltrdy"),
    "as the fifth best, or better, by the package": RougeRules("pltrdy", keep=5),
    "five best, by the package": RougeRules("pltrdy", keep=5, ties=False),
    "best, by the package, whatever its score": RougeRules("pltrdy", minimum=1e-6),
}
SCORERS: dict[Scorer, Any] = {"lcs": lcs_f1, "pltrdy": rouge_l_1_0_1}
CHECKED = [rules for rules in VARIANTS.values() if rules.minimum == RougeRules().minimum]


@dataclasses.dataclass(frozen=True)
class Rouge:
    """Count the spans in Z, score them, and check them one by one.

    Attributes:
        folder: NarrativeQA in the official layout.
        split: whose questions.
        processes: that search.
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
        report, skips = Report(self, self.out), ExclusionCounts()
        examples = read_all(self.folder, skips, self.split)
        rows = [
            {"name": name, **measure(rules, examples, self.processes)}
            for name, rules in track(VARIANTS.items(), transient=True)
        ]
        chosen = random.Random(self.seed).sample(examples, min(self.check, len(examples)))
        one_by_one = check_all(chosen, self.processes)
        content = {"left_out": skips.as_dict(), "questions": len(examples)}
        content |= {"rows": rows, "brute_force": one_by_one}
        title = f"Z of {len(examples)} questions; of those with a span, mean and median |Z|"
        lines = [
            f"each span scored on its own, of {len(chosen)} questions, {one_by_one['spans']} "
            f"spans: {len(one_by_one['different'])} differences in {len(CHECKED)} rules for each "
            "question",
            *one_by_one["different"],
        ]
        report.write(content, skips, table(title, [*rows, *PAPER], COLUMNS), *lines)


def read_all(
    folder: Path, skips: ExclusionCounts, splits: Sequence[str] = ("train", "valid")
) -> list[ReadingExample]:
    """The questions of some splits.

    Raises:
        InputError: if there are none.
    """
    examples = [e for split in splits for e in read_narrativeqa(folder, split, skips=skips)]
    if not examples:
        raise InputError(f"--folder: expected questions with answers in {folder}")
    return examples


def measure(
    rules: RougeRules, examples: Sequence[ReadingExample], processes: int
) -> dict[str, Any]:
    """Coverage and size of Z, and what its spans score by the metric.

    ``best`` and ``mean`` of the spans of a question are averaged over all questions, one without
    Z counting 0.
    """
    found = list(add_rouge_mentions(examples, rules, processes))
    scores = [of_mentions(example, rouge.rouge_l) for example in found]
    old = [of_mentions(example, rouge.rouge_l_0_3_2) for example in found]
    sizes = [len(of_one) for of_one in scores if of_one]
    return {
        "rules": to_json(rules),
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


def check_all(examples: Sequence[ReadingExample], processes: int) -> dict[str, Any]:
    """Whether scoring each span on its own gives the same Z, by both scorers."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        done = list(track(pool.map(check, examples), total=len(examples), transient=True))
    return {
        "questions": len(examples),
        "processes": processes,
        "different": [message for result in done for message in result["different"]],
        "spans": sum(result["spans"] for result in done),
    }


def check(example: ReadingExample) -> dict[str, Any]:
    """Scores every span of one question, one after the other, and compares Z of every rule."""
    result: dict[str, Any] = {"different": []}
    for scorer in SCORERS:
        scored = score_all(example, scorer)
        result["spans"] = len(scored)
        for rules in CHECKED:
            if rules.scorer != scorer:
                continue
            [found] = add_rouge_mentions([example], rules)
            if found.mentions != select(scored, rules):
                result["different"].append(f"{example.id}: {rules}")
    return result


def score_all(example: ReadingExample, scorer: Scorer) -> list[tuple[float, int, int]]:
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


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Rouge, prog="python -m experiments.solution_sets.rouge", argv=argv)


if __name__ == "__main__":
    main()
