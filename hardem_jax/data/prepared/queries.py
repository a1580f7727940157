"""Questions on tables with every query that executes to the answer: Z is found once, here.

A prepared split is a folder with

===================  ==========================================================
``questions.*``      `QueryQuestion` records, in the order of the source
``tables.*``         the tables they are about, in the order of their first use
``meta.json``        rules, sources, options, counts, |Z| statistics
===================  ==========================================================

It is made from questions, tables and answers alone. It holds texts, no tokens: every model cuts
them up in its own way when it is trained.

`supervised_split` and `gold_in_solutions` are for what annotated queries are good for: an upper
bound to compare with, and measuring.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import new_folder
from hardem_jax.data.parallel import map_in_order
from hardem_jax.data.prepared.annotations import gold_in_solutions, supervised_split
from hardem_jax.data.prepared.query_records import (
    FORMAT,
    PreparedQueries,
    QueryQuestion,
    SplitWriter,
)
from hardem_jax.data.prepared.records import check_not_empty
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.enumeration import Cell, SqlRules, Table, enumerate_sql, split_words

__all__ = [
    "FORMAT",
    "PreparedQueries",
    "QueryQuestion",
    "gold_in_solutions",
    "prepare_queries",
    "query_question",
    "supervised_split",
    "write_queries",
]

# Reasons of `ExclusionCounts`, for questions left out:
NO_SOLUTION = "no query gives the answer"
NOT_ENUMERABLE = "question, table or answer beyond what Z can hold"
# and warning, for questions kept:
FEWER_CONDITIONS = "too many combinations, queries with most conditions not tried"

# Questions to a process at a time: neighbours share a table and what is made of it.
_CHUNK = 64


class Matcher(Protocol):
    """An idea of an answer, which results are compared with."""

    def matches(self, result: Sequence[Cell], /) -> bool:
        """Whether this list, as the engine returns it, is the answer."""
        ...


#: Items of an answer, and the number or date of each if the data gives them -> `Matcher`.
MakeMatcher = Callable[[Sequence[str], Sequence[str] | None], Matcher]


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
        ValueError: there is no ``denotation``, and the question needs one.

    Example:
        >>> from hardem_jax.solutions.sql.enumeration import Query, Table
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7.0), ("bo", 9.0)))
        >>> asked = TableQuestion("q", "Who has 7?", table, ("ann",))
        >>> found = query_question(asked, SqlRules(max_conditions=1))
        >>> for row in found.queries:
        ...     print(Query.from_row(row, found.question, found.words).text(table.header))
        SELECT MIN(player)
        SELECT player WHERE no. = '7'
        SELECT MAX(player) WHERE no. = '7'
        SELECT MIN(player) WHERE no. = '7'
    """
    words = split_words(question.question)
    match = None
    if question.match == "denotation":
        if denotation is None:
            raise ValueError(f"{question.id}: answer matched by denotation, expected `denotation`")
        match = denotation(question.answer_texts, question.values).matches
    elif any(isinstance(cell, int) and not -(2**63) <= cell < 2**63 for cell in question.answer):
        raise InputError("answer: expected integers of 64 bits, found a larger one")
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


def prepare_queries(
    questions: Iterable[TableQuestion],
    folder: Path,
    *,
    rules: SqlRules,
    sources: Mapping[str, Any],
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
    reader: Mapping[str, Any] | None = None,
    processes: int | None = None,
    denotation: MakeMatcher | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """Find Z for every question and write the split; memory holds Z of a few questions at a time.

    Args:
        questions: from a reader, those on one table best one after the other.
        folder: to be created; it may exist if it is empty.
        rules: Z_tot.
        sources: name of each source file -> digest, for the record.
        exclusions: the reader's count; what drops out here is added to it.
        keep_without_solution: True for data to evaluate on, where a question that no query
            answers still counts. Training cannot use such a question.
        reader: options of the reader by name, for the record.
        processes: that find Z, with the same outcome; None or 1 for this one alone. They are
            spawned, so that a script that calls this must not run anything when it is imported.
        replace: whether a complete split of this kind is replaced.
        denotation: see `query_question`; something that can be pickled if ``processes`` is more
            than 1.

    Returns:
        The content of ``meta.json``.

    Raises:
        InputError: two tables have one id, no question can be used, the folder exists or cannot be
            written, or ``processes`` is less than 1.
    """
    solve = functools.partial(_solve, rules=rules, denotation=denotation)
    return write_queries(
        _in_order(solve, questions, processes),
        folder,
        rules=rules,
        sources=sources,
        exclusions=exclusions,
        keep_without_solution=keep_without_solution,
        reader=reader,
        replace=replace,
    )


def write_queries(
    solved: Iterable[tuple[str, QueryQuestion | str, Table]],
    folder: Path,
    *,
    rules: SqlRules,
    sources: Mapping[str, Any],
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
    reader: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """Write a prepared split of questions whose Z was found; see `prepare_queries`.

    Args:
        solved: id, the question with its Z or why it has none, and its table.
    """
    with new_folder(folder, format=FORMAT, replace=replace) as partial:
        writer = SplitWriter(partial)
        for id, found, table in solved:
            if exclusions.repeated(id):
                continue
            if isinstance(found, str):
                exclusions.add(NOT_ENUMERABLE, id, found)
                continue
            if not found.num_queries and not keep_without_solution:
                exclusions.add(NO_SOLUTION, id)
                continue
            if found.max_conditions < rules.max_conditions:
                exclusions.warn(FEWER_CONDITIONS, id)
            writer.write(found, table)
        meta = {
            "rules": dataclasses.asdict(rules),
            "sources": dict(sources),
            "reader": dict(reader or {}),
            "keep_without_solution": keep_without_solution,
        }
        check_not_empty(folder, writer.num_questions, keep_without_solution, exclusions)
        return writer.close(meta, exclusions)


def _solve(
    question: TableQuestion, rules: SqlRules, denotation: MakeMatcher | None
) -> QueryQuestion | str:
    """The question with Z, or a message in place of what cannot have any."""
    try:
        return query_question(question, rules, denotation)
    except InputError as error:
        return str(error)


def _in_order(
    solve: Callable[[TableQuestion], QueryQuestion | str],
    questions: Iterable[TableQuestion],
    processes: int | None,
) -> Iterator[tuple[str, QueryQuestion | str, Table]]:
    """Id, what `solve` makes of it, and table of every question."""
    asked: collections.deque[TableQuestion] = collections.deque()

    def remembered() -> Iterator[TableQuestion]:
        for question in questions:
            asked.append(question)
            yield question

    found = map_in_order(solve, remembered(), processes=processes, chunk_size=_CHUNK)
    for solved in found:
        question = asked.popleft()
        yield question.id, solved, question.table
