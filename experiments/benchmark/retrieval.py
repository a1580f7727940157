"""Speed, memory and recall of retrieval: ``python -m experiments.benchmark.retrieval --help``.

Indexes a passage file in four sizes, retrieves passages for the questions from each, and sets
next to it plain BM25 with the defaults of the library bm25s. Every figure comes from a process of
its own, so that peak memory is that of this step only. Straight lines through the sizes say
what all of Wikipedia (21 million passages) would take.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from experiments.benchmark.measure import machine, machine_line, wide_console
from experiments.retrieve import READERS, Layout
from hardem_jax.cli.command import flags, peak_mib, run_command
from hardem_jax.data.examples import OpenQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import new_folder, write_json
from hardem_jax.errors import InputError, require
from hardem_jax.retrieval.config import Method, RetrieverConfig
from hardem_jax.retrieval.recall import RecallCounts
from hardem_jax.retrieval.store import PassageStore

# What indexes and retrieves imports bm25s, scipy and jax: in the processes that do it, before they
# look at the clock.

WIKIPEDIA = 21_015_324
METHODS: tuple[Method, ...] = ("combined", "articles", "bm25")
# Figures that a straight line is put through: name in the file, unit, name in the table.
FITTED = {
    "build_cpu_s": "CPU s to build",
    "build_mib": "MiB at most, building",
    "disk_mib": "MiB on disk",
    "question_cpu_ms": "CPU ms a question (combined)",
    "question_mib": "MiB at most, retrieving",
}


@dataclasses.dataclass(frozen=True)
class Retrieval:
    """Measure how long indexing and retrieving take, and how good the passages are.

    Attributes:
        passages: passage file, see ``experiments.retrieve``.
        questions: files of questions, taken together.
        layout: of `questions`.
        parts: sizes to measure, as shares of the passages; the largest must be 1.
        retriever: articles and passages; every method is measured.
        ranks: of recall.
        sample: questions, about, that are asked of the smaller sizes.
        out: write the figures here, as JSON.
    """

    passages: Path
    questions: tuple[Path, ...]
    layout: Layout = "nq_open"
    parts: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0)
    retriever: RetrieverConfig = RetrieverConfig()
    ranks: tuple[int, ...] = (1, 5, 20, 80)
    sample: int = 500
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "parts", above=0, at_most=1)
        require(self, "ranks", at_least=1, at_most=self.retriever.passages)
        require(self, "sample", at_least=1)
        if 1 not in self.parts:
            raise InputError(f"parts: expected shares up to 1.0, found {self.parts}")

    def run(self) -> None:
        about, skips = machine(), ExclusionCounts()
        questions = read_questions(self.questions, self.layout, skips)
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            content = self._measure(Path(name), questions)
        content |= {"flags": flags(self), "machine": about, "warnings": skips.warnings_as_dict()}
        about["load_average_after"] = list(os.getloadavg())
        if self.out is not None:
            write_json(self.out, content)
        show(content, skips)

    def _measure(self, folder: Path, questions: list[OpenQuestion]) -> dict[str, Any]:
        index = folder / "index"
        # The full size first: how many passages there are is not known before.
        built = apart(build, self.passages, index, None)
        few = questions[:: max(1, len(questions) // max(self.sample, 1))]
        full = {"passages": built["passages"], **built, **self._ask(index, few)}
        methods = {
            method: apart(
                ask,
                index,
                dataclasses.replace(self.retriever, method=method),
                questions,
                self.ranks,
            )
            for method in METHODS
        }
        plain = apart(ask_plain, index, questions, self.retriever.passages, self.ranks)
        sizes = [full]
        for part in sorted(set(self.parts) - {1.0}, reverse=True):
            limit = max(1, round(part * full["passages"]))
            smaller = apart(build, self.passages, index, limit)
            sizes.append({**smaller, **self._ask(index, few)})
        sizes.reverse()
        fits = {name: line([(size["passages"], size[name]) for size in sizes]) for name in FITTED}
        return {
            "questions": len(questions),
            "sampled": len(few),
            "sizes": sizes,
            "methods": methods,
            "plain_bm25s": plain,
            "fits": fits,
        }

    def _ask(self, index: Path, questions: list[OpenQuestion]) -> dict[str, float]:
        config = dataclasses.replace(self.retriever, method="combined")
        found = apart(ask, index, config, questions, ())
        milliseconds = 1000 * found["cpu_s"] / len(questions)
        return {"question_cpu_ms": milliseconds, "question_mib": found["peak_mib"]}


def read_questions(
    files: Sequence[Path], layout: Layout, skips: ExclusionCounts
) -> list[OpenQuestion]:
    """The questions of some files."""
    questions = [question for file in files for question in READERS[layout](file, skips=skips)]
    if not questions:
        raise InputError(f"--questions: expected questions, found none to use ({skips})")
    return questions


def apart(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function returns that runs in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def build(source: Path, folder: Path, limit: int | None) -> dict[str, Any]:
    """Store and both indices: seconds of each, memory and size on disk."""
    from hardem_jax.retrieval.articles import build_article_index
    from hardem_jax.retrieval.passages import build_passage_index
    from hardem_jax.retrieval.retrieve import FORMAT
    from hardem_jax.retrieval.store import build_store

    begin, cpu = time.perf_counter(), time.process_time()
    with new_folder(folder, format=FORMAT, replace=True) as new:
        store = build_store(source, new / "store", skips=ExclusionCounts(), limit=limit)
        stored = time.perf_counter()
        build_article_index(store, new / "articles")
        by_article = time.perf_counter()
        build_passage_index(store, new / "bm25")
        end = time.perf_counter()
        write_json(new / "meta.json", {"format": FORMAT, "content": store.content})
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        "passages": len(store),
        "articles": store.num_articles,
        "store_s": stored - begin,
        "articles_s": by_article - stored,
        "bm25_s": end - by_article,
        "build_s": end - begin,
        "build_cpu_s": time.process_time() - cpu,
        "build_mib": peak_mib(),
        "disk_mib": sum(file.stat().st_size for file in files) / 2**20,
    }


def ask(
    folder: Path, config: RetrieverConfig, questions: list[OpenQuestion], ranks: Sequence[int]
) -> dict[str, Any]:
    """Seconds, memory and recall of a retriever.

    Opening the indices counts, but not among ``cpu_s``; recall does not.
    """
    from hardem_jax.retrieval.retrieve import Retriever

    begin = time.perf_counter()
    retriever = Retriever(folder, config)
    cpu = time.process_time()
    found = list(retriever(questions))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    peak = peak_mib()
    ranked = [result.passages for result in found] if ranks else []
    recall = recall_of(retriever.store, questions, ranked, ranks)
    return {"seconds": seconds, "cpu_s": cpu, "peak_mib": peak, "recall": recall}


def ask_plain(
    folder: Path, questions: list[OpenQuestion], k: int, ranks: Sequence[int]
) -> dict[str, Any]:
    """bm25s with its own tokenizer, stop words and parameters, over title and text."""
    import bm25s

    store = PassageStore(folder / "store")
    begin = time.perf_counter()
    corpus = bm25s.tokenize(list(store.titled_texts()), show_progress=False)
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    built = time.perf_counter()
    asked = bm25s.tokenize([question.question for question in questions], show_progress=False)
    options: dict[str, Any] = {"backend_selection": "numpy", "show_progress": False}
    ranked = list(index.retrieve(asked, k=min(k, len(store)), **options)[0])
    end = time.perf_counter()
    peak = peak_mib()
    recall = recall_of(store, questions, ranked, ranks)
    return {"build_s": built - begin, "seconds": end - built, "peak_mib": peak, "recall": recall}


def recall_of(
    store: PassageStore,
    questions: Sequence[OpenQuestion],
    ranked: Sequence[np.ndarray],
    ranks: Sequence[int],
) -> dict[int, float]:
    """Recall at some ranks of passages by number."""
    counts = RecallCounts(max(ranks, default=1))
    for question, passages in zip(questions, ranked, strict=bool(ranks)):
        texts = (store.text(int(number)) for number in passages[: max(ranks)])
        counts.add(question.answers, texts)
    return {rank: counts.at(rank) for rank in ranks}


def line(points: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The straight line through some points (least squares), and its value for Wikipedia.

    Lines are put through CPU seconds, which what else the machine does changes least.

    Example:
        >>> fit = line([(1000, 3.0), (2000, 5.0), (4000, 9.0)])
        >>> round(fit["fixed"], 6), round(1000 * fit["per_passage"], 6)
        (1.0, 2.0)
    """
    x, y = np.array(points, np.float64).T
    if len(x) == 1:
        slope, start = float(y[0] / x[0]), 0.0
    else:
        slope, start = np.polyfit(x, y, 1).tolist()
    worst = float(np.max(np.abs(start + slope * x - y)))
    return {
        "fixed": start,
        "per_passage": slope,
        "largest_residual": worst,
        "wikipedia": start + slope * WIKIPEDIA,
    }


