"""What can be chosen for each data set of `data.builders`, without importing TFDS."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import require
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.solutions.programs.rules import ProgramRules
from hardem_jax.solutions.rouge.search import RougeRules
from hardem_jax.solutions.sql.enumeration import SqlRules


@dataclasses.dataclass(frozen=True)
class TriviaQAOptions:
    """Options of TriviaQA.

    Attributes:
        domain: of the questions; their documents are Wikipedia articles or web pages as well.
    """

    domain: Literal["wikipedia", "web"] = "wikipedia"


@dataclasses.dataclass(frozen=True)
class NarrativeQAOptions:
    """Options of NarrativeQA.

    Attributes:
        rules: which spans make up Z.
        lower: summaries and questions in lower case, as in the paper's released conversion.
    """

    rules: RougeRules = RougeRules()
    lower: bool = True


@dataclasses.dataclass(frozen=True)
class OpenOptions:
    """Questions with passages: ``train.jsonl``, ``dev.jsonl``, ``test.jsonl`` in the folder.

    ``python -m experiments.retrieve`` writes them, as do other retrievers; ``.json`` and ``.gz``
    are read as well.

    Attributes:
        train_passages: passages read per training question (paper: 20).
        passages: passages read per other question (paper: 80).
        prepend_title: put the article's title before each passage.
    """

    train_passages: int = 20
    passages: int = 80
    prepend_title: bool = False

    def __post_init__(self) -> None:
        require(self, "train_passages", "passages", at_least=1)


@dataclasses.dataclass(frozen=True)
class NQOpenOptions(OpenOptions):
    __doc__ = OpenOptions.__doc__


@dataclasses.dataclass(frozen=True)
class TriviaQAOpenOptions(OpenOptions):
    __doc__ = OpenOptions.__doc__


@dataclasses.dataclass(frozen=True)
class DropNumOptions:
    """Options of DROP_num.

    Attributes:
        max_words: longer passages are cut (paper: 400); None for no limit.
        numbers: what counts as a number.
        rules: what counts as an equation.
    """

    max_words: int | None = 400
    numbers: NumberConfig = NumberConfig()
    rules: EquationRules = EquationRules()

    def __post_init__(self) -> None:
        require(self, "max_words", at_least=1)


@dataclasses.dataclass(frozen=True)
class TableQuestionsOptions:
    """Options of questions on your own tables: ``train.jsonl``, ``dev.jsonl``, ``test.jsonl``.

    Attributes:
        rules: what counts as a query.
        layout: of the questions; "csv" reads ``train.csv`` or ``train.tsv`` and so on.
    """

    rules: SqlRules = SqlRules(cap=4096)
    layout: Literal["jsonl", "csv"] = "jsonl"


@dataclasses.dataclass(frozen=True)
class TableProgramsOptions:
    """Options of questions on your own tables with programs as Z.

    Attributes:
        rules: what counts as a program.
        layout: as in `TableQuestionsOptions`.
    """

    rules: ProgramRules = ProgramRules()
    layout: Literal["jsonl", "csv"] = "jsonl"


@dataclasses.dataclass(frozen=True)
class WikiSQLOptions:
    """Options of WikiSQL.

    Attributes:
        rules: what counts as a query.
        supervised: make the annotated query all of Z: full supervision, to compare with.
    """

    rules: SqlRules = SqlRules(cap=4096)
    supervised: bool = False


@dataclasses.dataclass(frozen=True)
class WikiTableQuestionsOptions:
    """Options of WikiTableQuestions.

    Attributes:
        rules: what counts as a query.
        number: number of the random split, 1 to 5; "test" is the unseen tables.
        tagged: read numbers and dates of the answers from the release's ``.tagged`` files.
    """

    rules: SqlRules = SqlRules(cap=4096)
    number: int = 1
    tagged: bool = False

    def __post_init__(self) -> None:
        require(self, "number", at_least=1, at_most=5)


@dataclasses.dataclass(frozen=True)
class WikiTableProgramsOptions:
    """Options of WikiTableQuestions with programs as Z.

    Attributes:
        rules: what counts as a program.
        number, tagged: as in `WikiTableQuestionsOptions`.
    """

    rules: ProgramRules = ProgramRules()
    number: int = 1
    tagged: bool = False

    def __post_init__(self) -> None:
        require(self, "number", at_least=1, at_most=5)
