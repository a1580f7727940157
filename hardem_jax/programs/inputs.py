"""The inputs of a parser of programs, from prepared questions on tables.

What a batch holds, with R rows, T tokens, W words, C columns (one of them the row number, after
the table's last), F = C * `len(PARTS)` fields, M links, and Z solutions:

===================  ====================  ======================================================
``token_ids``        ``[R, T]`` int32      question and columns, as those of SQLova
``token_type_ids``   ``[R, T]`` int32      1 for columns and for the special token at the end
``where``            ``[R, T]`` bool       real tokens
``words_first``      ``[R, W]`` int32      first token of each word, in T
``headers``          ``[R, C, 2]`` int32   first token of each column and the one after its last
``row_number``       ``[R]`` int32         the column that stands for the row number
``fields_where``     ``[R, F]`` bool       fields with values in the table, of columns that are read
``field_facts``      ``[R, F, 5]`` float   see `field_facts`
``links``            ``[R, M, 4]`` int32   field, operator, first and last word; -1 for no word
``links_where``      ``[R, M]`` bool       links whose words and column are read
``link_facts``       ``[R, M, 4]`` float   see `link_facts`
``shapes_where``     ``[R, S]`` bool       shapes of Z_tot
``solutions``        ``[R, Z, 5]`` int32   programs, see `hardem_jax.programs.distribution`; else -1
``solutions_where``  ``[R, Z]`` bool       real programs
``row_where``        ``[R]`` bool          real rows
===================  ====================  ======================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.data.tokenizer import Encoding, Tokenizer
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.types import OPERATORS, PARTS, ROW_WIDTH, SHAPES
from hardem_jax.tables.layout import QueryInput, TableInputs, empty_batch, fill
from hardem_jax.tables.table import Table

# See `TableInputs._largest`.
_COLUMNS_MULTIPLE, _MULTIPLE = 4, 32
_EQUAL = OPERATORS.index("=")


@dataclasses.dataclass(frozen=True)
class ProgramInput:
    """One input of a parser of programs.

    ``links`` ``[M]`` bool are those whose words and column are read, ``programs`` those of Z that
    use nothing else. ``header_share`` ``[C]`` is the share of each column's tokens in the question.
    """

    layout: QueryInput
    num_columns: int
    num_rows: int
    question: ProgramQuestion
    header_share: np.ndarray
    links: np.ndarray
    programs: np.ndarray
    shapes: Sequence[int]

    @property
    def id(self) -> str:
        return self.question.id


class ProgramInputs(TableInputs[ProgramQuestion, ProgramInput]):
    """Questions as inputs of a parser of programs, by index; the row number is always read."""

    def __init__(
        self,
        questions: Sequence[ProgramQuestion],
        tables: Mapping[str, Table],
        tokenizer: Tokenizer,
        *,
        rules: ProgramRules,
        **limits: int,
    ):
        self._tables, self._shapes = tables, rules.shapes()
        self._layouts: list[tuple[QueryInput, int, int, np.ndarray]] = []
        super().__init__(questions, tables, tokenizer, **limits)

    def _add(
        self,
        question: ProgramQuestion,
        layout: QueryInput,
        encoding: Encoding,
        columns: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, Sequence[int]]:
        shares = np.array([np.isin(ids, encoding.ids).mean() for ids in columns], np.float32)
        num_rows = len(self._tables[question.table_id].rows)
        self._layouts.append((layout, len(columns), num_rows, shares))
        links = _links_read(question, layout, len(columns))
        remain = _programs_read(question, links, layout, len(columns))
        return remain, (len(layout.word_first), len(columns) + 1, len(question.links))

    def __getitem__(self, index):
        index = range(len(self))[index]
        question = self._questions[index]
        layout, num_columns, num_rows, shares = self._layouts[index]
        links = _links_read(question, layout, num_columns)
        programs = question.programs[_programs_read(question, links, layout, num_columns)]
        return ProgramInput(
            layout, num_columns, num_rows, question, shares, links, programs, self._shapes
        )

    def shape(self, num_tokens: int) -> dict[str, int]:
        """W, C and M with room for every input of at most ``num_tokens``, by name."""
        multiples = _MULTIPLE // 4, _COLUMNS_MULTIPLE, _MULTIPLE
        words, columns, links = self._largest(num_tokens, multiples)
        return {"num_words": words, "num_columns": columns, "num_links": links}

    def pad(
        self,
        rows: Sequence[ProgramInput | None],
        num_tokens: int,
        *,
        num_solutions: int,
        pad_id: int,
    ) -> Arrays:
        """A batch, see above; of more than ``num_solutions``, a row holds those `fitting`."""
        shape, count = self.shape(num_tokens), len(rows)
        columns, links = shape["num_columns"], shape["num_links"]
        batch = empty_batch(
            rows, num_tokens, num_solutions=num_solutions, width=ROW_WIDTH, pad_id=pad_id
        )
        batch |= {
            "words_first": np.zeros((count, shape["num_words"]), np.int32),
            "headers": np.zeros((count, columns, 2), np.int32),
            "row_number": np.zeros(count, np.int32),
            "fields_where": np.zeros((count, columns * len(PARTS)), bool),
            "field_facts": np.zeros((count, columns * len(PARTS), 5), np.float32),
            "links": np.zeros((count, links, 4), np.int32),
            "links_where": np.zeros((count, links), bool),
            "link_facts": np.zeros((count, links, 4), np.float32),
            "shapes_where": np.zeros((count, len(SHAPES)), bool),
        }
        for row, item in enumerate(rows):
            if item is not None:
                _fill({name: batch[name][row : row + 1] for name in batch}, item)
        return batch


def field_facts(question: ProgramQuestion, num_rows: int, header_share: np.ndarray) -> np.ndarray:
    """``[F, 5]`` float32: what is known of the fields of a question, F as in ``question.fields``.

    The share of the rows that have a value; the number of distinct values, by that of these rows;
    the share of the column's tokens that are in the question; words of the longest value (up to 5)
    that equals one of the field's, by 5; whether the field is the column's only one. Each is in
    [0, 1], but for the second of a field of "item": it is above 1 if rows have several values.
    """
    code, rows, distinct = question.fields.T
    column = code // len(PARTS)
    equal = question.links[:, 1] == _EQUAL
    words = np.minimum(question.links[:, 3] - question.links[:, 2] + 1, 5) / 5
    longest = np.zeros(max(code.max(initial=0), question.links[:, 0].max(initial=0)) + 1)
    np.maximum.at(longest, question.links[equal, 0], words[equal])
    share = np.append(header_share, 0.0)
    alone = np.bincount(column)[column] == 1 if len(code) else np.zeros(0)
    facts = [rows / max(num_rows, 1), distinct / np.maximum(rows, 1), share[column], longest[code]]
    return np.stack([*facts, alone], axis=1).astype(np.float32)


def link_facts(question: ProgramQuestion, num_rows: int) -> np.ndarray:
    """What is known of a question's links, ``[M, 4]`` float32 in [0, 1], in this order.

    The share of the rows that satisfy the link; whether it is one row; words of the value (up to
    5), by 5; whether no other link of its field and operator has a value that contains this one.
    """
    field, operator, first, last = question.links.astype(np.int64).T
    same = (field[:, None] == field) & (operator[:, None] == operator)
    within = (first[:, None] >= first) & (last[:, None] <= last)
    longer = (last - first)[None] > (last - first)[:, None]
    facts = [
        question.link_rows / max(num_rows, 1),
        question.link_rows == 1,
        np.where(first < 0, 0, np.minimum(last - first + 1, 5) / 5),
        ~(same & within & longer).any(axis=1),
    ]
    return np.stack(facts, axis=1).astype(np.float32)


def _fill(batch: Arrays, item: ProgramInput) -> None:
    row = {name: array[0] for name, array in batch.items()}
    layout, question = item.layout, item.question
    words, links = len(layout.word_first), len(question.links)
    fill(row, layout, item.programs)
    row["words_first"][:words] = layout.question_start + np.maximum(layout.word_first, 0)
    row["headers"][: len(layout.headers)] = layout.headers
    batch["row_number"][0] = item.num_columns
    code = question.fields[:, 0]
    row["fields_where"][code] = _columns_read(code, len(layout.headers), item.num_columns)
    row["field_facts"][code] = field_facts(question, item.num_rows, item.header_share)
    row["links"][:links] = np.where(item.links[:, None], question.links, 0)
    row["links_where"][:links] = item.links
    row["link_facts"][:links] = link_facts(question, item.num_rows)
    row["shapes_where"][item.shapes] = True


def _columns_read(codes: np.ndarray, num_read: int, num_columns: int) -> np.ndarray:
    """Which fields are of columns that are read, or of the row number."""
    column = codes // len(PARTS)
    return (column < num_read) | (column == num_columns)


def _links_read(question: ProgramQuestion, layout: QueryInput, num_columns: int) -> np.ndarray:
    """``[M]`` bool: links whose column and words are read."""
    there = np.zeros(len(question.words) + 1, bool)
    there[: len(layout.word_first)] = layout.word_first >= 0
    there[-1] = True  # links without words have -1
    field, _, first, last = question.links.T
    return _columns_read(field, len(layout.headers), num_columns) & there[first] & there[last]


def _programs_read(
    question: ProgramQuestion, links: np.ndarray, layout: QueryInput, num_columns: int
) -> np.ndarray:
    """``[Z]`` bool: programs whose fields and links are read."""
    fields, chosen = question.programs[:, 1:3], question.programs[:, 3:]
    read = _columns_read(fields, len(layout.headers), num_columns)
    known = np.append(links, True)  # for -1
    # -1 is no field, and no column that is cut.
    return np.logical_and.reduce(np.concatenate([read, known[chosen]], axis=1), axis=1)
