"""Inputs of the tagger: where numbers stand, what cutting takes with it, and padding."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.data.batching.padding import fitting
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.inputs import (
    EquationInput,
    NumericInput,
    TaggerInputs,
    at_slots,
    pad_equations,
    pad_inputs,
)
from hardem_jax.equations.readers import read_drop
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import (
    COUNT,
    MINUS,
    NONE,
    PASSAGE,
    PLUS,
    QUESTION,
    SPECIAL,
    SPECIAL_NUMBERS,
    EquationRules,
)
from hardem_jax.errors import InputError
from tests.tiny import roberta_tokenizer, wordpieces

S = len(SPECIAL_NUMBERS)
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "?", "4", "##1", "3", "##8", "##5", "9"]
PAD, UNK, CLS, SEP, A, B, ASK, FOUR, _1, THREE, _8, _5, NINE = range(len(PIECES))


@pytest.fixture(scope="module")
def tokenizer():
    """Cuts numbers up into digits."""
    return Tokenizer(wordpieces(PIECES))


def question(passage, text="a 95 ?", answer=3.0, true=None, **rules):
    example = NumericExample("q", "p", passage, text, answer, (), true)
    return numeric_question(example, NumberConfig(), EquationRules(**rules))


def inputs_of(tokenizer, *questions, **limits):
    limits = {"max_tokens": 16, "max_question_tokens": 4} | limits
    return TaggerInputs(questions, tokenizer, **limits)


def test_an_input_is_question_and_passage_with_the_first_piece_of_every_number(tokenizer):
    found = inputs_of(tokenizer, question("b 41 a-38 b"))[0]
    assert found.token_ids.tolist() == [
        *(CLS, A, NINE, _5, ASK, SEP),
        *(B, FOUR, _1, A, UNK, THREE, _8, B, SEP),
    ]
    assert found.passage_start == 6
    assert found.number_tokens.tolist() == [7, 11, 2]
    assert found.kinds.tolist() == [SPECIAL] * S + [PASSAGE, PASSAGE, QUESTION]
    assert found.equations.tolist() == [[S, PLUS, S + 1, MINUS]]


def test_two_numbers_in_one_piece_have_the_same_token(tokenizer):
    # No piece of "41°38" but the unknown one, which holds both.
    found = inputs_of(tokenizer, question("b 41°38"))[0]
    assert found.token_ids[found.number_tokens].tolist() == [UNK, UNK, NINE]
    assert found.number_tokens[0] == found.number_tokens[1]


def test_equal_passages_are_tokenised_once(tokenizer):
    class Counting:
        pad_id, template = tokenizer.pad_id, tokenizer.template

        def encode(self, texts):
            seen.append(list(texts))
            return tokenizer.encode(texts)

    seen: list[list[str]] = []
    questions = [question(passage) for passage in ["b 41 38", "a 9", "b 41 38"]]
    together = inputs_of(Counting(), *questions)
    assert seen[0] == ["b 41 38", "a 9"]
    for one, asked in zip(together, questions, strict=True):
        alone = inputs_of(tokenizer, asked)[0]
        assert one.token_ids.tolist() == alone.token_ids.tolist()
        assert one.number_tokens.tolist() == alone.number_tokens.tolist()
    assert together.sizes.tolist() == [[len(one.token_ids), len(one.equations)] for one in together]
    assert together.num_numbers == 3


@pytest.mark.parametrize(("room", "kept"), [(9, 3), (8, 3), (7, 2), (5, 2), (4, 1), (2, 1), (1, 0)])
def test_numbers_beyond_the_cut_disappear_with_their_equations(tokenizer, room, kept):
    # Pieces of the passage: b 4 ##1 a 3 ##8 a 3 ##5; a number whose first piece is read stays.
    asked = question("b 41 a 38 a 35", answer=3.0, true=(S + 1, PLUS, S + 2, MINUS))
    assert asked.equations[asked.true_equation].tolist() == [S + 1, PLUS, S + 2, MINUS]
    limit = 5 + room + 1
    found = inputs_of(tokenizer, asked, max_tokens=limit, max_question_tokens=3)[0]
    assert len(found.token_ids) == limit
    where = np.array([True] * kept + [False] * (3 - kept) + [True])  # the question's is read
    slots = np.concatenate([np.ones(S, bool), where])
    assert found.slots.tolist() == np.flatnonzero(slots).tolist()
    assert found.kinds[S:].tolist() == [PASSAGE] * kept + [QUESTION]
    assert len(found.number_tokens) == kept + 1
    remain = [all(slots[n] for n in (n1, n2) if n >= 0) for n1, _, n2, _ in asked.equations]
    np.testing.assert_array_equal(at_slots(found.equations, found.slots), asked.equations[remain])
    assert found.equations.max(initial=0) < len(found.kinds)
    assert found.true_equation == (1 if kept == 3 else -1)


def test_a_question_longer_than_the_limit_loses_its_last_numbers(tokenizer):
    asked = question("b 41 a 38", "a b a 9 b 35 ?", answer=9.0)
    assert [S + 2, PLUS, -1, NONE] in asked.equations.tolist()
    found = inputs_of(tokenizer, asked, max_question_tokens=3)[0]
    assert found.token_ids[:5].tolist() == [CLS, A, B, A, SEP]
    assert found.passage_start == 5 and found.token_ids[found.number_tokens[0]] == FOUR
    assert found.slots[S:].tolist() == [S, S + 1]
    assert [S + 2, PLUS, -1, NONE] not in at_slots(found.equations, found.slots).tolist()


def test_counts_survive_any_cut():
    asked = question("b 41 a 38", answer=3.0, true=(3, COUNT, -1, NONE), max_count=9)
    for kept in ([False, False, False], [True, False, True]):
        found = NumericInput.of(asked, np.arange(3), np.array(kept))
        assert found.equations.tolist() == [[3, COUNT, -1, NONE]] and found.true_equation == 0
        assert found.kinds.tolist() == [SPECIAL] * S + asked.kinds[S:][kept].tolist()
    # A count of 12 is none of slot 12, whatever becomes of that.
    asked = question("b 41 a 38", answer=12.0, max_count=12)
    assert [12, COUNT, -1, NONE] in asked.equations.tolist()
    found = NumericInput.of(asked, np.arange(3), np.array([True, True, False]))
    assert found.equations[-1].tolist() == [12, COUNT, -1, NONE]
    assert at_slots(found.equations, found.slots).tolist() == found.equations.tolist()


def test_limits_without_room_and_empty_data_are_refused(tokenizer):
    with pytest.raises(InputError, match="max_tokens: expected more than 7, found 7"):
        inputs_of(tokenizer, question("b 41"), max_tokens=7)
    with pytest.raises(InputError, match="found none"):
        inputs_of(tokenizer)


ROW = EquationInput(
    id="q1",
    token_ids=np.array([CLS, A, SEP, FOUR, _1, THREE, SEP]),
    passage_start=3,
    slots=np.array([0, 1, 3]),
    number_tokens=np.array([3, 5]),
    kinds=np.array([SPECIAL, PASSAGE, PASSAGE]),
    equations=np.array([[1, PLUS, 2, MINUS], [1, PLUS, -1, NONE], [0, PLUS, 2, PLUS]]),
    true_equation=2,
)


def test_padding():
    batch = pad_inputs([ROW, None], 9, num_numbers=4, num_special=1, num_solutions=4, pad_id=PAD)
    nothing = [-1, NONE, -1, NONE]
    expected = {
        "token_ids": [[CLS, A, SEP, FOUR, _1, THREE, SEP, PAD, PAD], [PAD] * 9],
        "token_type_ids": [[0, 0, 0, 1, 1, 1, 1, 0, 0], [0] * 9],
        "where": [[1, 1, 1, 1, 1, 1, 1, 0, 0], [0] * 9],
        "number_tokens": [[3, 5, 0, 0], [0] * 4],
        "numbers_where": [[1, 1, 0, 0], [0] * 4],
        "kinds": [[SPECIAL, PASSAGE, PASSAGE, -1, -1], [-1] * 5],
        "solutions": [[*ROW.equations.tolist(), nothing], [nothing] * 4],
        "solutions_where": [[1, 1, 1, 0], [0] * 4],
        "true_solution": [2, -1],
        "row_where": [1, 0],
    }
    assert {name: np.asarray(batch[name]).astype(int).tolist() for name in expected} == expected
    assert set(batch) == set(expected)
    masks = {"where", "numbers_where", "solutions_where", "row_where"}
    for name in expected:
        assert batch[name].dtype == (bool if name in masks else np.int32), name


@pytest.mark.parametrize("room", [1, 2, 3, 6])
def test_of_a_larger_z_a_sample_is_in_the_batch_and_the_true_equation_found(room):
    equations = np.array([[0, PLUS, n2, PLUS] for n2 in range(6)])
    kept = fitting(ROW.id, 6, room).tolist()
    for true in range(-1, 6):
        row = dataclasses.replace(ROW, equations=equations, true_equation=true)
        batch = pad_equations([row], 3, room, num_special=1)
        assert batch["solutions"][0].tolist() == equations[kept].tolist()
        assert batch["solutions_where"].all()
        [found] = batch["true_solution"]
        assert (found == -1) if true not in kept else (kept[found] == true)
    assert room not in (2, 3) or kept != list(range(room))


@pytest.mark.slow
def test_pieces_of_real_texts_hold_the_first_character_of_their_number(shared_dir, minilm_dir):
    tokenizer = load_tokenizer(minilm_dir)
    file = shared_dir / "data" / "drop" / "drop_dataset_dev.json"
    config = NumberConfig(words="all", ordinals=True, fractions=True)
    examples = list(read_drop(file, skips=ExclusionCounts(), max_words=None))
    questions = [numeric_question(x, config, EquationRules(percent="term")) for x in examples]
    inputs = TaggerInputs(questions, tokenizer, max_tokens=256, max_question_tokens=24)
    numbers = cut = 0
    for asked, found in zip(questions, inputs, strict=True):
        passage, text = (tokenizer.encode([x])[0] for x in (asked.passage, asked.question))
        places = asked.spans[found.slots[S:] - S]
        for kind, (start, _), token in zip(
            found.kinds[S:], places, found.number_tokens, strict=True
        ):
            pieces, begin = (text, 1) if kind == QUESTION else (passage, found.passage_start)
            first, last = pieces.offsets[token - begin]
            assert first <= start < last
            assert found.token_ids[token] == pieces.ids[token - begin]
        numbers, cut = numbers + len(asked.spans), cut + len(asked.spans) - len(places)
    assert 0 < cut < numbers / 2


def test_numbers_are_at_their_first_token_in_roberta_too():
    official = roberta_tokenizer()
    passage, asked = "Ada ran\n\n 41 yards, Bo $38.", "How many  95 ?"
    [found] = inputs_of(
        Tokenizer(official), question(passage, asked), max_tokens=64, max_question_tokens=32
    )
    pair = official.encode(asked, passage)
    assert found.token_ids.tolist() == pair.ids
    assert found.passage_start == pair.sequence_ids.index(1)
    said = [pair.tokens[token].removeprefix("Ġ")[:1] for token in found.number_tokens]
    assert [pair.sequence_ids[token] for token in found.number_tokens] == [1, 1, 0]
    assert said == ["4", "3", "9"]
    with pytest.raises(InputError, match="max_tokens: expected more than 8, found 8"):
        inputs_of(Tokenizer(official), question("b 41"), max_tokens=8)
