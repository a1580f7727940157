"""Puts a question and the columns of its table into one input, and cuts what does not fit.

`hardem_jax.queries.inputs` and `hardem_jax.programs.inputs` make batches of these inputs.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from hardem_jax.data.batching.padding import Arrays, fitting
from hardem_jax.data.tokenizer import Encoding, PairTemplate, Tokenizer
from hardem_jax.errors import InputError
from hardem_jax.tables.table import Table

Question = TypeVar("Question")
Input = TypeVar("Input")


@dataclasses.dataclass(frozen=True)
class QueryInput:
    """One input of SQLova or of the parser of programs, which reads no ``queries``.

    ``[T]`` tokens, from ``question_start`` on those of the question; the first of them of each
    word, ``[W]`` int32, -1 for words without any (words after the last one that is read are left
    out); first token of each column and the one after its last, ``[C, 2]`` int32; and ``[Z, 15]``
    int16 queries, those of Z whose words and columns were all read.
    """

    id: str
    token_ids: np.ndarray
    num_question_tokens: int
    word_first: np.ndarray
    headers: np.ndarray
    queries: np.ndarray
    question_start: int = 1

    @property
    def question_tokens(self) -> np.ndarray:
        """``[Q]`` int32, positions of the question's tokens in T."""
        return self.question_start + np.arange(self.num_question_tokens, dtype=np.int32)

    @property
    def token_type_ids(self) -> np.ndarray:
        """``[T]`` int32, 1 for columns and for what follows the last of them ([SEP])."""
        types = np.zeros(len(self.token_ids), np.int32)
        for start, end in self.headers:
            types[start:end] = 1
        types[self.headers[-1, 1] if len(self.headers) else len(types) :] = 1
        return types


