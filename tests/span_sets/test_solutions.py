"""Z of answers of several texts: every text somewhere, no overlap, nothing twice."""

import itertools

import numpy as np
import pytest

from hardem_jax.span_sets.solutions import enumerate_taggings

THREE = [np.array([[0, 1], [4, 4], [9, 9]]), np.array([[1, 2], [6, 6]]), np.array([[7, 8]])]


def every_set(answers):
    """Brute force: sets of mentions in which every text occurs and no two overlap."""
    owners = [text for text, own in enumerate(answers) for _ in own]
    spans = [tuple(span) for own in answers for span in own.tolist()]
    for row in itertools.product([False, True], repeat=len(spans)):
        chosen = [span for span, taken in zip(spans, row, strict=True) if taken]
        texts = {text for text, taken in zip(owners, row, strict=True) if taken}
        tokens = [t for first, last in chosen for t in range(first, last + 1)]
        if texts == set(range(len(answers))) and len(tokens) == len(set(tokens)):
            yield row


def test_all_sets_are_found_and_small_ones_first():
    mentions, chosen = enumerate_taggings(THREE, max_taggings=100)
    assert mentions.tolist() == [[0, 1], [4, 4], [9, 9], [1, 2], [6, 6], [7, 8]]
    assert {tuple(row) for row in chosen.tolist()} == set(every_set(THREE))
    assert len(chosen) == len(set(every_set(THREE)))
    sizes = chosen.sum(axis=1)
    assert (np.diff(sizes) >= 0).all() and sizes[0] == 3
    # The first mentions of the first two texts overlap.
    assert chosen[0].tolist() == [True, False, False, False, True, True]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_the_smallest_are_kept(count):
    everything = enumerate_taggings(THREE, max_taggings=100)[1]
    assert (enumerate_taggings(THREE, max_taggings=count)[1] == everything[:count]).all()


@pytest.mark.parametrize("answers", [[], [np.array([[1, 2]]), np.zeros((0, 2), int)]])
def test_a_text_without_mention_leaves_z_empty(answers):
    mentions, chosen = enumerate_taggings(answers, max_taggings=9)
    assert chosen.shape == (0, len(mentions))
