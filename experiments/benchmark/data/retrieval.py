"""Speed, memory and recall of retrieval: ``python -m experiments.benchmark.data.retrieval --help``.

Indexes a passage file in four sizes, retrieves passages for the questions from each, and sets
next to it plain BM25 with the defaults of the library bm25s. Every figure comes from a process of
its own, so that peak memory is that of this step only. Straight lines through the sizes say
what all of Wikipedia (21 million passages) would take.

Without questions, it measures what building takes in memory, by the size of shards and of the
collection, which may be repeated to be larger::

    python -m experiments.benchmark.data.retrieval --passages psgs_w100.tsv.gz --copies 12 \
        --shard-passages 20000 60000 120000 250000 --parts 0.25 0.5 1.0
"""

import concurrent.futures
import dataclasses
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from experiments.report import Report, table
from hardem_jax.cli.command import peak_mib, run_command
from hardem_jax.data.examples import OpenQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.readers.nq_open import read_nq_open
from hardem_jax.errors import InputError, require
from hardem_jax.extras import MissingPackageError

try:
    from hardem_jax.retrieval.config import SHARD_PASSAGES, Method, RetrieverConfig
    from hardem_jax.retrieval.passage_files import read_passages
    from hardem_jax.retrieval.recall import RecallCounts
    from hardem_jax.retrieval.store import PassageStore
except MissingPackageError as error:
    raise SystemExit(f"error: {error}") from None

# What indexes and retrieves imports bm25s, scipy and jax: in the processes that do it, before they
# look at the clock.

WIKIPEDIA = 21_015_324
METHODS: tuple[Method, ...] = ("combined", "articles", "bm25")
RANKS = (1, 5, 20, 80)
PASSAGES = RetrieverConfig().passages
# Questions, about, that are asked of each size.
SAMPLE = 500
# Figures that a straight line is put through: name in the file, unit, name in the table.
FITTED = {
    "build_cpu_s": "CPU s to build",
    "disk_mib": "MiB on disk",
    "question_cpu_ms": "CPU ms a question (combined)",
    "question_mib": "MiB at most, retrieving",
}


