"""The inputs of SQLova (Hwang et al., 2019, section 3.1), from prepared questions on tables.

What a batch holds, with R rows, T tokens, Q tokens of the question, W words, C columns of H
tokens each, and Z solutions:

===================  =====================  =====================================================
``token_ids``        ``[R, T]`` int32       [CLS] question [SEP] column [SEP] ... column [SEP], or
                                            the tokenizer's special tokens instead
``token_type_ids``   ``[R, T]`` int32       1 for columns and for the special token at the end
``where``            ``[R, T]`` bool        real tokens
``question_tokens``  ``[R, Q]`` int32       positions of the question's tokens in T
``question_where``   ``[R, Q]`` bool        real tokens of the question
``words_first``      ``[R, W]`` int32       first token of each word, in Q
``words_where``      ``[R, W]`` bool        words that are read
``header_tokens``    ``[R, C, H]`` int32    positions of the columns' tokens in T
``header_where``     ``[R, C, H]`` bool     real tokens of the columns
``columns_where``    ``[R, C]`` bool        real columns
``solutions``        ``[R, Z, 15]`` int32   queries, see `hardem_jax.queries.distribution`; else -1
``solutions_where``  ``[R, Z]`` bool        real queries
``row_where``        ``[R]`` bool           real rows
===================  =====================  =====================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.data.tokenizer import Encoding, Tokenizer
from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.solutions.types import ROW_WIDTH
from hardem_jax.tables.layout import QueryInput, TableInputs, empty_batch, fill
from hardem_jax.tables.table import Table

# See `TableInputs._largest`.
_MULTIPLE = 8


class QueryInputs(TableInputs[QueryQuestion, QueryInput]):
    """Questions as inputs of SQLova, by index."""

    def __init__(
        self,
        questions: Sequence[QueryQuestion],
        tables: Mapping[str, Table],
        tokenizer: Tokenizer,
        **limits: int,
    ):
        self._inputs: list[QueryInput] = []
        # Of questions that lost some of Z, which queries remain.
        self._remaining: dict[int, np.ndarray] = {}
        super().__init__(questions, tables, tokenizer, **limits)

    def _add(
        self,
        question: QueryQuestion,
        layout: QueryInput,
        encoding: Encoding,
        columns: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, Sequence[int]]:
        words, headers = len(question.words), layout.headers
        remain = remaining_queries(question.queries, layout.word_first, words, len(headers))
        if not remain.all():
            self._remaining[len(self._inputs)] = remain
        self._inputs.append(layout)
        longest = np.diff(headers).max(initial=0)
        return remain, (layout.num_question_tokens, len(layout.word_first), len(headers), longest)

    def __getitem__(self, index):
        index = range(len(self))[index]
        queries = self._questions[index].queries
        if index in self._remaining:
            queries = queries[self._remaining[index]]
        return dataclasses.replace(self._inputs[index], queries=queries)

    def shape(self, num_tokens: int) -> dict[str, int]:
        """Q, W, C and H with room for every input of at most ``num_tokens``, by name."""
        question, words, columns, header = self._largest(num_tokens, _MULTIPLE)
        return {
            "num_question_tokens": question,
            "num_words": words,
            "num_columns": columns,
            "num_header_tokens": min(header, self.max_header_tokens),
        }

    def pad(
        self, rows: Sequence[QueryInput | None], num_tokens: int, *, num_solutions: int, pad_id: int
    ) -> Arrays:
        """A batch, see above; of more than ``num_solutions``, a row holds those `fitting`."""
        shape, count = self.shape(num_tokens), len(rows)
        question, words = shape["num_question_tokens"], shape["num_words"]
        headers = count, shape["num_columns"], shape["num_header_tokens"]
        batch = empty_batch(
            rows, num_tokens, num_solutions=num_solutions, width=ROW_WIDTH, pad_id=pad_id
        )
        batch |= {
            "question_tokens": np.zeros((count, question), np.int32),
            "question_where": np.zeros((count, question), bool),
            "words_first": np.zeros((count, words), np.int32),
            "words_where": np.zeros((count, words), bool),
            "header_tokens": np.zeros(headers, np.int32),
            "header_where": np.zeros(headers, bool),
            "columns_where": np.zeros(headers[:2], bool),
        }
        for row, item in enumerate(rows):
            if item is not None:
                _fill({name: batch[name][row] for name in batch}, item)
        return batch


def _fill(row: Arrays, item: QueryInput) -> None:
    fill(row, item, item.queries)
    asked, words, columns = item.num_question_tokens, len(item.word_first), len(item.headers)
    row["question_tokens"][:asked] = item.question_tokens
    row["question_where"][:asked] = True
    row["words_first"][:words] = np.maximum(item.word_first, 0)
    row["words_where"][:words] = item.word_first >= 0
    # [C, H]
    places = item.headers[:, :1] + np.arange(row["header_tokens"].shape[1])
    inside = places < item.headers[:, 1:]
    row["header_tokens"][:columns] = np.where(inside, places, 0)
    row["header_where"][:columns] = inside
    row["columns_where"][:columns] = True


def remaining_queries(
    queries: np.ndarray, word_first: np.ndarray, num_words: int, num_columns: int
) -> np.ndarray:
    """``[Z]`` bool: which queries use only words and columns that are in the input."""
    columns, first, last = (queries[:, field::4] for field in (3, 5, 6))
    # Unused conditions have words -1, that is, the True at the end.
    there = np.zeros(num_words + 1, bool)
    there[: len(word_first)] = word_first >= 0
    there[-1] = True
    conditions = (columns < num_columns) & there[first] & there[last]
    return (queries[:, 0] < num_columns) & conditions.all(axis=1)
