"""Annotated queries: full supervision as an upper bound, whether Z has them, and their file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.queries.examples import QueryQuestion
from hardem_jax.queries.metrics import comparable_conditions
from hardem_jax.queries.readers import read_wikisql
from hardem_jax.queries.solutions.types import Query, SqlRules, row_of

# Reasons of `ExclusionCounts`, for questions left out:
OUTSIDE_RULES = "annotated query with conditions that the rules exclude"
NOT_A_SPAN = "value of the annotated query is no span of the question"


def annotated_row(question: QueryQuestion, query: Query, rules: SqlRules) -> np.ndarray | str:
    """The annotated query as a row of Z, ``[15]`` int16, or the reason why Z cannot hold it. Values
    are the first spans with their text, regardless of case; conditions are sorted as in every Z."""
    columns = [condition.column for condition in query.conditions]
    shared = len(set(columns)) < len(columns)
    if len(columns) > rules.max_conditions or (shared and not rules.shared_columns):
        return OUTSIDE_RULES
    conditions = []
    for condition in query.conditions:
        span = _first_span(question, str(condition.value).lower())
        if span is None:
            return NOT_A_SPAN
        conditions.append((condition.column, condition.operator, *span))
    return row_of(query.select, query.aggregator, sorted(conditions))


def gold_in_solutions(question: QueryQuestion, query: Query) -> list[int]:
    """Where the annotated query is in Z: rows with the same logical form, which differ in mentions
    of a value. Conditions may be in any order. For measuring, never for training."""
    head = query.select, query.aggregator, len(query.conditions)
    wanted = sorted(comparable_conditions(query))
    places = []
    for place in np.flatnonzero((question.queries[:, :3] == head).all(1)).tolist():
        found = Query.from_row(question.queries[place], question.question, question.words)
        if sorted(comparable_conditions(found)) == wanted:
            places.append(place)
    return places


def annotated_queries(
    folder: Path, split: str, questions: Sequence[QueryQuestion]
) -> dict[str, Query]:
    """The official files' annotated queries by question id, for measuring. `InputError`: the split
    holds none of these questions, or another one under an id."""
    examples = read_wikisql(folder, split, skips=ExclusionCounts())
    annotated = {example.id: example for example in examples if example.query is not None}
    ids = [question.id for question in questions]
    for question in questions:
        example = annotated.get(question.id)
        if example is not None and example.question != question.question:
            raise InputError(
                f"{folder}, split {split}: expected {question.question!r} as question "
                f"{question.id}, found {example.question!r}"
            )
    if ids and annotated.keys().isdisjoint(ids):
        raise InputError(
            f"{folder}, split {split}: expected queries of questions such as {ids[0]}, found "
            f"{f'those of {next(iter(annotated))} and others' if annotated else 'none'}"
        )
    return {id: example.query for id, example in annotated.items() if example.query is not None}


def _first_span(question: QueryQuestion, text: str) -> tuple[int, int] | None:
    bounds = question.words.tolist()
    for first, (start, _) in enumerate(bounds):
        for last, (_, end) in enumerate(bounds[first:], start=first):
            # Lower case is never shorter than the text itself.
            if end - start > len(text):
                break
            if question.question[start:end].lower() == text:
                return first, last
    return None
