"""Programs on a table, to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.records import links_of, to_program_question
from hardem_jax.programs.solutions.execute import rows_of_program
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.types import Field, Links, Program
from hardem_jax.show.record import (
    ROW_NUMBER,
    Cells,
    Choose,
    Entry,
    Record,
    Text,
    View,
    everything,
    index_of,
    places_in,
    uses,
)
from hardem_jax.tables.records import table_of
from hardem_jax.tables.show import grid, rows_text
from hardem_jax.tables.table import Table, mask_rows


def program_texts(rows: np.ndarray, table: Table, links: Links) -> list[str]:
    """Programs as people read them; ``rows`` are ``[Z, 5]``."""
    return [Program.from_row(row, links).text(table.header) for row in rows]


def program_record(
    question: ProgramQuestion, table: Table, links: Links, choose: Choose = everything
) -> Record:
    """A question on a table with its programs and its `hardem_jax.programs.solutions.links`."""
    texts = program_texts(question.programs, table, links)
    chosen = choose(texts)
    entries, spans = [], []
    for number in chosen:
        row = question.programs[number]
        program = Program.from_row(row, links)
        start, final = rows_of_program(table, row, links)
        places = [rows_text(rows, len(table.rows)) for rows in (start, final)]
        pair = row.tolist()[-2:][: len(program.links)]
        compared = [
            (_column(link.field, table), mask_rows(links.masks[place]))
            for place, link in zip(pair, program.links, strict=True)
        ]
        if program.modify is not None:
            compared.append((_column(program.modify, table), sorted({*start, *final})))
        cells = Cells(_column(program.select, table), final, compared)
        place = " → ".join(dict.fromkeys(places))
        entries.append(Entry(number, texts[number], place, cells=cells))
        words = [(link.first, link.last) for link in program.links if link.first >= 0]
        spans.append([(int(question.words[a, 0]), int(question.words[b, 1])) for a, b in words])
    return Record(
        title=question.question,
        answer=", ".join(question.answer),
        solutions=entries,
        size=question.num_programs,
        texts=[Text("Question", question.question, uses(spans), numbered=False)],
        table=grid(table),
    )


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question of `hardem_jax.programs.task.ProgramQuestions` with its Z."""
    question = data.questions[index]
    table = data.tables[question.table_id]
    return program_record(question, table, links_of(question, table, data.rules), choose)


def built_record(
    record: Mapping[str, Any], options: Mapping[str, Any], choose: Choose = everything
) -> Record:
    """A record of a build with its Z."""
    asked, table = to_program_question(record), table_of(record)
    rules = ProgramRules(**options["rules"])
    return program_record(asked, table, links_of(asked, table, rules), choose)


def _column(field: Field | None, table: Table) -> int:
    """The column of a field; without a field the rows themselves are meant."""
    return ROW_NUMBER if field is None or field.column == len(table.header) else field.column


def views(
    task: Any, config: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
) -> list[View]:
    """What a model says about each question."""
    del config, inputs
    return [_view(task, data, data.questions[i], reading) for i, reading in readings]


def _view(task: Any, data: Any, question: ProgramQuestion, reading: Any) -> View:
    table = data.tables[question.table_id]
    links = links_of(question, table, task.rules)
    answer = task.answer(question, table, reading)
    return View(
        id=question.id,
        question=question.question,
        answer=", ".join(question.answer),
        solutions=program_texts(reading.rows, table, links),
        probabilities=np.exp(reading.solutions).tolist(),
        true=-1,
        prediction="" if answer is None else answer.program.text(table.header),
        probability=0.0 if answer is None else float(np.exp(answer.log_prob)),
        predicted=-1 if answer is None else index_of(reading.rows, np.array(answer.row)),
        places=places_in(question.programs, reading.rows),
    )