def show(content: dict[str, Any], skips: ExclusionCounts) -> None:
    """Two tables and the machine."""
    console = wide_console()
    console.print(skips, highlight=False, markup=False)
    console.print(recall_table(content))
    console.print(size_table(content))
    full, plain = content["sizes"][-1], content["plain_bm25s"]
    for method, found in content["methods"].items():
        console.print(
            f"{method}: indices and {content['questions']} questions in "
            f"{full['build_s'] + found['seconds']:.1f} s, plain bm25s in "
            f"{plain['build_s'] + plain['seconds']:.1f} s",
            highlight=False,
        )
    console.print(machine_line(content["machine"]), highlight=False)


def recall_table(content: dict[str, Any]) -> Table:
    """A row for each method, and for bm25s by itself."""
    table = Table(title=f"{content['questions']} questions")
    ranks = list(content["plain_bm25s"]["recall"])
    for name in ("retriever", *(f"recall@{n} %" for n in ranks), "s", "questions/s", "MiB"):
        table.add_column(name, justify="left" if name == "retriever" else "right")
    for name, found in {**content["methods"], "bm25s, defaults": content["plain_bm25s"]}.items():
        shares = (f"{100 * found['recall'][n]:.1f}" for n in ranks)
        speed = f"{content['questions'] / found['seconds']:.0f}"
        table.add_row(name, *shares, f"{found['seconds']:.1f}", speed, f"{found['peak_mib']:.0f}")
    return table


def size_table(content: dict[str, Any]) -> Table:
    """A row for each size, and one for all of Wikipedia by the fitted lines."""
    table = Table(title="by number of passages")
    for name in ("passages", *FITTED.values()):
        table.add_column(name, justify="right")
    for size in content["sizes"]:
        table.add_row(str(size["passages"]), *(f"{size[name]:.1f}" for name in FITTED))
    table.add_section()
    fits = [content["fits"][name] for name in FITTED]
    table.add_row("per 1000", *(f"{1000 * fit['per_passage']:.3f}" for fit in fits))
    table.add_row(f"{WIKIPEDIA}, by the line", *(f"{fit['wikipedia']:.0f}" for fit in fits))
    return table


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Retrieval, prog="python -m experiments.benchmark.retrieval", argv=argv)


if __name__ == "__main__":
    main()
