"""The data sets of documents that can be built.

=====================  =====================================================================
`TriviaQA`             ``qa/wikipedia-{split}.json`` and ``evidence/`` of the release
`NarrativeQA`          ``qaps.csv`` and ``third_party/`` of the repository
`NQOpen`,              ``{split}.json`` or ``.jsonl`` (also ``.gz``), with retrieved passages, as
`TriviaQAOpen`         ``python -m experiments.retrieve`` or any other retriever writes them
=====================  =====================================================================
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from hardem_jax.data.data_sets import DataSet, Record, RecordKind, Solver
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.records import RECORDS, SpanSolver, reading_record
from hardem_jax.errors import require
from hardem_jax.spans.readers.dpr import read_contexts
from hardem_jax.spans.readers.narrativeqa import (
    QUESTIONS,
    SUMMARIES,
    add_rouge_mentions,
    read_narrativeqa,
)
from hardem_jax.spans.readers.triviaqa import read_triviaqa
from hardem_jax.spans.solutions import RougeRules

_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


@dataclasses.dataclass(frozen=True)
class RougeSolver(Solver):
    """Spans that resemble the answer (section 4.1, NarrativeQA)."""

    rules: RougeRules = RougeRules()
    kind: ClassVar[RecordKind] = RECORDS

    def records(self, examples: Sequence[ReadingExample]) -> Iterator[Record]:
        return map(reading_record, add_rouge_mentions(examples, self.rules))


@dataclasses.dataclass(frozen=True)
class TriviaQA(DataSet):
    """TriviaQA with all of its evidence (Joshi et al., 2017); Z: every mention of an alias.

    Attributes:
        domain: of the questions; their documents are Wikipedia articles or web pages as well.
    """

    domain: Literal["wikipedia", "web"] = "wikipedia"

    NAME = "hardem_triviaqa"
    HOME = "https://nlp.cs.washington.edu/triviaqa"
    METRIC = "triviaqa"

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return f"qa/{self.domain}-{split}.json", "evidence"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        questions, evidence = (folder / name for name in self.source_names(folder, split))
        return read_triviaqa(questions, evidence, skips=skips)

    @property
    def solver(self) -> Solver:
        return SpanSolver()


@dataclasses.dataclass(frozen=True)
class NarrativeQA(DataSet):
    """NarrativeQA's summaries (Kocisky et al., 2018); Z: the spans nearest to the answers.

    Attributes:
        rules: which spans make up Z.
        lower: summaries and questions in lower case, as in the paper's released conversion.
    """

    rules: RougeRules = RougeRules()
    lower: bool = True

    NAME = "hardem_narrativeqa"
    # "test" is built only if it is named: some copies have no question in it.
    SPLITS = ("train", "valid")
    HOME = "https://github.com/google-deepmind/narrativeqa"
    METRIC = "rouge"

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return QUESTIONS, SUMMARIES

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        return read_narrativeqa(folder, split, skips=skips, lower=self.lower)

    @property
    def solver(self) -> Solver:
        return RougeSolver(self.rules)


@dataclasses.dataclass(frozen=True)
class NQOpen(DataSet):
    """NQ-open with retrieved passages (Lee et al., 2019); Z: every mention of an answer.

    ``train.jsonl``, ``dev.jsonl`` and ``test.jsonl``, or ``.json`` and ``.gz``.

    Attributes:
        train_passages: passages read per training question (paper: 20).
        passages: passages read per other question (paper: 80).
        prepend_title: put the article's title before each passage.
    """

    train_passages: int = 20
    passages: int = 80
    prepend_title: bool = False

    NAME = "hardem_nq_open"
    SPLITS = ("train", "dev", "test")
    HOME = (
        "https://github.com/google-research-datasets/natural-questions, with passages by "
        "`python -m experiments.retrieve`"
    )
    METRIC = "nq_open"

    def __post_init__(self) -> None:
        require(self, "train_passages", "passages", at_least=1)

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        names = [split + ending for ending in _ENDINGS]
        found = [name for name in names if folder is not None and os.path.isfile(folder / name)]
        return (*found[:1],) if found else (names[0],)

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        [name] = self.source_names(folder, split)
        return read_contexts(
            folder / name,
            num_passages=self.train_passages if split == "train" else self.passages,
            skips=skips,
            prepend_title=self.prepend_title,
        )

    @property
    def solver(self) -> Solver:
        return SpanSolver()


@dataclasses.dataclass(frozen=True)
class TriviaQAOpen(NQOpen):
    """TriviaQA's unfiltered questions with retrieved passages; Z: every mention of an alias."""

    NAME = "hardem_triviaqa_open"
    HOME = (
        "https://nlp.cs.washington.edu/triviaqa (unfiltered), with passages by "
        "`python -m experiments.retrieve`"
    )
    METRIC = "squad"


#: Name on the command line -> data set.
DATA_SETS: dict[str, type[DataSet]] = {
    "triviaqa": TriviaQA,
    "narrativeqa": NarrativeQA,
    "triviaqa-open": TriviaQAOpen,
    "nq-open": NQOpen,
}
