"""Retrieves passages for open-domain questions: ``python -m experiments.retrieve --help``.

Indexes a passage file (DPR's TSV or JSON) and writes, for each file of questions, one with their
passages, which ``experiments.nq_open`` and ``experiments.triviaqa_open`` read::

    python -m experiments.retrieve index --passages psgs_w100.tsv.gz --out index
    python -m experiments.retrieve retrieve --index index --questions NQ-open.train.jsonl \
        --out train.jsonl --retriever.passages 20
    python -m experiments.retrieve retrieve --index index --questions NQ-open.dev.jsonl \
        --out dev.jsonl --retriever.passages 80

``--retriever.method articles`` ranks only passages of the 50 best articles, as in Min et al.
(2019), ``bm25`` all passages without articles; ``--layout triviaqa`` reads TriviaQA questions.
Output files of other retrievers (DPR, FiD) can be used directly, without this command. Runs in the
layout of TREC, as Pyserini writes them, name passages by id; ``join`` adds their texts::

    python -m experiments.retrieve join --ranking run.trec --passages psgs_w100.tsv.gz \
        --questions NQ-open.dev.jsonl --lines-from 0 --out dev.jsonl
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from hardem_jax.cli.command import peak_mib, run_command
from hardem_jax.data.exclusions import NO_DOCUMENT, ExclusionCounts
from hardem_jax.data.files import check_writable, file_digest, make_out, write_json
from hardem_jax.documents.examples import OpenQuestion, Passage
from hardem_jax.documents.mentions import AliasMatcher, mentions_any
from hardem_jax.errors import InputError, MissingPackageError, printable, require
from hardem_jax.progress import counted
from hardem_jax.settings import to_json
from hardem_jax.spans.readers.dpr import write_contexts
from hardem_jax.spans.readers.open_questions import read_nq_open
from hardem_jax.spans.readers.triviaqa import read_triviaqa_questions
from hardem_jax.words import split_words

try:
    from hardem_jax.retrieval.config import ArticleConfig, PassageConfig, RetrieverConfig
    from hardem_jax.retrieval.files import Ranking, read_passages, read_run
except MissingPackageError as error:
    raise SystemExit(f"error: {error}") from None

Layout = Literal["nq_open", "triviaqa"]
READERS: dict[Layout, Callable[..., Iterator[OpenQuestion]]] = {
    "nq_open": read_nq_open,
    "triviaqa": read_triviaqa_questions,
}
#: Reason of `ExclusionCounts`, for questions left out.
NOT_IN_RUN = "question not in the run"
RANKS = (1, 5, 10, 20, 40, 80, 100, 200, 500, 1000)


@dataclasses.dataclass(frozen=True)
class Index:
    """Index the passages of a file and their articles; the terms of all of them are in memory.

    Attributes:
        passages: file in DPR's layout (header, `id`, `text`, `title`; ``.tsv`` or ``.tsv.gz``),
            or JSON lines or a list, if named ``.jsonl`` or ``.json``, in Pyserini's layout too.
        out: output folder.
        articles: options of the article index.
        bm25: options of the passage index.
        force: replace the index in ``out``; the disk must hold both until the new one is complete.
    """

    passages: Path
    out: Path
    articles: ArticleConfig = ArticleConfig()
    bm25: PassageConfig = PassageConfig()
    force: bool = False

    def run(self) -> None:
        from hardem_jax.retrieval.index import build_index  # imports bm25s and scipy

        skips, begin = ExclusionCounts(), time.perf_counter()
        index = build_index(
            self.passages,
            self.out,
            skips=skips,
            articles=self.articles,
            passages=self.bm25,
            replace=self.force,
        )
        seconds = time.perf_counter() - begin
        print(skips)
        print(f"{len(index)} passages of {index.num_articles} articles")
        print(f"indexed in {seconds:.1f} s; peak memory {peak_mib():.0f} MiB")


@dataclasses.dataclass(frozen=True)
class Retrieve:
    """Retrieve passages for every question of a file and report how often they mention the answer.

    Attributes:
        index: folder written by ``index``.
        questions: file of questions.
        out: output file: a JSON list if named ``.json``, else JSON lines; compressed if ``.gz``. It
            also lists unusable questions, which `evaluate` scores as 0.
        layout: layout of `questions`; "nq_open" also reads DPR's ``.csv`` and ``.tsv``.
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
        from hardem_jax.retrieval.index import PassageIndex

        if self.report is not None:
            check_writable(self.report)
        index, skips = PassageIndex(self.index), ExclusionCounts()
        read = READERS[self.layout](self.questions, skips=skips, require_answers=self.answers)
        results = _Results(self.questions, self.retriever.passages, skips)
        begin = time.perf_counter()
        found = (
            (asked, index.retrieve(asked.question, self.retriever))
            for asked in counted(read, "questions")
        )
        count = write_contexts(self.out, results.rows(found), left_out=skips)
        seconds = time.perf_counter() - begin
        content = {
            "flags": to_json(self),
            "index": {"passages": index.meta["content"]},
            "source": {self.questions.name: file_digest(self.questions)},
            "questions": count,
            "answered": results.answered,
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
        results.show()
        if results.unmatched:
            print(f"{results.unmatched} questions share no term with any passage")
        print(
            f"{content['passages_per_question']:.1f} of {len(index)} passages per "
            f"question; {count / seconds:.1f} questions/s; peak memory {peak_mib():.0f} MiB"
        )


@dataclasses.dataclass(frozen=True)
class Join:
    """Add the texts of passages to a run of another retriever, which names them by id.

    A question that the run does not have, or none of whose passages is in the file, is listed as
    left out. The passages are read once, and those that the run does not name take no memory.

    Attributes:
        ranking: the run, in the layout of TREC (``question Q0 passage rank score tag``), as
            Pyserini writes it, or of Pyserini's JSON.
        questions: file of questions.
        passages: the passages that were ranked, as for ``index``.
        out: output file, as of ``retrieve``.
        layout: layout of `questions`, as for ``retrieve``.
        lines_from: the run's ids of questions count the questions of the file from 0 or from 1,
            as those of Pyserini's topics do; None if they are the questions' own.
        top: the best passages of each question.
        answers: leave out questions without an answer; --no-answers keeps them, for prediction.
    """

    ranking: Path
    questions: Path
    passages: Path
    out: Path
    layout: Layout = "nq_open"
    lines_from: Literal[0, 1] | None = None
    top: int = 100
    answers: bool = True

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)

    def run(self) -> None:
        make_out(self.out.parent)
        check_writable(self.out)
        run = read_run(self.ranking, top=self.top)
        skips = ExclusionCounts()
        asked = self._asked(run, skips)
        named = {id: None for key, _ in asked for id, _ in run[key]}
        lost = ExclusionCounts()
        read = read_passages(self.passages, skips=lost, only=named)
        texts = {passage.id: (passage.title, passage.text) for passage in counted(read, "passages")}
        missing = [id for id in named if id not in texts]
        what = f"passages that {self.ranking.name} names"
        if missing and not texts:
            expected = f"expected {what}, such as {_few(missing)}"
            raise InputError(f"{self.passages}: {expected}, found none of {len(named)}")
        if missing:
            count = f"{len(missing)} of {len(named)}"
            print(f"{count} {what} are not in {self.passages.name}: {_few(missing)}")
        if lost.total:
            print(f"{self.passages.name}: {lost.one_line()}")
        found = (
            (question, [Passage(id, *texts[id], score) for id, score in run[key] if id in texts])
            for key, question in asked
        )
        results = _Results(self.questions, self.top, skips)
        write_contexts(self.out, results.rows(found), left_out=skips)
        results.show()

    def _asked(
        self, run: Mapping[str, Ranking], skips: ExclusionCounts
    ) -> list[tuple[str, OpenQuestion]]:
        """The questions of the run, each after the id that it gives them; others are skipped. An id
        that the file repeats stands for each of its questions."""
        asked: list[tuple[str, OpenQuestion]] = []
        absent: list[tuple[str, OpenQuestion]] = []
        read = READERS[self.layout](self.questions, skips=skips, require_answers=self.answers)
        for count, question in enumerate(read):
            # Those left out have a place in the file, too.
            place = (self.lines_from or 0) + count + len(skips.left_out)
            key = question.id if self.lines_from is None else str(place)
            (asked if key in run else absent).append((key, question))
        if not asked:
            raise InputError(
                f"{self.ranking}: expected the ids of questions in {self.questions}, found "
                f"{next(iter(run))!r} and others (--lines-from 0 or 1 if they count its questions)"
            )
        ids = {key for key, _ in (*asked, *absent)} | {id for id, _ in skips.left_out}
        if (first := self.lines_from) is not None:
            end = first + len(asked) + len(absent) + len(skips.left_out)
            ids = set(map(str, range(first, end)))
        if unknown := [id for id in run if id not in ids]:
            what = f"{len(unknown)} of {len(run)} questions of {self.ranking.name}"
            print(f"{what} are not in {self.questions.name}: {_few(unknown)}")
        for _, question in absent:
            skips.add(NOT_IN_RUN, question.id)
        return asked


