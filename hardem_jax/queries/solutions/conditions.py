"""Finds the conditions of Z_tot: spans of a question compared with the columns of a table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.columns import NUMBER, TypedTable
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.queries.solutions.types import OPERATORS
from hardem_jax.queries.solutions.values import ExecutionError, exact_number
from hardem_jax.tables.table import Cell

EQUAL, ABOVE, BELOW = (OPERATORS.index(operator) for operator in "=><")

# The longest numbers of a text: "1,000.5" is one, "1996,1997" is two.
_DIGITS = re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+")
_PART = re.compile(r"[0-9]+|[.,]")
# Keeps the codes of three conditions (`Clause.code`) below 64 bits.
_MAX_CONDITIONS = 2**20
_MAX_WORDS = np.iinfo(np.int16).max


class SpanCondition(NamedTuple):
    """A condition of Z_tot; sorts in the order of Z.

    Its ``mask`` has the rows for which it holds, at least one; ``value`` is what cells are compared
    with; ``first`` and ``last`` are words, inclusive.
    """

    column: int
    operator: int
    first: int
    last: int
    mask: int
    value: Cell


def find_conditions(
    table: TypedTable, question: str, words: np.ndarray, rules: SqlRules
) -> list[SpanCondition]:
    """Every condition of Z_tot, in order, without duplicates.

    Raises:
        InputError: there are more words or conditions than the integers of Z can hold.
    """
    if len(words) > _MAX_WORDS:
        raise InputError(f"question: expected at most {_MAX_WORDS} words, found {len(words)}")
    candidates = _candidates(table, question, words, rules)
    if not rules.vacuous_conditions:
        candidates = (c for c in candidates if c.mask != table.every_row)
    if rules.distinct_values:
        candidates = _distinct(candidates)
    conditions = sorted(itertools.islice(candidates, _MAX_CONDITIONS + 1))
    if len(conditions) > _MAX_CONDITIONS:
        raise InputError(f"question: expected at most {_MAX_CONDITIONS} conditions, found more")
    return conditions


def _distinct(conditions: Iterable[SpanCondition]) -> Iterator[SpanCondition]:
    """The first of the conditions with the same column, operator and value."""
    seen: set[tuple[int, int, Cell]] = set()
    for condition in conditions:
        key = condition.column, condition.operator, condition.value
        if key not in seen:
            seen.add(key)
            yield condition


def _candidates(
    table: TypedTable, question: str, words: np.ndarray, rules: SqlRules
) -> Iterator[SpanCondition]:
    bounds = words.tolist()
    lowered = question.lower()
    same_offsets = question.isascii()  # otherwise lower-casing may change offsets
    # Spans beyond the longest text equal no cell; numbers are handled separately below.
    longest = len(question) if rules.ranges_on_text or not same_offsets else table.longest
    texts = [c for c, column in enumerate(table.columns) if column.type == "text"]
    for first, (start, _) in enumerate(bounds):
        for last in range(first, len(bounds)):
            end = bounds[last][1]
            if end - start > longest:
                break
            text = lowered[start:end] if same_offsets else question[start:end].lower()
            for column, mask in table.holders.get(text, ()):
                yield SpanCondition(column, EQUAL, first, last, mask, text)
            if rules.ranges_on_text:
                yield from _ranges(table, texts, first, last, text)
    types = [column.sql_type for column in table.columns]
    reals, exact = ([c for c, t in enumerate(types) if t == kind] for kind in ("real", "numeric"))
    if reals or exact:
        for first, last, number in number_spans(question, bounds, rules.numbers):
            for columns, value in ((reals, float(number)), (exact, number)):
                for column in columns:
                    equal, *_ = table.columns[column].compare(value)
                    if equal:
                        yield SpanCondition(column, EQUAL, first, last, equal, value)
                yield from _ranges(table, columns, first, last, value)


def _ranges(
    table: TypedTable, columns: Sequence[int], first: int, last: int, value: Cell
) -> Iterator[SpanCondition]:
    for column in columns:
        _, above, below = table.columns[column].compare(value)
        if above:
            yield SpanCondition(column, ABOVE, first, last, above, value)
        if below:
            yield SpanCondition(column, BELOW, first, last, below, value)


def number_spans(
    question: str, bounds: Sequence[Sequence[int]], which: str
) -> Iterator[tuple[int, int, float | int]]:
    """First word, last word and number of the spans that may be compared with a real column.

    ``which`` is `SqlRules.numbers`.
    """
    if which == "official":
        for first, (start, _) in enumerate(bounds):
            for last in range(first, len(bounds)):
                try:
                    yield first, last, exact_number(question[start : bounds[last][1]].lower())
                except ExecutionError:
                    continue
        return
    whole = _boundaries(question) if which == "whole" else None
    for first, (start, end) in enumerate(bounds):
        if question[start] not in "+-.0123456789":
            continue
        for last in range(first, len(bounds)):
            previous_end, end = end, bounds[last][1]
            part = question[bounds[last][0] : end]
            if last > first and (bounds[last][0] != previous_end or not _PART.fullmatch(part)):
                break
            if whole is not None and (start not in whole[0] or end not in whole[1]):
                continue
            if NUMBER.fullmatch(text := question[start:end]):
                yield first, last, exact_number(text)


def _boundaries(question: str) -> tuple[set[int], set[int]]:
    """Offsets at which maximal numbers start, with or without a sign, and end."""
    starts, ends = set(), set()
    for match in _DIGITS.finditer(question):
        start, end = match.span()
        starts.add(start)
        if question[start - 1 : start] in ("+", "-"):
            starts.add(start - 1)
        ends.add(end)
    return starts, ends
