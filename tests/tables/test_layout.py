"""What is left of an input that is too long, beside what taking piece by piece leaves."""

import random

import numpy as np
import pytest

from hardem_jax.data.tokenizer import PairTemplate
from hardem_jax.queries.inputs import remaining_queries
from hardem_jax.tables.layout import cut_lengths, least_max_tokens, pieces_of_words, shorten

BERT = PairTemplate((2,), (3,), (3,))
ROBERTA = PairTemplate((0,), (2, 2), (2,))


def cut_one_by_one(question, headers, max_tokens, max_header_tokens, total):
    lengths, half = [min(n, max_header_tokens) for n in headers], max_tokens // 2
    while total(question, lengths) > max_tokens and max(lengths, default=1) > 1:
        lengths[max(range(len(lengths)), key=lambda c: (lengths[c], c))] -= 1
    while total(question, lengths) > max_tokens and question > half:
        question -= 1
    while total(question, lengths) > max_tokens:
        lengths.pop()
    return question, lengths


@pytest.mark.parametrize(("template", "least"), [(BERT, 8), (ROBERTA, 10)])
def test_cutting_is_taking_piece_by_piece(template, least):
    def total(question, lengths):
        return template.second_start(question) + sum(lengths) + len(lengths)

    assert least_max_tokens(template) == least
    rng = random.Random(0)
    seen = {"whole": 0, "headers": 0, "question": 0, "columns": 0}
    for _ in range(3_000):
        headers = [1 + min(20, int(rng.expovariate(0.3))) for _ in range(rng.randrange(12))]
        question, room, widest = rng.randint(1, 40), rng.randint(least, 60), rng.randint(1, 12)
        read, lengths = cut_lengths(
            question, np.array(headers, np.int64), room, widest, template=template
        )
        assert (read, lengths.tolist()) == cut_one_by_one(question, headers, room, widest, total)
        assert total(read, lengths) <= room and read >= 1 and (lengths >= 1).all()
        assert len(lengths) or not headers  # a column is always left
        seen["headers"] += any(n < m for n, m in zip(lengths, headers, strict=False))
        seen["question"] += read < question
        seen["columns"] += len(lengths) < len(headers)
        seen["whole"] += (read, lengths.tolist()) == (question, headers)
    assert min(seen.values()) > 100, seen


def test_shortening_stops_at_the_room_and_at_one():
    lengths = np.array([5, 1, 6])
    for room in (-5, 0, 3, 4, 11, 12, 100):
        found = shorten(lengths, room)
        assert found.sum() == min(max(room, 3), 12) and (found >= 1).all()
    assert lengths.tolist() == [5, 1, 6]
    assert shorten(np.zeros(0, np.int64), room).shape == (0,)


def test_a_piece_may_be_of_several_words_and_a_word_of_none():
    words = np.array([[0, 2], [2, 3], [3, 5], [6, 7], [8, 10]])
    offsets = np.array([[0, 5], [8, 9], [9, 10]])  # the fourth word was dropped
    for read, expected in {
        3: ([0, 0, 0, -1, 1], [0, 0, 0, -1, 2]),
        2: ([0, 0, 0], [0, 0, 0]),  # half a word is none
        1: ([0, 0, 0], [0, 0, 0]),
        0: ([], []),
    }.items():
        first, last = pieces_of_words(words, offsets, read)
        assert (first.tolist(), last.tolist()) == expected
        assert first.dtype == last.dtype == np.int32
    nothing, some = np.zeros((0, 2), np.int32), np.array([[0, 2]])
    for words, offsets in ((nothing, some), (some, nothing), (nothing, nothing)):
        first, last = pieces_of_words(words, offsets, len(offsets))
        assert first.shape == last.shape == (0,)


def test_queries_remain_if_all_that_they_use_does():
    rng = np.random.default_rng(0)
    num_words, num_columns = 6, 4
    queries = np.full((400, 15), -1, np.int16)
    for row in queries:
        count = rng.integers(4)
        row[:3] = rng.integers(num_columns), rng.integers(6), count
        for place in range(count):
            first, last = np.sort(rng.integers(num_words, size=2))
            row[3 + 4 * place :][:4] = rng.integers(num_columns), rng.integers(3), first, last
    word_first = np.array([0, -1, 2, 3, 5])  # of six words, the second has no piece
    found = remaining_queries(queries, word_first, num_words, num_columns - 1)
    for row, remains in zip(queries.tolist(), found, strict=True):
        select, _, count, *rest = row
        parts = [rest[4 * place :][:4] for place in range(count)]
        words = {word for part in parts for word in part[2:]}
        columns = {select, *(part[0] for part in parts)}
        assert remains == (max(columns) < num_columns - 1 and words <= {0, 2, 3, 4})
    assert 0 < found.sum() < len(found)
    assert remaining_queries(queries[:0], word_first, num_words, 1).shape == (0,)
