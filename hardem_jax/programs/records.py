"""Questions on tables with Z, all programs of that result, and their records."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from hardem_jax.data.data_sets import RecordKind
from hardem_jax.data.exclusions import with_help
from hardem_jax.errors import InputError
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.solutions.enumeration import enumerate_programs
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import ProgramRules, table_fields
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import ROW_WIDTH, Links
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.metrics import Denotation
from hardem_jax.tables.records import TABLE_TEXTS, TableSolver
from hardem_jax.tables.table import IdentityCache, Table, split_words

NO_PROGRAM = with_help(
    "no program gives the answer", "compare the answer with the cells (numbers: without units)"
)


def program_question(question: TableQuestion, rules: ProgramRules) -> ProgramQuestion:
    """The question with its fields, links and Z, which is empty if it has no answer."""
    asked, table = unsolved(question), program_table(question.table)
    if question.answer:
        found = enumerate_programs(
            question.table,
            question.question,
            Denotation(asked.answer, question.values),
            rules,
            words=asked.words,
            seed=zlib.crc32(question.id.encode()),
        )
        links, programs, size = found.links, found.programs, found.size
    else:
        links = find_links(table, question.question, asked.words, rules)
        programs, size = asked.programs, 0
    return dataclasses.replace(
        asked,
        fields=table_fields(table, rules),
        links=links.array,
        link_rows=np.array([mask.bit_count() for mask in links.masks], np.int32),
        programs=programs,
        num_programs=size,
    )


def unsolved(question: TableQuestion) -> ProgramQuestion:
    """The question without fields and links and with an empty Z."""
    return ProgramQuestion(
        id=question.id,
        question=question.question,
        table_id=question.table.id,
        answer=question.answer_texts,
        values=question.values,
        words=split_words(question.question),
        fields=np.zeros((0, 3), np.int32),
        links=np.zeros((0, 4), np.int16),
        link_rows=np.zeros(0, np.int32),
        programs=np.zeros((0, ROW_WIDTH), np.int16),
        num_programs=0,
    )


# By question and rules. Every evaluation asks for the same links; to find them took most of the
# time of answering, and they are few (14 for a question of WikiTableQuestions).
_found_links: IdentityCache[dict[tuple[str, ProgramRules], Links]] = IdentityCache(
    lambda table: {}, size=4096
)


def links_of(question: ProgramQuestion, table: Table, rules: ProgramRules) -> Links:
    """The links of a question with their values and rows, unless other ones were prepared."""
    known, key = _found_links(table), (question.question, rules)
    if (links := known.get(key)) is None:
        links = find_links(program_table(table), question.question, question.words, rules)
        known[key] = links
    if not np.array_equal(links.array, question.links):
        raise InputError(
            f"question {question.id}: expected the links it was prepared with, found others; "
            "prepare the data again"
        )
    return links


def to_program_question(record: Mapping[str, Any]) -> ProgramQuestion:
    """The question of a record, without its table; answer and values are lists."""
    return ProgramQuestion(
        **RECORDS.values(record, "id", "question", "table_id"),
        answer=json.loads(record["answer"]),
        values=json.loads(record["values"]),
    )


RECORDS = RecordKind(
    name="programs",
    to_example=to_program_question,
    texts=("id", "question", "answer", "values", *TABLE_TEXTS),
    numbers=("num_programs",),
    arrays={
        "words": ("int32", 2),
        "fields": ("int32", 3),
        "links": ("int16", 4),
        "link_rows": ("int32", None),
        "programs": ("int16", ROW_WIDTH),
    },
    solutions="programs",
    no_solution=NO_PROGRAM,
    with_table=True,
)


@dataclasses.dataclass(frozen=True)
class ProgramSolver(TableSolver):
    """Programs whose result matches the answer."""

    rules: ProgramRules = ProgramRules()
    kind: ClassVar[RecordKind] = RECORDS

    unsolved = staticmethod(unsolved)

    def solve(self, example: TableQuestion) -> tuple[ProgramQuestion, str]:
        return program_question(example, self.rules), ""
