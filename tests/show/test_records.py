"""Each task makes a record from its questions: what is marked where, and which of Z it holds."""

import numpy as np
import pytest

from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.prepared import Question
from hardem_jax.documents.show import document_record
from hardem_jax.documents.windows import Window
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.show import equation_record
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.programs.records import program_question
from hardem_jax.programs.show import program_record
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.queries.records import query_question
from hardem_jax.queries.show import query_record
from hardem_jax.queries.solutions.types import SqlRules
from hardem_jax.show.record import ROW_NUMBER
from hardem_jax.span_sets.show import tagging_record
from hardem_jax.spans.show import window_record
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.show import grid
from hardem_jax.tables.table import Table

TABLE = Table("t", ("who", "n"), ("text", "real"), (("ann", 7), ("bo", 8), ("cy", 9)))


def marked(record):
    """Text of each mark, and the numbers of the solutions that use it."""
    return [
        (text.text[mark.start : mark.end], [record.solutions[z].number for z in mark.solutions])
        for text in record.texts
        for mark in text.marks
        if mark.solutions
    ]


def last(lines):
    return [len(lines) - 1]


def window(start, text, tokens, solutions, **options):
    offsets = np.array(tokens)
    return Window("q", 0, text, start, np.arange(9), 2, offsets, np.array(solutions), **options)


WINDOWS = [
    window(0, "Ada met Bo .", [(0, 3), (4, 7), (8, 10), (11, 12)], [(2, 2)]),
    window(4, "met Bo . Ada left", [(0, 3), (4, 6), (7, 8), (9, 12), (13, 17)], [(5, 5)]),
]
ASKED = Question("q", "Who left?", ("Ada", "Ada", "ada"), 2)


def test_spans_of_windows():
    record = window_record(ASKED, WINDOWS)
    assert (record.title, record.answer, record.size) == ("Who left?", "Ada", 2)
    assert [text.text for text in record.texts] == ["Ada met Bo . Ada left"]
    assert marked(record) == [("Ada", [0]), ("Ada", [1])]
    assert [(z.text, z.place) for z in record.solutions] == [("Ada", "0-3"), ("Ada", "13-16")]
    assert record.solutions[1].line == "...met Bo . [Ada] left..."
    assert marked(window_record(ASKED, WINDOWS, last)) == [("Ada", [1])]


def test_spans_of_documents():
    long = "x " * 4000 + "Ada saw Ada." + " y" * 4000
    documents = (Document("a", "Bo met Ada."), Document("b", long))
    places = ((0, 7, 10), (1, 8000, 8003), (1, 8008, 8011))
    example = ReadingExample("q", "Who?", documents, ("Ada",), ("Ada",), mentions=places)
    record = document_record(example)
    assert marked(record) == [("Ada", [0]), ("Ada", [1]), ("Ada", [2])]
    labels = ["Document 1: a", "Document 2: b, characters 3,000-13,011 of 16,012"]
    assert [text.label for text in record.texts] == labels
    assert [z.place for z in record.solutions] == ["a, 7-10", "b, 8,000-8,003", "b, 8,008-8,011"]
    assert record.size == 3 and marked(document_record(example, last)) == [("Ada", [2])]


def test_sets_of_spans():
    options = {"texts": np.array([0, 1, 1])}
    tokens = [(0, 3), (4, 7), (8, 10), (11, 14), (15, 17)]
    windows = [window(0, "Ada met Bo and Bo", tokens, [(2, 2), (4, 4), (6, 6)], **options)]
    record = tagging_record(ASKED, windows)
    texts = ["Ada | Bo (0-3, 8-10)", "Ada | Bo (0-3, 15-17)", "Ada | Bo | Bo (0-3, 8-10, 15-17)"]
    assert sorted(z.text for z in record.solutions) == sorted(texts)
    assert ("Ada", [0, 1, 2]) in marked(record) and len(marked(record)) == 3
    [only] = tagging_record(ASKED, windows, last).solutions
    assert only.number == 2
    nothing = tagging_record(ASKED, [])
    assert not nothing.solutions and not nothing.texts


def test_equations():
    rules = EquationRules()
    golds = ({"number": "3"}, {"number": "4"})
    example = NumericExample("q", "p", "41 or 38 of 41", "How many more?", 3.0, golds)
    question = numeric_question(example, NumberConfig(), rules)
    record = equation_record(question, rules)
    assert (record.title, record.answer, record.size) == ("How many more?", "3", 2)
    assert [z.text for z in record.solutions] == ["41 - 38"] * 2
    assert marked(record) == [("41", [0]), ("38", [0, 1]), ("41", [1])]
    [one] = equation_record(question, rules, last).solutions
    assert (one.number, one.place) == (1, "passage 12-14, 6-8")


def test_queries():
    rules = SqlRules(max_conditions=1)
    question = query_question(TableQuestion("q", "Who has 8?", TABLE, ("bo",), "execution"), rules)
    record = query_record(question, TABLE, rules)
    assert (record.title, record.answer, record.size) == ("Who has 8?", "bo", len(record.solutions))
    one = next(z for z in record.solutions if z.text == "SELECT who WHERE n = '8'")
    assert one.place == "row 1" and one.cells is not None
    assert (one.cells.select, one.cells.rows) == (0, (1,))
    assert list(one.cells.compared) == [(1, (1,))] and record.table == grid(TABLE)
    assert ("8", [z.number for z in record.solutions if "'8'" in z.text]) in marked(record)
    [few] = query_record(question, TABLE, rules, last).solutions
    assert few == record.solutions[-1]


AFTER_ANN = "values(who) of next of (who = 'ann')"


@pytest.mark.parametrize(
    ("asked", "answer", "text", "place", "select", "words"),
    [
        ("Who is after Ann?", "bo", AFTER_ANN, "row 0 → row 1", 0, "Ann"),
        ("How many are there?", "3", "count of all rows", "every row", ROW_NUMBER, None),
    ],
)
def test_programs(asked, answer, text, place, select, words):
    rules = ProgramRules()
    question = program_question(TableQuestion("q", asked, TABLE, (answer,), "denotation"), rules)
    links = find_links(program_table(TABLE), asked, question.words, rules)
    record = program_record(question, TABLE, links)
    one = next(z for z in record.solutions if z.text == text)
    assert one.place == place and one.cells is not None and one.cells.select == select
    shown = [text for text, numbers in marked(record) if one.number in numbers]
    assert shown == ([] if words is None else [words])
    if words:
        assert [(column, list(rows)) for column, rows in one.cells.compared] == [(0, [0])]
    assert (record.title, record.answer, record.size) == (asked, answer, question.num_programs)
    [few] = program_record(question, TABLE, links, last).solutions
    assert few.number == len(question.programs) - 1
