"""Inputs of SQLova: which piece belongs to what, what cutting takes with it, and padding."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.data.batching.padding import fitting
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.errors import InputError
from hardem_jax.queries.inputs import QueryInput, QueryInputs
from hardem_jax.queries.readers import read_answers
from hardem_jax.queries.records import query_question
from hardem_jax.queries.solutions.types import Query, SqlRules
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.layout import pieces_of_words
from hardem_jax.tables.table import Table
from tests.tiny import roberta_tokenizer, wordpieces

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "is", "?", "4", "##2", "ann", "##a", "no", "."]
PAD, UNK, CLS, SEP, WHO, IS, ASK, FOUR, _2, ANN, _A, NO, DOT = range(len(PIECES))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(wordpieces(PIECES))


def make_table(*header, id="t", rows=None, types=None):
    types = types or ("text",) * len(header)
    return Table(id, header, types, rows or (("anna",) * len(header), ("42",) * len(header)))


def inputs_of(tokenizer, *asked, rules=None, max_tokens=40, max_header_tokens=8):
    """Inputs for questions, tables and answers."""
    questions = [
        query_question(
            TableQuestion(f"q{n}", text, table, (answer,)),
            rules or SqlRules(max_conditions=1, aggregates_on_text=True),
        )
        for n, (text, table, answer) in enumerate(asked)
    ]
    tables = {table.id: table for _, table, _ in asked}
    limits = {"max_tokens": max_tokens, "max_header_tokens": max_header_tokens}
    return questions, QueryInputs(questions, tables, tokenizer, **limits)


def test_an_input_is_the_question_and_every_column_with_the_pieces_of_all_words(tokenizer):
    table = make_table("no. 42", "who", "anna")
    (question,), inputs = inputs_of(tokenizer, ("Who is 42, anna?", table, "42"))
    found = inputs[0]
    tokens = [CLS, WHO, IS, FOUR, _2, UNK, ANN, _A, ASK, SEP]
    tokens += [NO, DOT, FOUR, _2, SEP, WHO, SEP, ANN, _A, SEP]
    assert found.id == "q0" and found.token_ids.tolist() == tokens
    # Only the last [SEP] is of the columns' segment.
    assert found.token_type_ids.tolist() == [0] * 10 + [1, 1, 1, 1, 0, 1, 0, 1, 1, 1]
    assert found.num_question_tokens == 8
    assert found.question_tokens.tolist() == list(range(1, 9))
    assert found.word_first.tolist() == [0, 1, 2, 4, 5, 7]
    assert found.headers.tolist() == [[10, 14], [15, 16], [17, 19]]
    np.testing.assert_array_equal(found.queries, question.queries)
    assert inputs.sizes.tolist() == [[len(tokens), len(question.queries)]]
    assert found.queries.dtype == np.int16 and found.token_ids.dtype == np.int32


def test_texts_without_any_piece_are_read_as_an_unknown_one(tokenizer):
    table = make_table("", " ", "\x00", "who")
    _, inputs = inputs_of(tokenizer, ("who", table, "42"), ("\x00 \x01", table, "42"))
    tokens = [CLS, WHO, SEP, *[UNK, SEP] * 3, WHO, SEP]
    # The vocabulary has no pieces of "[UNK]": brackets are unknown.
    assert inputs[0].token_ids.tolist() == tokens
    assert inputs[0].headers.tolist() == [[3, 4], [5, 6], [7, 8], [9, 10]]
    unseen = inputs[1]
    assert unseen.token_ids.tolist() == [CLS, UNK, *tokens[2:]]
    assert unseen.num_question_tokens == 1 and unseen.word_first.shape == (0,)
    assert (unseen.queries[:, 2] == 0).all() and len(unseen.queries)


def test_a_word_that_the_tokenizer_drops_takes_its_queries_with_it(tokenizer):
    text = "who \x01 42 ?"
    table = make_table("no", "who", rows=(("anna", "\x01"), ("42", "42"), ("who", "\x01 42")))
    (question,), inputs = inputs_of(tokenizer, (text, table, "who"))
    found = inputs[0]
    assert found.token_ids.tolist() == [CLS, WHO, FOUR, _2, ASK, SEP, NO, SEP, WHO, SEP]
    assert found.word_first.tolist() == [0, -1, 1, 3]
    values = [
        [c.value for c in Query.from_row(row, text, question.words).conditions]
        for row in question.queries
    ]
    assert ["\x01 42"] in values and ["who"] in values
    remain = [row for row, (*value,) in zip(question.queries.tolist(), values, strict=True)
              if not any("\x01" in text for text in value)]  # fmt: skip
    assert found.queries.tolist() == remain and len(remain) < len(values)


def test_a_table_without_columns_or_rows_is_an_input(tokenizer):
    nothing, no_rows = Table("t0", (), (), ()), Table("t1", ("who",), ("text",), ())
    _, inputs = inputs_of(tokenizer, ("who ?", nothing, "42"), ("who ?", no_rows, "42"))
    assert inputs[0].token_ids.tolist() == [CLS, WHO, ASK, SEP]
    assert inputs[0].token_type_ids.tolist() == [0] * 4 and inputs[0].headers.shape == (0, 2)
    assert inputs[1].token_ids.tolist() == [CLS, WHO, ASK, SEP, WHO, SEP]
    assert inputs.sizes[:, 1].tolist() == [0, 0] and inputs.lost == 0


def test_what_is_cut_takes_its_queries_with_it_and_is_counted(tokenizer):
    table = make_table("no. 42", "who", "anna anna anna")
    asked = ("who is 42 , anna ?", table, "42")
    # 2 + 8 pieces of the question, and columns of 4, 1 and 6, each with its [SEP].
    for room, lengths, read, counts in [
        (24, [4, 1, 6], 8, (0, 0, 0, 0)),
        (22, [4, 1, 4], 8, (1, 0, 0, 0)),
        (17, [2, 1, 1], 8, (1, 0, 0, 0)),
        (16, [1, 1, 1], 8, (1, 0, 0, 0)),
        (15, [1, 1, 1], 7, (1, 1, 0, 0)),
        (12, [1, 1], 6, (1, 1, 1, 0)),
        (8, [1], 4, (1, 1, 1, 0)),
    ]:
        (question,), inputs = inputs_of(tokenizer, asked, max_tokens=room)
        found = inputs[0]
        assert len(found.token_ids) <= room
        assert np.diff(found.headers, axis=1)[:, 0].tolist() == lengths, room
        assert found.num_question_tokens == read
        last = {8: 5, 7: 4, 6: 3, 4: 2}[read]  # of the words, since half a word is cut
        assert len(found.word_first) == last + 1
        assert (inputs.cut_headers, inputs.cut_questions, inputs.cut_columns, inputs.lost) == counts
        remain = [
            row for row in question.queries.tolist()
            if row[0] < len(lengths) and row[3] < len(lengths) and row[6] <= last
        ]  # fmt: skip
        assert found.queries.tolist() == remain and inputs.sizes[0, 1] == len(remain) > 0


def test_questions_that_lose_all_of_z_are_counted_and_stay(tokenizer):
    rules = SqlRules(max_conditions=1)
    # What comes after the cut tells the rows apart; no query with fewer conditions gives "anna".
    table = Table("t", ("no", "who"), ("text", "text"), (("a", "b"), ("anna", "42"), ("z", "c")))
    asked = [("who is , , , , 42 ?", table, "anna"), ("42 ?", table, "anna")]
    questions, inputs = inputs_of(tokenizer, *asked, rules=rules, max_tokens=11)
    assert inputs.lost == inputs.cut_questions == 1 and len(inputs) == 2
    assert inputs.sizes[:, 1].tolist() == [0, len(questions[1].queries)]
    assert len(questions[0].queries)
    assert inputs[0].queries.shape == inputs[-2].queries.shape == (0, 15)
    with pytest.raises(IndexError):
        inputs[2]


def test_shapes_hold_every_input_that_is_no_longer(tokenizer):
    asked = [
        ("who " * 9, make_table("no", id="a"), "42"),
        ("who", make_table(*["no"] * 17, id="b"), "42"),
        ("4 2", make_table("anna " * 5, id="c"), "42"),
    ]
    _, inputs = inputs_of(tokenizer, *asked, max_tokens=64, max_header_tokens=10)
    assert inputs.sizes[:, 0].tolist() == [13, 37, 15]
    names = ["num_question_tokens", "num_words", "num_columns", "num_header_tokens"]
    shapes = {n: [inputs.shape(n)[name] for name in names] for n in (12, 13, 15, 36, 37)}
    assert shapes == {
        12: [8, 8, 8, 8],
        13: [16, 16, 8, 8],
        15: [16, 16, 8, 10],
        36: [16, 16, 8, 10],
        37: [16, 16, 24, 10],
    }
    for item in inputs:
        inputs.pad([item], len(item.token_ids), num_solutions=4, pad_id=PAD)


def test_limits_without_room_and_empty_data_are_refused(tokenizer):
    asked = ("who", make_table("no"), "42")
    for limits, message in (
        ({"max_tokens": 7}, "max_tokens: expected at least 8, found 7"),
        ({"max_header_tokens": 0}, "max_header_tokens: expected at least 1, found 0"),
    ):
        with pytest.raises(InputError, match=message):
            inputs_of(tokenizer, asked, **limits)
    with pytest.raises(InputError, match="expected questions, found none"):
        inputs_of(tokenizer)


UNUSED = [-1] * 8
ROW = QueryInput(
    id="q1",
    token_ids=np.array([CLS, WHO, FOUR, _2, SEP, NO, DOT, SEP, WHO, SEP]),
    num_question_tokens=3,
    word_first=np.array([0, -1, 1]),
    headers=np.array([[5, 7], [8, 9]]),
    queries=np.array(
        [[0, 1, 0, *[-1] * 4, *UNUSED], [1, 0, 1, 0, 0, 2, 2, *UNUSED]], np.int16
    ),
)  # fmt: skip


class OfShape(QueryInputs):
    """Pads to a shape that is given."""

    def __init__(self, question, words, columns, header):
        self.sizes = {"num_question_tokens": question, "num_words": words}
        self.sizes |= {"num_columns": columns, "num_header_tokens": header}

    def shape(self, num_tokens):
        return self.sizes


def test_padding():
    batch = OfShape(4, 5, 3, 3).pad([ROW, None], 12, num_solutions=3, pad_id=PAD)
    expected = {
        "token_ids": [[CLS, WHO, FOUR, _2, SEP, NO, DOT, SEP, WHO, SEP, PAD, PAD], [PAD] * 12],
        "token_type_ids": [[0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0], [0] * 12],
        "where": [[1] * 10 + [0] * 2, [0] * 12],
        "question_tokens": [[1, 2, 3, 0], [0] * 4],
        "question_where": [[1, 1, 1, 0], [0] * 4],
        "words_first": [[0, 0, 1, 0, 0], [0] * 5],
        "words_where": [[1, 0, 1, 0, 0], [0] * 5],
        "header_tokens": [[[5, 6, 0], [8, 0, 0], [0] * 3], [[0] * 3] * 3],
        "header_where": [[[1, 1, 0], [1, 0, 0], [0] * 3], [[0] * 3] * 3],
        "columns_where": [[1, 1, 0], [0] * 3],
        "solutions": [[*ROW.queries.tolist(), [-1] * 15], [[-1] * 15] * 3],
        "solutions_where": [[1, 1, 0], [0] * 3],
        "row_where": [1, 0],
    }
    assert {name: np.asarray(batch[name]).astype(int).tolist() for name in expected} == expected
    assert set(batch) == set(expected)
    for name in expected:
        assert batch[name].dtype == (bool if name.endswith("where") else np.int32), name


@pytest.mark.parametrize("room", [1, 2, 5, 6])
def test_of_a_larger_z_a_sample_is_in_the_batch(room):
    queries = np.full((6, 15), -1)
    queries[:, 0] = np.arange(6)
    row = dataclasses.replace(ROW, queries=queries)
    batch = OfShape(3, 3, 2, 2).pad([row], 10, num_solutions=room, pad_id=PAD)
    kept = fitting(ROW.id, 6, room).tolist()
    assert batch["solutions"][0, :, 0].tolist() == kept
    assert batch["solutions_where"].tolist() == [[True] * room]
    assert room not in (2, 5) or kept != list(range(room))


@pytest.fixture(scope="module")
def real(shared_dir):
    """The real development questions and their tables."""
    asked = list(read_answers(shared_dir / "data/wikisql", "dev", skips=ExclusionCounts()))
    questions = [query_question(example, SqlRules()) for example in asked]
    return questions, {example.table.id: example.table for example in asked}


def test_real_words_are_where_their_pieces_are(real, minilm_dir):
    tokenizer, (questions, tables) = load_tokenizer(minilm_dir), real
    whole = QueryInputs(questions, tables, tokenizer, max_header_tokens=64)
    short = QueryInputs(questions, tables, tokenizer, max_tokens=36)
    assert whole.cut_headers == whole.cut_questions == whole.cut_columns == whole.lost == 0
    assert 0 < short.lost <= short.cut_questions and short.sizes[:, 0].max() <= 36
    for place, question in enumerate(questions):
        pieces = tokenizer.encode([question.question])[0]
        found = whole[place]
        assert len(found.word_first) == len(question.words)
        firsts, lasts = pieces_of_words(question.words, pieces.offsets, len(pieces.ids))
        np.testing.assert_array_equal(found.word_first, firsts)
        for (start, end), first, last in zip(question.words, firsts, lasts, strict=True):
            inside = (pieces.offsets[:, 0] < end) & (pieces.offsets[:, 1] > start)
            assert np.flatnonzero(inside)[[0, -1]].tolist() == [first, last]
        np.testing.assert_array_equal(found.queries, question.queries)
        for (start, end), name in zip(found.headers, tables[question.table_id].header, strict=True):
            ids = tokenizer.encode([name])[0].ids
            np.testing.assert_array_equal(found.token_ids[start:end], ids)
        kept = {row.tobytes() for row in short[place].queries}
        assert kept <= {row.tobytes() for row in question.queries}


def test_an_input_of_roberta_has_its_special_tokens():
    official = roberta_tokenizer()
    text, names = "Who  lives in Rome?", ("", "lives in", "yards")
    table = make_table(*names, rows=(("Ada", "Rome", "3"),))
    _, inputs = inputs_of(Tokenizer(official), (text, table, "Ada"))
    found = inputs[0]
    bare = [official.encode(name, add_special_tokens=False).ids or [3] for name in names]
    asked = official.encode(text, add_special_tokens=False)
    headers = [*bare[0], 2, *bare[1], 2, *bare[2], 2]
    assert found.token_ids.tolist() == [0, *asked.ids, 2, 2, *headers]
    assert found.question_tokens.tolist() == list(range(1, 1 + len(asked.ids)))
    for (start, end), ids in zip(found.headers, bare, strict=True):
        assert found.token_ids[start:end].tolist() == ids
    # The extra blank before "lives" is a token of no word.
    words = [asked.tokens[place] for place in found.word_first]
    assert len(words) == 5 and "Ġ" in asked.tokens and "Ġ" not in words
    assert words[1].removeprefix("Ġ")[:1] == "l" and words[3].removeprefix("Ġ")[:1] == "R"
    with pytest.raises(InputError, match="max_tokens: expected at least 10, found 9"):
        inputs_of(Tokenizer(official), (text, table, "Ada"), max_tokens=9)
