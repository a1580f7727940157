"""Z of a question: all equations that give the answer, all queries or programs of that result."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from hardem_jax.data.examples import (
    NumericExample,
    NumericQuestion,
    ProgramQuestion,
    QueryQuestion,
    TableQuestion,
)
from hardem_jax.errors import InputError
from hardem_jax.solutions.equations.enumeration import (
    EquationRules,
    enumerate_equations,
    number_table,
)
from hardem_jax.solutions.equations.numbers import NumberConfig, NumberMention, find_numbers
from hardem_jax.solutions.programs.enumeration import Target, enumerate_programs
from hardem_jax.solutions.programs.links import find_links
from hardem_jax.solutions.programs.rules import ProgramRules, table_fields
from hardem_jax.solutions.programs.table import program_table
from hardem_jax.solutions.programs.types import ROW_WIDTH as PROGRAM_WIDTH
from hardem_jax.solutions.sql.columns import plain_value, same_cells
from hardem_jax.solutions.sql.enumeration import SqlRules, enumerate_sql, split_words
from hardem_jax.solutions.sql.types import Cell

# Reasons of `ExclusionCounts`, for questions left out:
NO_EQUATION = "no equation gives the answer"
NO_QUERY = "no query gives the answer"
NO_PROGRAM = "no program gives the answer"
NOT_ENUMERABLE = "question, table or answer beyond what Z can hold"
# and warning, for questions kept:
FEWER_CONDITIONS = "too many combinations, queries with most conditions not tried"


def numeric_question(
    example: NumericExample, numbers: NumberConfig, rules: EquationRules
) -> NumericQuestion:
    """Find the numbers of an example and its Z, which is empty if it has no answer.

    Example:
        >>> example = NumericExample("q", "p", "41 yards, then 38.", "How many more?", 3.0, ())
        >>> numeric_question(example, NumberConfig(), EquationRules()).equations.tolist()
        [[10, 1, 11, 2]]
    """
    of_passage = _numbers_of_passage(example.passage, numbers)
    of_question = find_numbers(example.question, numbers) if rules.question_numbers else []
    table = number_table(of_passage, of_question, rules.special)
    equations = np.zeros((0, 4), np.int32)
    if example.answer is not None:
        equations = enumerate_equations(table, example.answer, rules)
    true_equation = -1
    if example.true_equation is not None:
        hits = np.flatnonzero((equations == example.true_equation).all(axis=1))
        true_equation = int(hits[0]) if len(hits) else -1
    spans = [(mention.start, mention.end) for mention in (*of_passage, *of_question)]
    return NumericQuestion(
        id=example.id,
        passage_id=example.passage_id,
        passage=example.passage,
        question=example.question,
        golds=example.golds,
        spans=np.array(spans, np.int32).reshape(-1, 2),
        values=table.values,
        kinds=table.kinds,
        equations=equations,
        true_equation=true_equation,
    )


class Matcher(Protocol):
    """A representation of an answer, which results are compared with."""

    def matches(self, result: Sequence[Cell], /) -> bool:
        """Whether this list, as the engine returns it, is the answer."""
        ...


#: Items of an answer, and the number or date of each if the data gives them -> `Matcher`.
MakeMatcher = Callable[[Sequence[str], Sequence[str] | None], Matcher]
#: The same -> what results of programs are compared with.
MakeTarget = Callable[[Sequence[str], Sequence[str] | None], Target]


def query_question(
    question: TableQuestion, rules: SqlRules, denotation: MakeMatcher | None = None
) -> QueryQuestion:
    """Find Z of a question.

    Args:
        question: with its table and answer.
        rules: Z_tot.
        denotation: what questions whose ``match`` is "denotation" are matched by, such as
            `hardem_jax.metrics.wikitablequestions.Denotation`.

    Raises:
        InputError: question, table or answer are beyond what Z can hold.
        ValueError: the question needs a ``denotation``, and there is none.

    Example:
        >>> from hardem_jax.solutions.sql.enumeration import Query, Table
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> asked = TableQuestion("q", "Who has 7?", table, ("ann",))
        >>> found = query_question(asked, SqlRules(max_conditions=1))
        >>> for row in found.queries:
        ...     print(Query.from_row(row, found.question, found.words).text(table.header))
        SELECT player WHERE no. = '7'
    """
    words = split_words(question.question)
    for cell in question.answer:
        if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
            raise InputError(f"answer: expected integers of 64 bits or text, found {cell!s:.40}")
    match = answer_match(question, denotation)
    found = enumerate_sql(
        question.table, question.question, question.answer, rules, words=words, match=match
    )
    return QueryQuestion(
        id=question.id,
        question=question.question,
        table_id=question.table.id,
        answer=question.answer,
        match=question.match,
        values=question.values,
        words=words,
        queries=found.queries,
        num_queries=found.size,
        max_conditions=found.max_conditions,
    )


def answer_match(
    question: TableQuestion | QueryQuestion, denotation: MakeMatcher | None = None
) -> Callable[[Sequence[Cell]], bool] | None:
    """What decides whether a result is the answer, in Z as in scores; None for "execution".

    Raises:
        ValueError: the question needs a ``denotation``, and there is none.
        TypeError: it needs one, and the answer is not a list of texts.

    Example:
        >>> from hardem_jax.solutions.sql.types import Table
        >>> table = Table("1-1", ("no.",), ("real",), ((7.0,), (9.0,)))
        >>> matches = answer_match(TableQuestion("q", "Which?", table, ("7",), "cells"))
        >>> matches([7.0]), matches([9.0])
        (True, False)
    """
    if question.match == "cells":
        return same_cells(question.answer)
    if question.match == "execution":
        return None
    if denotation is None:
        raise ValueError(f"{question.id}: answer matched by denotation, expected `denotation`")
    return denotation(question.answer_texts, question.values).matches


def missing_cell(match: str, answer: Sequence[Cell], rows: Iterable[Iterable[Cell]]) -> str:
    """The first text of an answer that no cell can match, in words; "" if there is none.

    Example:
        >>> missing_cell("cells", ["bo"], [["Ann", 7]]), missing_cell("cells", ["7"], [["Ann", 7]])
        ("no cell is the text 'bo'", '')
        >>> missing_cell("execution", ["7"], [["Ann", 7]])
        "no cell is the text '7'"
    """
    if match == "denotation":  # has many ways to match
        return ""
    read = plain_value if match == "cells" else str.lower
    known = {read(cell) for row in rows for cell in row if isinstance(cell, str)}
    for cell in answer:
        # A number may be that of a cell, or an aggregate.
        if isinstance(cell, str) and isinstance(text := read(cell), str) and text not in known:
            return f"no cell is the text {cell!r:.60}"
    return ""


def program_question(
    question: TableQuestion, rules: ProgramRules, denotation: MakeTarget | None = None
) -> ProgramQuestion:
    """Find the links of a question and its Z, which is empty if it has no answer.

    Args:
        question: with its table and an answer in words.
        rules: Z_tot.
        denotation: what results are compared by, as for `query_question`; not needed without an
            answer.

    Raises:
        InputError: the question has too many words or links.
        TypeError: the answer is not a list of texts.

    Example:
        >>> from hardem_jax.metrics.wikitablequestions import Denotation
        >>> from hardem_jax.solutions.sql.types import Table
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> asked = TableQuestion("q", "Who has 7?", table, ("ann",), "denotation")
        >>> found = program_question(asked, ProgramRules(max_links=0), Denotation)
        >>> found.fields.tolist(), found.num_programs
        ([[0, 2, 2], [17, 2, 2], [30, 2, 2]], 2)
    """
    words = split_words(question.question)
    table = program_table(question.table)
    if question.answer and denotation is None:
        raise ValueError(f"{question.id}: expected `denotation`, to compare results with")
    if question.answer and denotation is not None:
        target = denotation(question.answer_texts, question.values)
        seed = zlib.crc32(question.id.encode())
        found = enumerate_programs(
            question.table, question.question, target, rules, words=words, seed=seed
        )
        links, programs, size = found.links, found.programs, found.size
    else:
        links = find_links(table, question.question, words, rules)
        programs, size = np.zeros((0, PROGRAM_WIDTH), np.int16), 0
    return ProgramQuestion(
        id=question.id,
        question=question.question,
        table_id=question.table.id,
        answer=question.answer_texts,
        values=question.values,
        words=words,
        fields=table_fields(table, rules),
        links=links.array,
        link_rows=np.array([mask.bit_count() for mask in links.masks], np.int32),
        programs=programs,
        num_programs=size,
    )


def size_summary(sizes: Sequence[int]) -> dict[str, float | int | None]:
    """Mean, median and maximum of |Z| over the questions that have a solution.

    Example:
        >>> size_summary([0, 1, 2, 6])
        {'mean': 3.0, 'median': 2.0, 'max': 6}
    """
    found = np.array([size for size in sizes if size])
    if not len(found):
        return {"mean": None, "median": None, "max": None}
    return {
        "mean": round(float(found.mean()), 2),
        "median": float(np.median(found)),
        "max": int(found.max()),
    }


@functools.lru_cache(maxsize=8)
def _numbers_of_passage(passage: str, numbers: NumberConfig) -> list[NumberMention]:
    # The questions on one passage are consecutive.
    return find_numbers(passage, numbers)
