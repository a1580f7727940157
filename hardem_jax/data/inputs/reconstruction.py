"""A query and its question as one text, for a model of P(question | query), a reconstructor.

    [select] [max] [real] no . [where] [text] player [=] <4> <9> [question] who is <4> <9> ? [end]

The query is the prompt: aggregators, operators and types of columns are symbols, columns their
names, values their words. The question is what the model predicts.

**What is copied.** Most words that query and question share are names and numbers seen once, whose
spelling says nothing about the query. They become *slots*, `<4>` above: a word of the question that
some query of Z has in a value, or a column of the table has in its name, is the same slot in query
and question. Slots are drawn anew whenever a text is made, so that a model can only predict one by
finding it in the query. The most common words ("the", "of") stay words, unless they are values.

**What is explained.** All of Z leads to the answer, and most of it holds the same values. Words of
values are therefore a poor sign of the right query: with ``explain="context"`` only the other words
are to be predicted, including names of columns. Which words are values does not depend on the query
but on Z, so that all queries of a question explain the same words. With ``explain="question"`` the
words of values count, too, and a query that lacks one pays for it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from hardem_jax.data.examples import QueryQuestion
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.enumeration import AGGREGATORS, OPERATORS, Table, split_words

#: The words of a question that a query has to explain: all, or those that are in no value of Z.
Explain = Literal["question", "context"]

PAD, UNKNOWN = "[pad]", "[unknown]"
_SYMBOLS = (
    *(PAD, UNKNOWN, "[select]", "[where]", "[and]", "[question]", "[end]", "[text]", "[real]"),
    *(f"[{name or 'cell'}]" for name in AGGREGATORS),
    *(f"[{name}]" for name in OPERATORS),
)
# The longest parts of a text, in words.
_MAX_HEADER, _MAX_VALUE, _MAX_QUESTION = 6, 5, 40
#: Tokens of the longest text.
MAX_TOKENS = (3 + _MAX_HEADER) + 3 * (3 + _MAX_HEADER + _MAX_VALUE) + (_MAX_QUESTION + 2)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of texts: symbols, slots, words.

    Attributes:
        words: known ones, in lower case, most frequent first.
        slots: their number; further words of a question that could be slots stay words.
        common: this many of the most frequent words are never slots, except in values.
    """

    words: tuple[str, ...]
    slots: int = 32
    common: int = 40

    @classmethod
    def of(
        cls,
        questions: Iterable[QueryQuestion],
        tables: Mapping[str, Table],
        *,
        min_count: int = 3,
        slots: int = 32,
    ) -> Vocabulary:
        """The words of questions and columns that occur at least ``min_count`` times."""
        counts = collections.Counter()
        for question in questions:
            counts.update(_words(question.question))
            for name in tables[question.table_id].header:
                counts.update(_words(name))
        kept = (word for word, count in counts.most_common() if count >= min_count)
        return cls(tuple(kept), slots)

    def __len__(self) -> int:
        return len(_SYMBOLS) + self.slots + len(self.words)

    def id(self, token: str) -> int:
        """The id of a symbol or word; that of an unknown word if it has none."""
        return self._ids.get(token, _SYMBOLS.index(UNKNOWN))

    def slot(self, number: int) -> int:
        return len(_SYMBOLS) + number

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Ids as text, for people."""
        slots = (f"<{number}>" for number in range(self.slots))
        known = (*_SYMBOLS, *slots, *self.words)
        return [known[id] for id in ids]

    def is_common(self, word: str) -> bool:
        return word in self._common

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        symbols = {symbol: place for place, symbol in enumerate(_SYMBOLS)}
        first = self.slot(self.slots)
        return {word: first + place for place, word in enumerate(self.words)} | symbols

    @functools.cached_property
    def _common(self) -> frozenset[str]:
        return frozenset(self.words[: self.common])


@dataclasses.dataclass(frozen=True)
class Texts:
    """Queries of one question, each followed by it.

    Attributes:
        tokens: ``[Z, T]`` int32; 0 at padding, which is at the end.
        explained: ``[Z, T]`` bool, tokens whose probability counts.
    """

    tokens: np.ndarray
    explained: np.ndarray

    @property
    def where(self) -> np.ndarray:
        """``[Z, T]`` bool, real tokens."""
        return self.tokens > 0


def texts(
    question: QueryQuestion,
    queries: np.ndarray,
    table: Table,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    *,
    explain: Explain = "context",
) -> Texts:
    """Queries on a table with the question that they are to explain.

    Args:
        question: with all of its Z, whose values become slots.
        queries: ``[Z, 15]`` int, those of it to write.
        table: of the question.
        vocabulary: of the model.
        rng: draws the slots.
        explain: which words count, see the module.

    Raises:
        InputError: there are no queries.

    Example:
        >>> from hardem_jax.data.examples import TableQuestion
        >>> from hardem_jax.data.solve import query_question
        >>> from hardem_jax.solutions.sql.enumeration import SqlRules
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> asked = TableQuestion("q", "Who has 7?", table, ("ann",))
        >>> found = query_question(asked, SqlRules())
        >>> vocabulary = Vocabulary(("who", "?", "has", "player", "no", "."), slots=1)
        >>> made = texts(found, found.queries[:1], table, vocabulary, np.random.default_rng(0))
        >>> " ".join(vocabulary.tokens(made.tokens[0]))
        '[select] [cell] [text] player [where] [real] no . [=] <0> [question] who has <0> ? [end]'
        >>> " ".join(vocabulary.tokens(made.tokens[0][made.explained[0]]))
        'who has ? [end]'
    """
    if not len(queries):
        raise InputError(f"question {question.id}: expected queries to write, found none")
    writer = _Writer(question, table, vocabulary, rng)
    asked = [*writer.question[:_MAX_QUESTION], vocabulary.id("[end]")]
    counts = [*writer.explained(explain)[:_MAX_QUESTION], True]
    prompts = [writer.query(row) for row in queries.tolist()]
    width = max(map(len, prompts)) + len(asked)
    tokens = np.zeros((len(prompts), width), np.int32)
    explained = np.zeros((len(prompts), width), bool)
    for row, prompt in enumerate(prompts):
        end = len(prompt) + len(asked)
        tokens[row, :end] = [*prompt, *asked]
        explained[row, len(prompt) : end] = counts
    return Texts(tokens, explained)


class _Writer:
    """Writes the queries of one question with one draw of its slots."""

    def __init__(
        self,
        question: QueryQuestion,
        table: Table,
        vocabulary: Vocabulary,
        rng: np.random.Generator,
    ):
        self._vocabulary, self._table = vocabulary, table
        text = question.question
        self._words = [text[start:end].lower() for start, end in question.words.tolist()]
        self._values = {self._words[place] for place in _value_places(question.queries)}
        names = {word for name in table.header for word in _words(name)}
        shared = [
            word
            for word in dict.fromkeys(self._words)
            if word in self._values or (word in names and not vocabulary.is_common(word))
        ]
        drawn = rng.permutation(vocabulary.slots)[: len(shared)]
        self._slots = dict(zip(shared, map(vocabulary.slot, drawn.tolist()), strict=False))
        self.question = self._ids(self._words)
        self._columns = [
            [vocabulary.id(f"[{kind}]"), *self._ids(_words(name)[:_MAX_HEADER])]
            for name, kind in zip(table.header, table.types, strict=True)
        ]

    def explained(self, explain: Explain) -> list[bool]:
        """Which words of the question count."""
        return [explain == "question" or word not in self._values for word in self._words]

    def query(self, row: Sequence[int]) -> list[int]:
        """The prompt, up to where the question begins."""
        select, aggregator, count, *rest = row
        symbol = self._vocabulary.id
        written = [symbol("[select]"), symbol(f"[{AGGREGATORS[aggregator] or 'cell'}]")]
        written += self._columns[select]
        for place in range(count):
            column, operator, first, last = rest[4 * place : 4 * place + 4]
            written.append(symbol("[and]" if place else "[where]"))
            written += [*self._columns[column], symbol(f"[{OPERATORS[operator]}]")]
            written += self.question[first : last + 1][:_MAX_VALUE]
        return [*written, symbol("[question]")]

    def _ids(self, words: Iterable[str]) -> list[int]:
        return [self._slots.get(word, self._vocabulary.id(word)) for word in words]


def _words(text: str) -> list[str]:
    return [text[start:end].lower() for start, end in split_words(text).tolist()]


def _value_places(queries: np.ndarray) -> set[int]:
    """The places of all words that are in a value of some query."""
    spans = queries[:, 3:].reshape(-1, 4)[:, 2:]
    spans = np.unique(spans[spans[:, 0] >= 0], axis=0)
    return {place for first, last in spans.tolist() for place in range(first, last + 1)}