def _few(ids: Sequence[str]) -> str:
    return ", ".join(map(printable, ids[:3])) + ", ..." * (len(ids) > 3)


class _Results:
    """Counts statistics of questions and their passages on the way. A passage mentions an answer if
    its words are in it. Z takes a little more ("1,000" for "1000"), so 1 - recall@n is at least the
    share of questions without a solution in the first n passages."""

    def __init__(self, file: Path, depth: int, skips: ExclusionCounts):
        self._file, self._depth, self._skips = file, depth, skips
        #: Questions by the first rank, from 0, whose passage mentions an answer; last: none does.
        self._first = np.zeros(depth + 1, np.int64)
        self.questions = self.unmatched = self.passages = 0

    def rows(
        self, found: Iterable[tuple[OpenQuestion, list[Passage]]]
    ) -> Iterator[tuple[OpenQuestion, list[Passage]]]:
        for question, passages in found:
            if not passages:
                self._skips.add(NO_DOCUMENT, question.id)
                continue
            self.passages += len(passages)
            self.unmatched += not (passages[0].score or 0) > 0
            if question.answers:
                matcher = AliasMatcher(question.answers)
                hits = [mentions_any(split_words(passage.text), matcher) for passage in passages]
                self._first[hits.index(True) if True in hits else -1] += 1
                pairs = zip(passages, hits, strict=True)
                passages = [dataclasses.replace(passage, has_answer=hit) for passage, hit in pairs]
            self.questions += 1
            yield question, passages
        if not self.questions:  # raised here, before the output file gets its name
            raise InputError(f"{self._file}: expected questions, found none that can be used")

    @property
    def answered(self) -> int:
        """Questions whose answers are known, over which recall is."""
        return int(self._first.sum())

    def recall_table(self) -> dict[int, float]:
        ranks = sorted({rank for rank in RANKS if rank <= self._depth} | {self._depth})
        answered = self.answered
        return {n: float(self._first[:n].sum()) / answered for n in ranks} if answered else {}

    def show(self) -> None:
        print(self._skips)
        if recall := self.recall_table():
            asked = f"{self.answered} questions with known answers"
            print(f"{asked}: share with one in the top n passages")
            print(*(f"n = {n}: {100 * share:.1f} %" for n, share in recall.items()), sep="   ")


COMMANDS = {"index": Index, "retrieve": Retrieve, "join": Join}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.retrieve")