class TableInputs(Sequence[Input], Generic[Question, Input]):
    """Questions and the columns of their tables as inputs of a model, by index.

    All texts are tokenised at once; Z stays where the questions are and is read with each input.

    Long columns are cut to ``max_header_tokens``. If the input is still too long, one token at a
    time is removed from the longest column (the last one if several are equally long), until every
    column has one token left; then the question is cut at its end, down to half of ``max_tokens``;
    then the last columns are left out. Solutions that use what was left out are left out of Z. The
    paper has 180 tokens (Min et al., 2019, section 5.3), SQLova 222.

    ``sizes`` ``[N, 2]`` int32 are tokens and solutions of each; ``cut_headers``, ``cut_questions``
    and ``cut_columns`` count questions with shortened columns, that were cut, and without some
    columns; ``lost`` those whose whole Z was left out.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        tables: Mapping[str, Table],
        tokenizer: Tokenizer,
        *,
        max_tokens: int = 180,
        max_header_tokens: int = 24,
    ):
        self.max_header_tokens = max_header_tokens
        template = tokenizer.template
        limits = max_tokens, max_header_tokens
        least = ("max_tokens", least_max_tokens(template)), ("max_header_tokens", 1)
        for (name, at_least), limit in zip(least, limits, strict=True):
            if limit < at_least:
                raise InputError(f"{name}: expected at least {at_least}, found {limit}")
        if not len(questions):
            raise InputError("data: expected questions, found none")
        self._questions = questions
        self.cut_headers = self.cut_questions = self.cut_columns = self.lost = 0
        sizes, extents = [], []
        for asked, encoding, columns in encode_questions(questions, tables, tokenizer):
            lengths = np.array([len(ids) for ids in columns], np.int64)
            read, kept = cut_lengths(len(encoding.ids), lengths, *limits, template=template)
            self.cut_headers += bool((kept < lengths[: len(kept)]).any())
            self.cut_questions += read < len(encoding.ids)
            self.cut_columns += len(kept) < len(lengths)
            layout = lay_out(asked, encoding, read, columns, kept, tokenizer)
            remain, extent = self._add(asked, layout, encoding, columns)
            self.lost += bool(len(remain) and not remain.any())
            sizes.append((len(layout.token_ids), int(remain.sum())))
            extents.append(extent)
        self.sizes = np.array(sizes, np.int32)
        self._extents = np.array(extents)

    @abc.abstractmethod
    def _add(
        self,
        question: Question,
        layout: QueryInput,
        encoding: Encoding,
        columns: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, Sequence[int]]:
        """Keeps an input: which of Z, ``[Z]`` bool, use only what is read; sizes for `_largest`."""

    @abc.abstractmethod
    def pad(
        self, rows: Sequence[Input | None], num_tokens: int, *, num_solutions: int, pad_id: int
    ) -> Arrays:
        """A batch of ``num_tokens`` tokens of some of these inputs; None is a row of padding."""

    def __len__(self) -> int:
        return len(self.sizes)

    def _largest(self, num_tokens: int, multiples: int | Sequence[int]) -> list[int]:
        """Sizes with room for every input of at most ``num_tokens``, rounded up to multiples.
        Splits share rounded sizes more often, and with them compiled functions. A bucket has sizes
        of its own, so that the widest table widens only the batches that are as long as it is."""
        inside = self._extents[self.sizes[:, 0] <= num_tokens].max(axis=0, initial=1)
        return (-(-inside // multiples) * multiples).tolist()


def empty_batch(
    inputs: Sequence[Any], num_tokens: int, *, num_solutions: int, width: int, pad_id: int
) -> Arrays:
    """What the batches of both parsers have, before `fill`; None is a row of padding."""
    rows = len(inputs)
    return {
        "token_ids": np.full((rows, num_tokens), pad_id, np.int32),
        "token_type_ids": np.zeros((rows, num_tokens), np.int32),
        "where": np.zeros((rows, num_tokens), bool),
        "solutions": np.full((rows, num_solutions, width), -1, np.int32),
        "solutions_where": np.zeros((rows, num_solutions), bool),
        "row_where": np.array([item is not None for item in inputs], bool),
    }


def fill(row: Arrays, layout: QueryInput, solutions: np.ndarray) -> None:
    """Fills in tokens, and the solutions that are `fitting`."""
    length = len(layout.token_ids)
    row["token_ids"][:length] = layout.token_ids
    row["token_type_ids"][:length] = layout.token_type_ids
    row["where"][:length] = True
    kept = fitting(layout.id, len(solutions), len(row["solutions"]))
    row["solutions"][: len(kept)] = solutions[kept]
    row["solutions_where"][: len(kept)] = True


def encode_questions(
    questions: Sequence[Any], tables: Mapping[str, Table], tokenizer: Tokenizer
) -> Iterator[tuple[Any, Encoding, list[np.ndarray]]]:
    """Each question with its tokens and those of each column, at least one each."""
    texts = [question.question for question in questions]
    headers = {id: tables[id].header for id in dict.fromkeys(q.table_id for q in questions)}
    names = list(dict.fromkeys(itertools.chain.from_iterable(headers.values())))
    # Read in place of a text without tokens, so that there is something to represent it.
    unknown = Encoding(np.array([tokenizer.unknown_id], np.int32), np.zeros((1, 2), np.int32))
    encodings = [found if len(found.ids) else unknown for found in tokenizer.encode(texts)]
    read = zip(names, tokenizer.encode(names), strict=True)
    header_ids = {name: found.ids if len(found.ids) else unknown.ids for name, found in read}
    # Read a second time, so that memory never holds Z of all questions.
    for question, asked in zip(questions, encodings, strict=True):
        yield question, asked, [header_ids[name] for name in headers[question.table_id]]


def lay_out(
    question: Any,
    encoding: Encoding,
    read: int,
    columns: Sequence[np.ndarray],
    lengths: np.ndarray,
    tokenizer: Tokenizer,
) -> QueryInput:
    """The input of a question, without its Z. ``read`` is how many of its tokens are read,
    ``lengths`` how many of each of the first columns."""
    template = tokenizer.template
    # The last columns may be left out.
    headers = [ids[:length] for ids, length in zip(columns, lengths, strict=False)]
    starts = template.second_start(read) + np.cumsum(lengths + len(template.after))
    starts = starts - lengths - len(template.after)
    first, _ = pieces_of_words(question.words, encoding.offsets, read)
    return QueryInput(
        id=question.id,
        token_ids=template.join(encoding.ids[:read], *headers),
        num_question_tokens=read,
        word_first=first,
        headers=np.stack([starts, starts + lengths], axis=1).astype(np.int32),
        queries=np.zeros((0, 0), np.int16),
        question_start=len(template.before),
    )


def cut_lengths(
    question: int,
    headers: np.ndarray,
    max_tokens: int,
    max_header_tokens: int,
    *,
    template: PairTemplate,
) -> tuple[int, np.ndarray]:
    """Numbers of tokens that are read of the question and of each column, see `TableInputs`."""
    lengths = np.minimum(headers, max_header_tokens)
    after = len(template.after)  # of every column
    room = max_tokens - template.second_start(question) - after * len(lengths)
    lengths = shorten(lengths, room)
    excess = max(0, int(lengths.sum()) - room)
    read = max(question - excess, min(question, max_tokens // 2))
    if excess > question - read:  # every column has one token by now, and what follows it
        lengths = lengths[: (max_tokens - template.second_start(read)) // (1 + after)]
    return read, lengths


def least_max_tokens(template: PairTemplate) -> int:
    """The smallest ``max_tokens`` at which `cut_lengths` always leaves a column."""
    return 2 * (template.num_special_tokens + 1)


def shorten(lengths: np.ndarray, room: int) -> np.ndarray:
    """Takes 1 from the largest (the last if tied) until the sum is ``room`` or all are 1."""
    levels = np.arange(1, lengths.max(initial=1) + 1)
    sums = np.minimum(lengths, levels[:, None]).sum(axis=1)
    level = levels[max(0, int(np.searchsorted(sums, room, side="right")) - 1)]
    shortened = np.minimum(lengths, level)
    spare = max(0, room - int(shortened.sum()))
    shortened[np.flatnonzero(lengths > level)[:spare]] += 1
    return shortened


def pieces_of_words(
    words: np.ndarray, offsets: np.ndarray, read: int
) -> tuple[np.ndarray, np.ndarray]:
    """First and last token of each word, ``[W]`` int32 each, if all of them are read; else -1.

    A token may belong to several words: tokenizers do not cut at every sign, nor within what they
    do not know. Some words have no token (tokenizers drop control characters). Words after the last
    one that is read are left out. Words and tokens are given as characters, ascending.
    """
    first = np.searchsorted(offsets[:, 1], words[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], words[:, 1], side="left") - 1
    there = (first <= last) & (last < read)
    count = int(np.flatnonzero(there).max(initial=-1)) + 1
    first, last = (np.where(there, place, -1)[:count] for place in (first, last))
    return first.astype(np.int32), last.astype(np.int32)


#: Tokens of a header in the benchmark.
COLUMN_PIECES = 3


def question_and_headers(tokens: int) -> tuple[int, np.ndarray]:
    """Of a row of the benchmark: words of a question, a third of it; first token of each header."""
    words, width = tokens // 3, 1 + COLUMN_PIECES  # and [SEP]
    begin = words + 2  # [CLS] question [SEP]
    return words, begin + width * np.arange(max(1, (tokens - begin) // width))
