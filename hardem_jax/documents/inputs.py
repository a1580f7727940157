"""Batches of windows for the span reader."""

from collections.abc import Sequence

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.documents.examples import is_unknown
from hardem_jax.documents.windows import Window
from hardem_jax.words import cuts_word

#: Number of the part that says that there is no answer, see `pad_windows`.
NO_ANSWER = -1


def pad_windows(
    windows: Sequence[Window | None], num_tokens: int, *, num_solutions: int, pad_id: int
) -> Arrays:
    """A batch of R windows, None for a row of padding, with T tokens and Z solutions.

    ==================  ================  ==============================================
    ``token_ids``       ``[R, T]`` int32  question and context with special tokens, padded
    ``token_type_ids``  ``[R, T]`` int32  1 from the context on, which choices begin
    ``where``           ``[R, T]`` bool   real tokens
    ``context``         ``[R, T]`` bool   tokens of it that are not blank
    ``word_starts``     ``[R, T]`` bool   context tokens at which a span may begin: not inside a
                                          word or number
    ``word_ends``       ``[R, T]`` bool   context tokens at which a span may end
    ``parts``           ``[R, T]`` int32  0 in the document, 1, 2, ... in each choice in front of
                                          it, `NO_ANSWER` in the choice "unknown"
    ``solutions``       ``[R, Z, 2]``     int32 first and last token of each of the first Z mentions
    ``solutions_where`` ``[R, Z]`` bool   real mentions
    ``true_solution``   ``[R]`` int32     index of the annotated mention or -1; not trained on
    ``row_where``       ``[R]`` bool      real rows
    ==================  ================  ==============================================
    """
    rows = len(windows)
    marks = "where", "context", "word_starts", "word_ends"
    batch: Arrays = {
        "token_ids": np.full((rows, num_tokens), pad_id, np.int32),
        "token_type_ids": np.zeros((rows, num_tokens), np.int32),
        **{name: np.zeros((rows, num_tokens), bool) for name in marks},
        "parts": np.zeros((rows, num_tokens), np.int32),
        "solutions": np.zeros((rows, num_solutions, 2), np.int32),
        "solutions_where": np.zeros((rows, num_solutions), bool),
        "true_solution": np.full(rows, -1, np.int32),
        "row_where": np.array([window is not None for window in windows]),
    }
    real = [window for window in windows if window is not None]
    starts, ends = whole_words([w.text for w in real], [w.offsets for w in real])
    begin = 0
    for row, window in enumerate(windows):
        if window is None:
            continue
        length, start = window.num_tokens, window.context_start
        not_blank = window.offsets[:, 0] < window.offsets[:, 1]
        solutions = window.solutions[:num_solutions]
        batch["token_ids"][row, :length] = window.token_ids
        batch["token_type_ids"][row, start:length] = 1
        batch["where"][row, :length] = True
        inside, own = slice(start, start + len(not_blank)), slice(begin, begin + len(not_blank))
        begin += len(not_blank)
        batch["context"][row, inside] = not_blank
        batch["word_starts"][row, inside] = starts[own] & not_blank
        batch["word_ends"][row, inside] = ends[own] & not_blank
        if window.lead:
            batch["parts"][row, inside] = _parts(window)
            # A choice is an answer as a whole, also where each of its letters is a word.
            places = start + np.flatnonzero(not_blank)
            parts = batch["parts"][row, places]
            batch["word_starts"][row, places] &= (parts == 0) | (np.diff(parts, prepend=0) != 0)
            batch["word_ends"][row, places] &= (parts == 0) | (np.diff(parts, append=0) != 0)
        batch["solutions"][row, : len(solutions)] = solutions
        batch["solutions_where"][row, : len(solutions)] = True
        if window.true_solution < num_solutions:
            batch["true_solution"][row] = window.true_solution
    return batch


def _parts(window: Window) -> np.ndarray:
    """``[C]`` int32, which part of the text each token after the question belongs to."""
    words = window.choices
    ends = np.cumsum([len(word) + 1 for word in words])
    kinds = [NO_ANSWER if is_unknown(word) else i for i, word in enumerate(words, 1)]
    return np.array([*kinds, 0], np.int32)[np.searchsorted(ends, window.offsets[:, 0], "right")]


def whole_words(
    texts: Sequence[str], offsets: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Which tokens may begin, and which may end, a span of whole words and numbers.

    Every token that begins or ends a mention of some Z is among them. At the edges of a text,
    where it is unknown whether the word continues, every token is. ``offsets`` ``[C, 2]`` int of
    each text are characters of its tokens; the result ``[S]``, ``[S]`` bool is of the tokens of all
    texts, looked at together, which is ten times as fast as one by one.

    >>> starts, ends = whole_words(["Corbusier", "x"], [np.array([[0, 2], [2, 9]]),
    ...                                                 np.array([[0, 1]])])
    >>> starts.tolist(), ends.tolist()
    ([True, False, True], [False, True, True])
    """
    # A blank between them: no word continues from one text to the next.
    sizes = np.cumsum([0, *(len(text) + 1 for text in texts)])
    places = [part + shift for part, shift in zip(offsets, sizes, strict=False)]
    first, last = np.concatenate([np.zeros((0, 2), int), *places]).T
    cuts = cuts_word(" ".join(texts))
    # A token that is cut off may hold the boundary of another word, as "o_b" of "foo_bar" does.
    # What a tokenizer drops belongs to the token after it at a start, to the one before it at an
    # end.
    free = np.append(0, np.cumsum(~cuts))
    previous = np.append(0, last)[:-1]
    following = np.append(first, len(cuts) - 1)[1:]
    starts = free[np.maximum(last, previous)] > free[previous]
    ends = free[following + 1] > free[np.minimum(first, following) + 1]
    return starts, ends
