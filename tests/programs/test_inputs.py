"""Inputs of a parser of programs: what cutting takes with it, facts, padding and samples of Z."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.data.batching.padding import fitting
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.errors import InputError
from hardem_jax.programs.examples import ProgramQuestion
from hardem_jax.programs.inputs import ProgramInputs, field_facts, link_facts
from hardem_jax.programs.solutions.rules import ProgramRules, table_fields
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import OPERATORS, PARTS, SHAPES, Field, Shape
from hardem_jax.tables.table import Table, split_words
from tests.tiny import wordpieces

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "beat", "ann", "##a", "?", "no", ".", "bo"]
PAD, UNK, CLS, SEP, WHO, BEAT, ANN, _A, ASK, NO, DOT, BO = range(len(PIECES))
TABLE = Table("t", ("who", "no.", "anna"), ("text",) * 3, (("anna", "42", "bo"),) * 4)
EQUAL, UNEQUAL, CONTAINS, EMPTY = (OPERATORS.index(x) for x in ("=", "!=", "contains", "empty"))
WHO_TEXT, NO_TEXT, ANNA_TEXT = (Field(column, PARTS.index("text")).code for column in range(3))
NO_NUMBER, ROW = Field(1, PARTS.index("number")).code, Field(3, PARTS.index("number")).code
ALL = SHAPES.index(Shape("values", "none", "all"))
ONE = SHAPES.index(Shape("values", "none", "one"))
AND = SHAPES.index(Shape("count", "none", "and"))
FIELDS = [[WHO_TEXT, 4, 1], [NO_TEXT, 3, 3], [NO_NUMBER, 2, 1], [ANNA_TEXT, 4, 2], [ROW, 4, 4]]
LINKS = [[NO_TEXT, EMPTY, -1, -1], [WHO_TEXT, EQUAL, 1, 2], [WHO_TEXT, UNEQUAL, 2, 2]]
LINKS += [[WHO_TEXT, EQUAL, 2, 2], [ANNA_TEXT, CONTAINS, 2, 2]]
PROGRAMS = [[ALL, ANNA_TEXT, -1, -1, -1], [ALL, ROW, -1, -1, -1], [ONE, WHO_TEXT, -1, 1, -1]]
PROGRAMS += [[ONE, WHO_TEXT, -1, 4, -1], [AND, -1, -1, 0, 3]]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(wordpieces(PIECES))


def question(**changes):
    text = "who beat anna ?"
    fields = {"id": "q", "question": text, "table_id": "t", "answer": ("bo",), "values": None}
    fields |= {"words": split_words(text), "fields": np.array(FIELDS)}
    fields |= {"links": np.array(LINKS, np.int16), "link_rows": np.array([1, 1, 3, 2, 4])}
    fields |= {"programs": np.array(PROGRAMS, np.int16), "num_programs": 5}
    return ProgramQuestion(**fields | changes)


def inputs_of(tokenizer, *questions, max_tokens=40, rules=None):
    rules = rules or ProgramRules()
    return ProgramInputs(questions, {"t": TABLE}, tokenizer, rules=rules, max_tokens=max_tokens)


def pad(inputs, rows, *, num_solutions=8):
    return inputs.pad(rows, 20, num_solutions=num_solutions, pad_id=PAD)


def test_a_batch_holds_what_the_parser_reads(tokenizer):
    inputs = inputs_of(tokenizer, question(), rules=ProgramRules(max_links=1))
    assert inputs.sizes.tolist() == [[15, 5]] and inputs[0].id == "q"
    batch = {name: x[0] for name, x in pad(inputs, [inputs[0], None]).items()}
    tokens = [CLS, WHO, BEAT, ANN, _A, ASK, SEP, WHO, SEP, NO, DOT, SEP, ANN, _A, SEP]
    assert batch["token_ids"].tolist() == tokens + [PAD] * 5
    assert batch["words_first"][:4].tolist() == [1, 2, 3, 5]
    assert batch["headers"].tolist() == [[7, 8], [9, 11], [12, 14], [0, 0]]
    assert batch["row_number"] == 3
    assert np.flatnonzero(batch["fields_where"]).tolist() == question().fields[:, 0].tolist()
    assert batch["links_where"].sum() == 5
    assert batch["links"][:5].tolist() == question().links.tolist()
    assert batch["solutions"][:5].tolist() == question().programs.tolist()
    assert batch["solutions_where"].tolist() == [True] * 5 + [False] * 3
    shapes = set(np.flatnonzero(batch["shapes_where"]))
    assert {ALL, ONE} <= shapes and AND not in shapes
    nothing = {name: x[1] for name, x in pad(inputs, [inputs[0], None]).items()}
    assert not any(x.any() for name, x in nothing.items() if name.endswith("where"))
    assert np.all(nothing["solutions"] == -1) and np.all(nothing["token_ids"] == PAD)


def test_facts_are_shares(tokenizer):
    shares = inputs_of(tokenizer, question())[0].header_share
    assert shares.tolist() == [1, 0, 1]  # "who" and "anna" are in the question
    expected = [[1, 0.25, 1, 0.4, 1], [0.75, 1, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]
    expected += [[1, 0.5, 1, 0, 1], [1, 1, 0, 0, 1]]
    np.testing.assert_allclose(field_facts(question(), 4, shares), expected, rtol=1e-6)
    # The fourth is within "beat anna" of the same field and operator.
    expected = [[0.25, 1, 0, 1], [0.25, 1, 0.4, 1], [0.75, 0, 0.2, 1], [0.5, 0, 0.2, 0]]
    expected += [[1, 0, 0.2, 1]]
    np.testing.assert_allclose(link_facts(question(), 4), expected, rtol=1e-6)


def test_two_rows_may_have_five_distinct_items():
    table = program_table(Table("1", ("who",), ("text",), (("ann, bo, cy",), ("dee, eve",))))
    asked = dataclasses.replace(question(), fields=table_fields(table, ProgramRules()))
    assert [PARTS[code % len(PARTS)] for code in asked.fields[:2, 0]] == ["text", "item"]
    assert field_facts(asked, 2, np.zeros(1))[:2, 1].tolist() == [1, 2.5]


def test_a_question_without_fields_links_or_columns_is_an_input(tokenizer):
    names = ("fields", "links", "link_rows", "programs")
    nothing = {name: getattr(question(), name)[:0] for name in names}
    bare, table = question(**nothing, num_programs=0), Table("t", (), (), ())
    inputs = ProgramInputs([bare], {"t": table}, tokenizer, rules=ProgramRules(), max_tokens=40)
    batch = pad(inputs, [inputs[0]])
    assert not batch["fields_where"].any() and not batch["links_where"].any()
    assert inputs.sizes[0, 1] == 0 and inputs.lost == 0


def test_what_is_cut_takes_its_programs_with_it_and_is_counted(tokenizer):
    """Room for the question and its first column; the row number is always read."""
    inputs = inputs_of(tokenizer, question(), max_tokens=10)
    assert (inputs.cut_headers, inputs.cut_columns, inputs.cut_questions) == (0, 1, 0)
    item = inputs[0]
    assert item.layout.headers.tolist() == [[7, 8]]
    assert item.links.tolist() == [False, True, True, True, False]
    assert item.programs.tolist() == question().programs[1:3].tolist()
    batch = {name: x[0] for name, x in pad(inputs, [item]).items()}
    assert np.flatnonzero(batch["fields_where"]).tolist() == [WHO_TEXT, ROW]
    assert np.flatnonzero(batch["links_where"]).tolist() == [1, 2, 3]
    lost = question(programs=question().programs[[0, 3]])
    assert inputs_of(tokenizer, lost, max_tokens=10).lost == 1
    links = question().links.copy()
    links[1, 3] = 3  # up to "?"
    short = inputs_of(tokenizer, question(links=links), max_tokens=8)
    assert short.cut_questions == 1
    assert short[0].links.tolist() == [False, False, True, True, False]
    with pytest.raises(InputError, match="max_tokens: expected at least 8, found 7"):
        inputs_of(tokenizer, question(), max_tokens=7)


def test_of_a_larger_z_a_sample_is_in_the_batch(tokenizer):
    programs = np.full((60, 5), -1, np.int16)
    programs[:, 0], programs[:, 1] = ALL, WHO_TEXT
    programs[:, 2] = np.arange(60)  # to tell them apart; the table has no such fields
    inputs = inputs_of(tokenizer, question(programs=programs, num_programs=60))
    row = dataclasses.replace(inputs[0], programs=programs)
    for room in (1, 12, 60):
        batch = pad(inputs, [row], num_solutions=room)
        assert np.array_equal(batch["solutions"][0], programs[fitting(row.id, 60, room)])
        assert batch["solutions_where"].all()
