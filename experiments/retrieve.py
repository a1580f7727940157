"""Retrieves passages for open-domain questions: ``python -m experiments.retrieve --help``.

Indexes a passage file (DPR's TSV or JSON lines) and writes, for each file of questions, one with
their passages, which ``experiments.nq_open`` and ``experiments.triviaqa_open`` read::

    python -m experiments.retrieve index --passages psgs_w100.tsv.gz --out index
    python -m experiments.retrieve retrieve --index index --questions NQ-open.train.jsonl \
        --out train.jsonl --retriever.passages 20
    python -m experiments.retrieve retrieve --index index --questions NQ-open.dev.jsonl \
        --out dev.jsonl --retriever.passages 80

``--retriever.method articles`` ranks only passages of the 50 best articles, as in Min et al.
(2019), ``bm25`` all passages without articles; ``--layout triviaqa`` reads TriviaQA questions.
Output files of other retrievers (DPR, FiD) can be used directly, without this command.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table

from hardem_jax.cli.command import flags, peak_mib, run_command
from hardem_jax.data.examples import OpenQuestion, Passage
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import check_writable, file_digest, write_json
from hardem_jax.data.readers.dpr import read_context_questions, write_contexts
from hardem_jax.data.readers.nq_open import read_nq_open
from hardem_jax.data.readers.triviaqa import read_triviaqa_questions
from hardem_jax.errors import InputError, require
from hardem_jax.retrieval.config import ArticleConfig, PassageConfig, RetrieverConfig
from hardem_jax.retrieval.progress import counted
from hardem_jax.retrieval.recall import RecallCounts

if TYPE_CHECKING:
    from hardem_jax.retrieval.retrieve import Retriever

Layout = Literal["nq_open", "triviaqa", "contexts"]
READERS: dict[Layout, Callable[..., Iterator[OpenQuestion]]] = {
    "nq_open": read_nq_open,
    "triviaqa": read_triviaqa_questions,
    "contexts": read_context_questions,
}
RANKS = (1, 5, 10, 20, 40, 80, 100, 200, 500, 1000)


@dataclasses.dataclass(frozen=True)
class Index:
    """Store the passages of a file and index them and their articles.

    Attributes:
        passages: file in DPR's layout (header, `id`, `text`, `title`; ``.tsv`` or ``.tsv.gz``),
            or JSON lines.
        out: output folder.
        articles: options of the article index.
        bm25: options of the passage index.
        max_characters: skip and count longer passages.
        limit: use only the first n passages.
        force: replace the index in ``out``; the disk must hold both until the new one is complete.
    """

    passages: Path
    out: Path
    articles: ArticleConfig = ArticleConfig()
    bm25: PassageConfig = PassageConfig()
    max_characters: int = 1_000_000
    limit: int | None = None
    force: bool = False

    def __post_init__(self) -> None:
        require(self, "max_characters", "limit", at_least=1)

    def run(self) -> None:
        from hardem_jax.retrieval.retrieve import build_indices  # imports bm25s and scipy

        skips, begin = ExclusionCounts(), time.perf_counter()
        store = build_indices(
            self.passages,
            self.out,
            skips=skips,
            articles=self.articles,
            passages=self.bm25,
            max_characters=self.max_characters,
            limit=self.limit,
            replace=self.force,
        )
        seconds = time.perf_counter() - begin
        print(skips)
        print(f"{len(store)} passages of {store.num_articles} articles")
        print(f"indexed in {seconds:.1f} s; peak memory {peak_mib():.0f} MiB")


@dataclasses.dataclass(frozen=True)
class Retrieve:
    """Retrieve passages for every question of a file and report how often they mention the answer.

    Attributes:
        index: folder written by ``index``.
        questions: file of questions.
        out: output file: a JSON list if named ``.json``, else JSON lines; compressed if ``.gz``. It
            also lists unusable questions, which `evaluate` scores as 0.
        layout: layout of `questions`; "contexts" reads a file in the layout of `out` and ignores
            its passages.
        retriever: what to retrieve.
        answers: leave out questions without an answer; --no-answers keeps them, for prediction.
        report: write recall, counts and settings to this JSON file.
    """

    index: Path
    questions: Path
    out: Path
    layout: Layout = "nq_open"
    retriever: RetrieverConfig = RetrieverConfig()
    answers: bool = True
    report: Path | None = None

    def run(self) -> None:
        from hardem_jax.retrieval.retrieve import Retriever

        if self.report is not None:
            check_writable(self.report)
        retriever, skips = Retriever(self.index, self.retriever), ExclusionCounts()
        read = READERS[self.layout]
        questions = read(self.questions, skips=skips, require_answers=self.answers)
        results = _Results(self.questions, retriever, RecallCounts(self.retriever.passages))
        begin = time.perf_counter()
        rows = results.rows(counted(questions, "questions"))
        count = write_contexts(self.out, rows, left_out=skips)
        seconds = time.perf_counter() - begin
        content = {
            "flags": flags(self),
            "index": {"passages": retriever.store.content},
            "source": {self.questions.name: file_digest(self.questions)},
            "questions": count,
            "left_out": skips.as_dict(),
            "warnings": skips.warnings_as_dict(),
            "without_common_term": results.unmatched,
            "passages_per_question": results.passages / count,
            "recall": results.recall_table(),
            "seconds": seconds,
            "peak_mib": peak_mib(),
        }
        if self.report is not None:
            write_json(self.report, content)
        _show(content, skips, len(retriever.store))


class _Results:
    """Retrieves the passages of questions and counts statistics on the way."""

    def __init__(self, file: Path, retriever: Retriever, recall: RecallCounts):
        self._file, self._retriever, self._recall = file, retriever, recall
        self.questions = self.unmatched = self.passages = 0

    def rows(
        self, questions: Iterator[OpenQuestion]
    ) -> Iterator[tuple[OpenQuestion, list[Passage]]]:
        for question in questions:
            (retrieved,) = self._retriever([question])
            passages = self._retriever.passages(retrieved)
            self.passages += len(passages)
            self.unmatched += not retrieved.scores[0] > 0
            if question.answers:
                texts = (passage.text for passage in passages)
                has_answer = self._recall.add(question.answers, texts)
                passages = [
                    dataclasses.replace(passage, has_answer=has)
                    for passage, has in zip(passages, has_answer, strict=True)
                ]
            self.questions += 1
            yield question, passages
        if not self.questions:  # raised here, before the output file gets its name
            raise InputError(f"{self._file}: expected questions, found none that can be used")

    def recall_table(self) -> dict[int, float]:
        depth = self._retriever.config.passages
        ranks = sorted({rank for rank in RANKS if rank <= depth} | {depth})
        return {rank: self._recall.at(rank) for rank in ranks} if self._recall.questions else {}


def _show(content: dict[str, Any], skips: ExclusionCounts, passages: int) -> None:
    console = Console(highlight=False)
    console.print(skips, markup=False)
    if content["recall"]:
        table = Table(
            title=f"{content['questions']} questions: share with an answer in the top n passages"
        )
        for rank in content["recall"]:
            table.add_column(f"n = {rank}", justify="right")
        table.add_row(*(f"{100 * share:.1f} %" for share in content["recall"].values()))
        console.print(table)
    if content["without_common_term"]:
        console.print(f"{content['without_common_term']} questions share no term with any passage")
    console.print(
        f"{content['passages_per_question']:.1f} of {passages} passages per question; "
        f"{content['questions'] / content['seconds']:.1f} questions/s; "
        f"peak memory {content['peak_mib']:.0f} MiB"
    )


COMMANDS = {"index": Index, "retrieve": Retrieve}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.retrieve")
