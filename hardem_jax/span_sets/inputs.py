"""Batches of windows for a reader that tags words: sets of mentions as solutions."""

import itertools
from collections.abc import Sequence

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.documents.inputs import pad_windows, whole_words
from hardem_jax.documents.windows import Window
from hardem_jax.span_sets.solutions import enumerate_taggings


def words_of(window: Window) -> np.ndarray:
    """``[W]`` int32, the first token of each word of the document, see `pad_taggings`."""
    starts, _ = whole_words([window.text], [window.offsets])
    not_blank = window.offsets[:, 0] < window.offsets[:, 1]
    return (window.context_start + np.flatnonzero(starts & not_blank)).astype(np.int32)


def tokens_of(window: Window, words: np.ndarray, first: int, last: int) -> tuple[int, int]:
    """First and last token of a span of `words_of` a window; all places are inclusive."""
    end = window.context_start + len(window.offsets)
    end = int(words[last + 1]) if last + 1 < len(words) else end
    own = window.offsets[: end - window.context_start]
    not_blank = np.flatnonzero(own[:, 0] < own[:, 1])
    return int(words[first]), window.context_start + int(not_blank[-1])


def taggings_of(
    window: Window, words: np.ndarray, *, max_mentions: int, max_taggings: int
) -> tuple[np.ndarray, np.ndarray]:
    """``[M, 2]`` int32 first and last word of the mentions, ``[Z, M]`` bool which each tagging
    marks; no tagging if the answer has more texts than ``max_mentions``."""
    assert window.texts is not None
    mentions = np.searchsorted(words, window.solutions, "right") - 1
    by_text = [
        np.unique(mentions[window.texts == text], axis=0) for text in np.unique(window.texts)
    ]
    if len(by_text) > max_mentions:
        by_text = []
    share = max_mentions
    while sum(min(len(own), share) for own in by_text) > max_mentions:
        share -= 1
    return enumerate_taggings([own[:share] for own in by_text], max_taggings=max_taggings)


def window_with_z(windows: Sequence[Window]) -> int | None:
    """Index of the first window with the largest Z, that of its question; None if none has any."""
    best = max(range(len(windows)), key=lambda i: windows[i].num_solutions, default=None)
    return best if best is not None and windows[best].num_solutions else None


def marked_tokens(
    window: Window, *, max_mentions: int, max_taggings: int
) -> list[list[tuple[int, int]]]:
    """What each z of a window marks, see `taggings_of`: first and last token, in their order."""
    words = words_of(window)
    limits = {"max_mentions": max_mentions, "max_taggings": max_taggings}
    mentions, chosen = taggings_of(window, words, **limits)
    tokens = [tokens_of(window, words, *mention) for mention in mentions.tolist()]
    return [sorted(itertools.compress(tokens, row)) for row in chosen]


def marked_text(window: Window, spans: Sequence[tuple[int, int]]) -> str:
    """The texts of spans of tokens, for people."""
    return " | ".join(" ".join(window.span_text(*span).split()) for span in spans)


def pad_taggings(
    windows: Sequence[Window | None],
    num_tokens: int,
    *,
    num_taggings: int,
    max_mentions: int,
    pad_id: int,
) -> Arrays:
    """A batch of the given windows; None is a row of padding.

    What it holds, with R rows, T tokens, M mentions and Z taggings; a word is what cannot be cut,
    see `hardem_jax.documents.inputs.whole_words`, or one punctuation mark:

    ===================  ===================  ==============================================
    ``token_ids``, ...                        the tokens, as `pad_windows` has them
    ``words``            ``[R, T]`` int32     first token of each word of the document, in order
    ``words_where``      ``[R, T]`` bool      real words
    ``mentions``         ``[R, M, 2]`` int32  first and last word of each mention
    ``solutions``        ``[R, Z, M]`` bool   mentions that each tagging marks
    ``solutions_where``  ``[R, Z]`` bool      real taggings
    ``holds``            ``[R]`` bool         the window has all texts, listed taggings or not
    ===================  ===================  ==============================================
    """
    batch = pad_windows(windows, num_tokens, num_solutions=0, pad_id=pad_id)
    word_starts = batch["word_starts"]
    for name in ("word_starts", "word_ends", "parts", "true_solution"):
        del batch[name]
    rows = len(windows)
    counts = word_starts.sum(axis=1)
    words_where = np.arange(num_tokens) < counts[:, None]
    words = np.zeros((rows, num_tokens), np.int32)
    words[words_where] = np.nonzero(word_starts)[1]
    batch |= {
        "words": words,
        "words_where": words_where,
        "mentions": np.zeros((rows, max_mentions, 2), np.int32),
        "solutions": np.zeros((rows, num_taggings, max_mentions), bool),
        "solutions_where": np.zeros((rows, num_taggings), bool),
        "holds": np.array([window is not None and window.num_solutions > 0 for window in windows]),
    }
    for row, window in enumerate(windows):
        if window is None or not batch["holds"][row]:
            continue
        mentions, chosen = taggings_of(
            window, words[row, : counts[row]], max_mentions=max_mentions, max_taggings=num_taggings
        )
        batch["mentions"][row, : len(mentions)] = mentions
        batch["solutions"][row, : len(chosen), : len(mentions)] = chosen
        batch["solutions_where"][row, : len(chosen)] = True
    return batch