@dataclasses.dataclass(frozen=True)
class Retrieval:
    """Measure how long indexing and retrieving take, and how good the passages are.

    Attributes:
        passages: passage file, see ``experiments.retrieve``.
        questions: files of questions in NQ-open's layout, taken together; without any, only the
            memory that building takes is measured.
        parts: sizes to measure, as shares of the passages; the largest must be 1.
        shard_passages: sizes of shards to measure without questions, each in the collections that
            have at least two of them; with questions, the first.
        copies: without questions, how often to repeat the passages, with other ids, titles and
            orders of words and with new words.
        out: write the figures here, as JSON.
    """

    passages: Path
    questions: tuple[Path, ...] = ()
    parts: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0)
    shard_passages: tuple[int, ...] = (SHARD_PASSAGES,)
    copies: int = 1
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "parts", above=0, at_most=1)
        require(self, "shard_passages", "copies", at_least=1)
        if 1 not in self.parts or len(set(self.parts)) < 2:
            raise InputError(f"parts: expected several shares up to 1.0, found {self.parts}")
        if not self.shard_passages:
            raise InputError("--shard-passages: expected numbers, found none")
        if self.questions and (self.copies, len(self.shard_passages)) != (1, 1):
            raise InputError("--questions: expected one size of shards and no copies")

    def run(self) -> None:
        if not self.questions:
            return self._run_memory()
        report, skips = Report(self, self.out), ExclusionCounts()
        questions = [q for file in self.questions for q in read_nq_open(file, skips=skips)]
        if not questions:
            raise InputError(f"--questions: expected questions, found none to use ({skips})")
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            content = self._measure(Path(name) / "index", questions)
        content |= {"questions": len(questions), "warnings": skips.warnings_as_dict()}
        full, plain = content["sizes"][-1], content["plain_bm25s"]
        lines = [
            f"{method}: indices and {len(questions)} questions in "
            f"{full['build_s'] + found['seconds']:.1f} s, plain bm25s in "
            f"{plain['build_s'] + plain['seconds']:.1f} s"
            for method, found in content["methods"].items()
        ]
        report.write(content, str(skips), *tables_of(content), *lines)

    def _run_memory(self) -> None:
        """Measure building only, by the size of shards and of the collection."""
        report = Report(self, self.out)
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            source, index = self.passages, Path(name) / "index"
            if self.copies > 1:
                source = write_copies(source, Path(name) / "copies.jsonl", self.copies)
            total = sum(1 for _ in read_passages(source, skips=ExclusionCounts()))
            sizes = sorted(max(1, round(part * total)) for part in set(self.parts))
            builds = [
                {"shard_passages": shard} | apart(build, source, index, size, shard)
                for shard in sorted(set(self.shard_passages))
                for size in sizes
                if size >= 2 * shard
            ]
        if len(builds) < 3:
            raise InputError(
                f"--shard-passages: expected shards of at most half the sizes {sizes}, found "
                f"{len(builds)} builds with such, too few for a fit"
            )
        content = {"builds": builds, "fit": plane(builds)}
        report.write(content, *memory_tables(content))

    def _measure(self, index: Path, questions: list[OpenQuestion]) -> dict[str, Any]:
        few = questions[:: max(1, len(questions) // SAMPLE)]

        def measured(limit: int | None) -> dict[str, Any]:
            """One size: the index, and a sample of the questions."""
            built = apart(build, self.passages, index, limit, self.shard_passages[0])
            found = apart(ask, index, "combined", few, ())
            milliseconds = 1000 * found["cpu_s"] / len(few)
            asked = {"question_cpu_ms": milliseconds, "question_mib": found["peak_mib"]}
            return built | asked

        # The full size first: how many passages there are is not known before.
        sizes = [measured(None)]
        methods = {method: apart(ask, index, method, questions, RANKS) for method in METHODS}
        plain = apart(ask_plain, index, questions)
        for part in sorted(set(self.parts) - {1.0}, reverse=True):
            sizes.append(measured(max(1, round(part * sizes[0]["passages"]))))
        sizes.reverse()
        fits = {name: line([(size["passages"], size[name]) for size in sizes]) for name in FITTED}
        return {
            "sampled": len(few),
            "sizes": sizes,
            "methods": methods,
            "plain_bm25s": plain,
            "fits": fits,
        }


def write_copies(source: Path, file: Path, copies: int) -> Path:
    """Writes a larger collection: the passages, repeated as different ones.

    All of Wikipedia has 6.5 passages of a title and 0.25 terms per passage (in Lucene's index of
    it), so four copies share their titles, and every fourth copied passage has a new word.
    """
    shuffled = random.Random(0)
    with file.open("w", encoding="utf-8") as out:
        for copy in range(copies):
            passages = read_passages(source, skips=ExclusionCounts())
            for number, passage in enumerate(passages):
                title, words = passage.title, passage.text.split()
                if copy:
                    shuffled.shuffle(words)
                    words += [f"new{copy}x{number}"] * (number % 4 == 0)
                    title += f" {copy // 4}" * bool(title and copy // 4)
                row = {"id": f"{passage.id}-{copy}", "title": title, "text": " ".join(words)}
                out.write(json.dumps(row) + "\n")
    return file


def apart(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function returns that runs in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def build(source: Path, folder: Path, limit: int | None, shard_passages: int) -> dict[str, Any]:
    """Store and both indices: seconds, memory and size on disk."""
    from hardem_jax.retrieval.retrieve import build_indices

    begin, cpu = time.perf_counter(), time.process_time()
    options: dict[str, Any] = {"limit": limit, "shard_passages": shard_passages, "replace": True}
    store = build_indices(source, folder, skips=ExclusionCounts(), **options)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        "passages": len(store),
        "articles": store.num_articles,
        "build_s": seconds,
        "build_cpu_s": cpu,
        "build_mib": peak_mib(),
        "disk_mib": sum(file.stat().st_size for file in files) / 2**20,
    }


def ask(
    folder: Path, method: Method, questions: list[OpenQuestion], ranks: Sequence[int]
) -> dict[str, Any]:
    """Seconds, memory and recall of a retriever.

    Opening the indices counts, but not among ``cpu_s``; recall does not.
    """
    from hardem_jax.retrieval.retrieve import Retriever

    begin = time.perf_counter()
    retriever = Retriever(folder, RetrieverConfig(method=method))
    cpu = time.process_time()
    found = list(retriever(questions))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    peak = peak_mib()
    ranked = [result.passages for result in found] if ranks else []
    recall = recall_of(retriever.store, questions, ranked, ranks)
    return {"seconds": seconds, "cpu_s": cpu, "peak_mib": peak, "recall": recall}


def ask_plain(folder: Path, questions: list[OpenQuestion]) -> dict[str, Any]:
    """bm25s with its own tokenizer, stop words and parameters, over title and text."""
    import bm25s

    store = PassageStore(folder / "store")
    begin = time.perf_counter()
    texts = [f"{title}\n{text}" for title, text in store.titles_and_texts()]
    corpus = bm25s.tokenize(texts, show_progress=False)
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    built = time.perf_counter()
    asked = bm25s.tokenize([question.question for question in questions], show_progress=False)
    options: dict[str, Any] = {"backend_selection": "numpy", "show_progress": False}
    ranked = list(index.retrieve(asked, k=min(PASSAGES, len(store)), **options)[0])
    end = time.perf_counter()
    peak = peak_mib()
    recall = recall_of(store, questions, ranked, RANKS)
    return {"build_s": built - begin, "seconds": end - built, "peak_mib": peak, "recall": recall}


def recall_of(
    store: PassageStore,
    questions: Sequence[OpenQuestion],
    ranked: Sequence[np.ndarray],
    ranks: Sequence[int],
) -> dict[str, float]:
    """Recall at some ranks of passages by number."""
    counts = RecallCounts(max(ranks, default=1))
    for question, passages in zip(questions, ranked, strict=bool(ranks)):
        texts = (store.text(int(number)) for number in passages[: max(ranks)])
        counts.add(question.answers, texts)
    return {str(rank): counts.at(rank) for rank in ranks}


def line(points: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The straight line through some points (least squares), and its value for Wikipedia.

    Lines are put through CPU seconds, which what else the machine does changes least.

    Example:
        >>> fit = line([(1000, 3.0), (2000, 5.0), (4000, 9.0)])
        >>> round(fit["fixed"], 6), round(1000 * fit["per_passage"], 6)
        (1.0, 2.0)
    """
    x, y = np.array(points, np.float64).T
    slope, start = np.polyfit(x, y, 1).tolist()
    return {
        "fixed": start,
        "per_passage": slope,
        "largest_residual": float(np.max(np.abs(start + slope * x - y))),
        "wikipedia": start + slope * WIKIPEDIA,
    }


def plane(builds: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Peak memory as a fixed part, one per passage of a shard and one per passage (least squares).

    ``wikipedia`` is its value for Wikipedia and shards of the default size.

    Example:
        >>> sizes = [(10, 100), (10, 200), (20, 200), (20, 400)]
        >>> peaks = [{"shard_passages": s, "passages": n, "build_mib": 5 + 3 * s + n / 2}
        ...          for s, n in sizes]
        >>> fit = plane(peaks)
        >>> round(fit["fixed"], 6), round(fit["per_shard_passage"], 6), round(fit["per_passage"], 6)
        (5.0, 3.0, 0.5)
    """
    x = np.array([(1, made["shard_passages"], made["passages"]) for made in builds], np.float64)
    y = np.array([made["build_mib"] for made in builds])
    fit = np.linalg.lstsq(x, y)[0]
    return {
        "fixed": float(fit[0]),
        "per_shard_passage": float(fit[1]),
        "per_passage": float(fit[2]),
        "largest_residual": float(np.max(np.abs(x @ fit - y))),
        "wikipedia": float(fit @ (1, SHARD_PASSAGES, WIKIPEDIA)),
    }


def memory_tables(content: dict[str, Any]) -> tuple[Table, Table]:
    """What building took, and the plane through peak memory."""
    built = table(
        "building",
        content["builds"],
        {
            "passages of a shard": ("shard_passages", 1, 0),
            "passages": ("passages", 1, 0),
            "articles": ("articles", 1, 0),
            "MiB at most": ("build_mib", 1, 0),
            "CPU s": ("build_cpu_s", 1, 1),
            "MiB on disk": ("disk_mib", 1, 0),
        },
    )
    fitted = table(
        "MiB at most, building",
        [content["fit"]],
        {
            "fixed": ("fixed", 1, 0),
            "per 1000 of a shard": ("per_shard_passage", 1000, 3),
            "per 1000": ("per_passage", 1000, 4),
            "largest residual": ("largest_residual", 1, 0),
            f"{WIKIPEDIA}, in shards of {SHARD_PASSAGES}": ("wikipedia", 1, 0),
        },
    )
    return built, fitted


def tables_of(content: dict[str, Any]) -> tuple[Table, Table]:
    """Recall by retriever; figures by size, and what the fitted lines say."""
    asked = content["questions"]
    columns = {
        "retriever": "retriever",
        **{f"recall@{rank} %": (str(rank), 100, 1) for rank in RANKS},
        "s": ("seconds", 1, 1),
        "questions/s": ("speed", 1, 0),
        "MiB": ("peak_mib", 1, 0),
    }
    methods = {**content["methods"], "bm25s, defaults": content["plain_bm25s"]}
    recall: list[dict[str, Any]] = [
        {"retriever": name, "speed": asked / found["seconds"], **found, **found["recall"]}
        for name, found in methods.items()
    ]
    sizes = [{**size, "passages": str(size["passages"])} for size in content["sizes"]]
    for title, figure, scale in (
        ("fixed", "fixed", 1),
        ("per 1000", "per_passage", 1000),
        ("largest residual", "largest_residual", 1),
        (f"{WIKIPEDIA}, by the line", "wikipedia", 1),
    ):
        fits = {name: scale * fit[figure] for name, fit in content["fits"].items()}
        sizes.append({"passages": title, **fits})
    by_size = {"passages": "passages"} | {title: (name, 1, 3) for name, title in FITTED.items()}
    return table(f"{asked} questions", recall, columns), table("by size", sizes, by_size)


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Retrieval, prog="python -m experiments.benchmark.data.retrieval", argv=argv)


if __name__ == "__main__":
    main()
