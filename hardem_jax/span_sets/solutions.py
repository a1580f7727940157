"""Sets of spans as solutions: every text of an answer, each at one or more of its mentions.

An answer of several texts, as in Quoref or DROP, does not say which mentions are meant. Z holds the
sets of mentions that hold each text and no overlap. Executing one, f(z), reads the distinct texts.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np


def enumerate_taggings(
    answers: Sequence[np.ndarray], *, max_taggings: int
) -> tuple[np.ndarray, np.ndarray]:
    """Z of a question whose answer consists of several texts.

    Args:
        answers: for each text ``[m, 2]`` int, first and last token of its mentions, both inclusive.
        max_taggings: at most this many, those with the fewest mentions. Up to a hundred times as
            many sets are tried, because some may overlap.

    Returns:
        ``[M, 2]`` int32, all mentions, text after text; and ``[Z, M]`` bool, which mentions each
        tagging uses. Taggings are sorted by number of mentions; the one made of each text's first
        mention comes first unless those overlap. Z is empty if a text has no mention.

    Example:
        >>> mentions, chosen = enumerate_taggings(
        ...     [np.array([[0, 1], [7, 8]]), np.array([[3, 3]])], max_taggings=10)
        >>> mentions.tolist()
        [[0, 1], [7, 8], [3, 3]]
        >>> chosen.astype(int).tolist()
        [[1, 0, 1], [0, 1, 1], [1, 1, 1]]
    """
    mentions = np.concatenate([np.zeros((0, 2)), *answers]).astype(np.int32)
    first, last = mentions.T
    overlap = (first[:, None] <= last) & (first <= last[:, None])
    np.fill_diagonal(overlap, False)
    ends = np.cumsum([len(own) for own in answers])
    texts = [range(end - len(own), end) for own, end in zip(answers, ends, strict=True)]
    rows: dict[frozenset[tuple[int, ...]], np.ndarray] = {}  # by places: texts may share some
    for subsets in itertools.islice(_by_size(texts), 100 * max_taggings):
        row = np.zeros(len(mentions), bool)
        row[list(subsets)] = True
        if not overlap[np.ix_(row, row)].any():
            rows.setdefault(frozenset(map(tuple, mentions[row].tolist())), row)
            if len(rows) == max_taggings:
                break
    return mentions, np.array([*rows.values()], bool).reshape(len(rows), len(mentions))


def _by_size(texts: Sequence[range]) -> Iterator[tuple[int, ...]]:
    """Sets with one or more members of each range, the small ones first; none without a range."""
    if not texts:
        return
    for total in range(len(texts), sum(map(len, texts)) + 1):
        for sizes in _sizes(texts, total):
            parts = [
                itertools.combinations(own, size) for own, size in zip(texts, sizes, strict=True)
            ]
            for combination in itertools.product(*parts):
                yield tuple(itertools.chain.from_iterable(combination))


def _sizes(texts: Sequence[range], total: int) -> Iterator[tuple[int, ...]]:
    """How many members to take of each range, one at least, so that they are ``total``."""
    if not texts:
        if not total:
            yield ()
        return
    rest = texts[1:]
    for own in range(1, min(len(texts[0]), total - len(rest)) + 1):
        for others in _sizes(rest, total - own):
            yield own, *others
