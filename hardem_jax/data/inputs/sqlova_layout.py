"""How a question and the columns of its table lie in one input, and what is left of them and of Z.

`hardem_jax.data.inputs.sqlova` makes batches of these inputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hardem_jax.data.examples import QueryQuestion
from hardem_jax.data.tokenizer import Pieces, Wordpieces
from hardem_jax.solutions.sql.enumeration import ROW_WIDTH

# [CLS] question [SEP], and a [SEP] after each column.
NUM_SPECIAL_TOKENS = 2


@dataclasses.dataclass(frozen=True)
class QueryInput:
    """One input of SQLova.

    Attributes:
        id: of the question.
        token_ids: ``[T]`` int32.
        num_question_tokens: Q; the question's wordpieces are the tokens from position 1 on.
        word_first: ``[W]`` int32, first wordpiece of each word, counted among the question's; -1
            for words without any. Words behind the last one that is read are not there.
        headers: ``[C, 2]`` int32, first token of each column and the one behind its last.
        queries: ``[Z, 15]`` int16, those of Z whose words and columns are all there.
    """

    id: str
    token_ids: np.ndarray
    num_question_tokens: int
    word_first: np.ndarray
    headers: np.ndarray
    queries: np.ndarray

    @property
    def question_tokens(self) -> np.ndarray:
        """``[Q]`` int32, where the question's wordpieces are in T."""
        return np.arange(1, 1 + self.num_question_tokens, dtype=np.int32)

    @property
    def token_type_ids(self) -> np.ndarray:
        """``[T]`` int32, 1 for columns and for the [SEP] behind the last of them."""
        types = np.zeros(len(self.token_ids), np.int32)
        for start, end in self.headers:
            types[start:end] = 1
        if len(self.headers):
            types[-1] = 1
        return types


def lay_out(
    question: QueryQuestion,
    pieces: Pieces,
    read: int,
    columns: Sequence[np.ndarray],
    lengths: np.ndarray,
    tokenizer: Wordpieces,
) -> QueryInput:
    """The input of a question, without its Z.

    Args:
        question: whose words are looked for.
        pieces: of the whole question.
        read: how many of them are read.
        columns: wordpieces of every column, whole.
        lengths: ``[C]`` int, how many of each are read, from the first column on.
        tokenizer: of the pieces.
    """
    cls, sep = [tokenizer.cls_id], [tokenizer.sep_id]
    parts = [cls, pieces.ids[:read], sep]
    for ids, length in zip(columns, lengths, strict=False):  # the last columns may be left out
        parts += [ids[:length], sep]
    ends = read + NUM_SPECIAL_TOKENS + np.cumsum(lengths + 1) - 1
    first, _ = pieces_of_words(question.words, pieces.offsets, read)
    return QueryInput(
        id=question.id,
        token_ids=np.concatenate(parts).astype(np.int32),
        num_question_tokens=read,
        word_first=first,
        headers=np.stack([ends - lengths, ends], axis=1).astype(np.int32),
        queries=np.zeros((0, ROW_WIDTH), np.int16),
    )


def cut_lengths(
    question: int, headers: np.ndarray, max_tokens: int, max_header_tokens: int
) -> tuple[int, np.ndarray]:
    """How many wordpieces of the question and of each column are read.

    The longest columns are shortened first, then the question down to half of the input, then the
    last columns are left out.

    Args:
        question: number of its wordpieces.
        headers: ``[C]`` int, number of wordpieces of each column, at least 1.
        max_tokens: of the input, at least 8.
        max_header_tokens: of a column.

    Returns:
        The question's and, for the columns that are read, ``[C]`` int.

    Example:
        >>> for max_tokens in (20, 17, 14, 12):
        ...     print(*cut_lengths(7, np.array([3, 1, 5]), max_tokens, max_header_tokens=4))
        7 [3 1 4]
        7 [2 1 2]
        7 [1 1]
        6 [1 1]
    """
    lengths = np.minimum(headers, max_header_tokens)
    room = max_tokens - NUM_SPECIAL_TOKENS - question - len(lengths)
    lengths = shorten(lengths, room)
    excess = max(0, int(lengths.sum()) - room)
    read = max(question - excess, min(question, max_tokens // 2))
    if excess > question - read:  # every column has one piece by now, and its [SEP]
        lengths = lengths[: (max_tokens - NUM_SPECIAL_TOKENS - read) // 2]
    return read, lengths


def shorten(lengths: np.ndarray, room: int) -> np.ndarray:
    """Take 1 from the largest, of equals from the last, until the sum is ``room`` or all are 1.

    Args:
        lengths: ``[C]`` int, at least 1.
        room: any number.

    Example:
        >>> shorten(np.array([2, 6, 5, 6]), 13)
        array([2, 4, 4, 3])
    """
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
    """First and last of the wordpieces that each word consists of, if all of them are read.

    A piece may be of several words: tokenizers do not cut at every sign, nor within what they
    do not know.

    Args:
        words: ``[W, 2]`` int, characters of each word, ascending.
        offsets: ``[Q, 2]`` int, characters of each piece, ascending.
        read: number of pieces that are read.

    Returns:
        Twice ``[W]`` int32; -1 for words without pieces (tokenizers drop control characters). Words
        behind the last one that is read are not there.

    Example:
        >>> words, offsets = [[0, 4], [4, 5], [6, 7], [8, 9]], [[0, 2], [2, 4], [6, 7], [8, 9]]
        >>> pieces_of_words(np.array(words), np.array(offsets), 3)
        (array([ 0, -1,  2], dtype=int32), array([ 1, -1,  2], dtype=int32))
    """
    first = np.searchsorted(offsets[:, 1], words[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], words[:, 1], side="left") - 1
    there = (first <= last) & (last < read)
    count = int(np.flatnonzero(there).max(initial=-1)) + 1
    first, last = (np.where(there, place, -1)[:count] for place in (first, last))
    return first.astype(np.int32), last.astype(np.int32)


def remaining_queries(
    queries: np.ndarray, word_first: np.ndarray, num_words: int, num_columns: int
) -> np.ndarray:
    """Which queries use nothing that is not in the input.

    Args:
        queries: ``[Z, 15]`` int, see `hardem_jax.solutions.sql.Query.from_row`.
        word_first: from `pieces_of_words`.
        num_words: of the whole question.
        num_columns: in the input.

    Returns:
        ``[Z]`` bool.

    Example:
        >>> queries = np.array([[0, 3, 0] + [-1] * 12, [0, 3, 1, 1, 0, 2, 2] + [-1] * 8])
        >>> remaining_queries(queries, np.array([0, 1]), 3, 2)
        array([ True, False])
    """
    columns, first, last = (queries[:, field::4] for field in (3, 5, 6))
    # Places that are not used have words -1, that is, the True at the end.
    there = np.zeros(num_words + 1, bool)
    there[: len(word_first)] = word_first >= 0
    there[-1] = True
    conditions = (columns < num_columns) & there[first] & there[last]
    return (queries[:, 0] < num_columns) & conditions.all(axis=1)
