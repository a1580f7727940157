"""Questions as words: places of numbers, what a cut takes along, padding."""

import numpy as np
import pytest

from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import COUNT, MINUS, PASSAGE, PLUS, EquationRules
from hardem_jax.equations.words import (
    WordConfig,
    WordInputs,
    build_vocabularies,
    pad_word_inputs,
    read_texts,
    split_words,
)

RULES = EquationRules(special_numbers=False, question_numbers=False, max_count=9)
PASSAGE_TEXT = "A 41-yard kick, then 38 yards. It was 3 all, in 1990s terms."


def question(passage=PASSAGE_TEXT, asked="How many yards longer?", answer=3.0, rules=RULES):
    example = NumericExample("q", "p", passage, asked, answer, ())
    return numeric_question(example, NumberConfig(), rules)


def inputs(questions, **limits):
    config = WordConfig(**limits)
    return WordInputs(questions, *build_vocabularies(read_texts(questions, config)), config)


def as_set(rows):
    return {tuple(row) for row in rows.tolist()}


def test_numbers_are_at_the_words_that_hold_them():
    asked = question()
    found = inputs([asked])
    words = split_words(PASSAGE_TEXT)
    [item] = found
    assert [words.texts[i] for i in item.number_tokens] == ["41", "38", "3", "1990s"]
    assert asked.values.tolist() == [41, 38, 3, 1990]
    assert found.sizes.tolist() == [[len(words.texts), 3]]
    assert (found.num_numbers, found.num_question_words) == (4, 5)
    assert as_set(item.equations) == {(0, PLUS, 1, MINUS), (2, PLUS, -1, 0), (3, COUNT, -1, 0)}
    assert item.kinds.tolist() == [PASSAGE] * 4


# 41 is word 1, 38 word 7, 3 word 12.
@pytest.mark.parametrize(("limit", "numbers", "z"), [(13, 3, 3), (12, 2, 2), (7, 1, 1), (1, 0, 1)])
def test_a_cut_takes_numbers_along(limit, numbers, z):
    found = inputs([question()], max_passage_words=limit)
    [item] = found
    assert len(item.passage_words) == len(item.passage_chars) == limit == found.sizes[0, 0]
    assert len(item.number_tokens) == numbers and found.num_numbers == max(1, numbers)
    assert item.slots.tolist() == list(range(numbers))
    assert item.kinds.tolist() == [PASSAGE] * numbers
    assert found.sizes[0, 1] == len(item.equations) == z


def test_questions_are_cut_and_words_beyond_the_cut_are_not_counted():
    questions = [question(asked="How many yards longer?"), question(asked="Why?")]
    config = WordConfig(max_passage_words=4, max_question_words=2)
    texts = list(read_texts(questions, config))
    # One passage, two questions.
    assert [x.texts for x in texts] == [("A", "41", "-", "yard"), ("How", "many"), ("Why", "?")]
    found = WordInputs(questions, *build_vocabularies(texts), config)
    assert [len(item.question_words) for item in found] == [2, 2]
    assert found[0].passage_chars is found[1].passage_chars


def test_a_batch_has_room_for_all_and_nothing_in_the_padding():
    found = inputs([question(), question("Yards of 7.", "How?", 7.0), question("No.", "How?", 2.0)])
    sizes = dict(num_question_words=6, num_characters=16, num_numbers=5, num_solutions=4)
    rows = [*found, None]
    batch = pad_word_inputs(rows, 20, **sizes)
    shapes = {name: value.shape for name, value in batch.items()}
    assert shapes == {
        **{"passage_words": (4, 20), "passage_chars": (4, 20, 16), "passage_where": (4, 20)},
        **{"question_words": (4, 6), "question_chars": (4, 6, 16), "question_where": (4, 6)},
        **{"number_tokens": (4, 5), "numbers_where": (4, 5), "kinds": (4, 5)},
        **{"solutions": (4, 4, 4), "solutions_where": (4, 4)},
        **{"true_solution": (4,), "row_where": (4,)},
    }
    for row, item in enumerate(rows):
        for text in ("passage", "question"):
            words = () if item is None else getattr(item, f"{text}_words")
            where = batch[f"{text}_where"][row]
            np.testing.assert_array_equal(where, np.arange(len(where)) < len(words))
            np.testing.assert_array_equal(batch[f"{text}_words"][row][where], words)
            assert not batch[f"{text}_words"][row][~where].any()
            assert not batch[f"{text}_chars"][row][~where].any()
            if item is not None:
                chars = getattr(item, f"{text}_chars")
                np.testing.assert_array_equal(batch[f"{text}_chars"][row][where], chars)
    assert batch["numbers_where"].sum(axis=1).tolist() == [4, 1, 0, 0]
    assert batch["solutions_where"].sum(axis=1).tolist() == [3, 2, 1, 0]
    assert batch["row_where"].tolist() == [True, True, True, False]
