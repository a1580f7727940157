"""The builders of texts, one class for each data set; `data.build_options` has their options.

=====================  =====================================================================
`TriviaQA`             ``qa/wikipedia-{split}.json`` and ``evidence/`` of the release
`NarrativeQA`          ``qaps.csv`` and ``third_party/`` of the repository
`NQOpen`,              ``{split}.json`` or ``.jsonl`` (also ``.gz``), with retrieved passages, as
`TriviaQAOpen`         ``python -m experiments.retrieve`` or any other retriever writes them
`DropNum`              ``drop_dataset_{split}.json``
=====================  =====================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.build_options import (
    DropNumOptions,
    NarrativeQAOptions,
    NQOpenOptions,
    OpenOptions,
    TriviaQAOpenOptions,
    TriviaQAOptions,
)
from hardem_jax.data.builders.base import SolutionBuilder
from hardem_jax.data.builders.solvers import (
    EquationSolver,
    RougeSolver,
    Solver,
    SpanSolver,
)
from hardem_jax.data.builders.sources import Release
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.readers.dpr import read_contexts
from hardem_jax.data.readers.drop import read_drop
from hardem_jax.data.readers.narrativeqa import QUESTIONS, SUMMARIES, read_narrativeqa
from hardem_jax.data.readers.triviaqa import read_triviaqa

_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


class TriviaQA(SolutionBuilder):
    """TriviaQA with all of its evidence (Joshi et al., 2017); Z: every mention of an alias."""

    name = "hardem_triviaqa"
    OPTIONS = TriviaQAOptions
    RELEASE = Release(
        "https://nlp.cs.washington.edu/triviaqa",
        "http://nlp.cs.washington.edu/triviaqa/data/triviaqa-rc.tar.gz",
    )
    METRIC = "triviaqa"
    options: TriviaQAOptions

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return f"qa/{self.options.domain}-{split}.json", "evidence"

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        questions, evidence = (folder / name for name in self.source_names(folder, split))
        return read_triviaqa(questions, evidence, skips=skips)

    @property
    def solver(self) -> Solver:
        return SpanSolver()


class NarrativeQA(SolutionBuilder):
    """NarrativeQA's summaries (Kocisky et al., 2018); Z: the spans nearest to the answers."""

    name = "hardem_narrativeqa"
    OPTIONS = NarrativeQAOptions
    # "test" is built only if it is named: some copies have no question in it.
    SPLITS = ("train", "valid")
    RELEASE = Release("https://github.com/google-deepmind/narrativeqa")
    METRIC = "rouge"
    options: NarrativeQAOptions

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return QUESTIONS, SUMMARIES

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        return read_narrativeqa(folder, split, skips=skips, lower=self.options.lower)

    @property
    def solver(self) -> Solver:
        return RougeSolver(self.options.rules)


class NQOpen(SolutionBuilder):
    """NQ-open with retrieved passages (Lee et al., 2019); Z: every mention of an answer."""

    name = "hardem_nq_open"
    OPTIONS = NQOpenOptions
    SPLITS = ("train", "dev", "test")
    RELEASE = Release(
        "https://github.com/google-research-datasets/natural-questions, with passages by "
        "`python -m experiments.retrieve`"
    )
    METRIC = "nq_open"
    options: OpenOptions

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        names = [split + ending for ending in _ENDINGS]
        found = [name for name in names if folder is not None and os.path.isfile(folder / name)]
        return (*found[:1],) if found else (names[0],)

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        [name] = self.source_names(folder, split)
        options = self.options
        return read_contexts(
            folder / name,
            num_passages=options.train_passages if split == "train" else options.passages,
            skips=skips,
            prepend_title=options.prepend_title,
        )

    @property
    def solver(self) -> Solver:
        return SpanSolver()


class TriviaQAOpen(NQOpen):
    """TriviaQA's unfiltered questions with retrieved passages; Z: every mention of an alias."""

    name = "hardem_triviaqa_open"
    OPTIONS = TriviaQAOpenOptions
    RELEASE = Release(
        "https://nlp.cs.washington.edu/triviaqa (unfiltered), with passages by "
        "`python -m experiments.retrieve`"
    )
    METRIC = "squad"


class DropNum(SolutionBuilder):
    """The questions of DROP whose answer is a number (Dua et al., 2019); Z: equations."""

    name = "hardem_drop_num"
    OPTIONS = DropNumOptions
    RELEASE = Release(
        "https://allenai.org/data/drop",
        "https://s3-us-west-2.amazonaws.com/allennlp/datasets/drop/drop_dataset.zip",
        "drop_dataset",
    )
    options: DropNumOptions

    def source_names(self, folder: Path | None, split: str) -> tuple[str, ...]:
        return (f"drop_dataset_{split}.json",)

    def read(self, folder: Path, split: str, skips: ExclusionCounts) -> Iterator[Any]:
        [name] = self.source_names(folder, split)
        options = self.options
        return read_drop(
            folder / name, skips=skips, max_words=options.max_words, numbers=options.numbers
        )

    @property
    def solver(self) -> Solver:
        return EquationSolver(self.options.numbers, self.options.rules)
