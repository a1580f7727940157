"""Batches of windows for the span reader."""

from collections.abc import Sequence

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.data.prepared.windows import Window


def pad_windows(
    windows: Sequence[Window | None], num_tokens: int, *, num_solutions: int, pad_id: int
) -> Arrays:
    """A batch of the given windows; None is a row of padding.

    What it holds, with R rows, T tokens and Z solutions:

    ==================  ================  ==============================================
    ``token_ids``       ``[R, T]`` int32  question and context with special tokens, padded
    ``token_type_ids``  ``[R, T]`` int32  1 from the context on
    ``where``           ``[R, T]`` bool   real tokens
    ``context``         ``[R, T]`` bool   tokens of the document that are not blank
    ``solutions``       ``[R, Z, 2]``     int32 first and last token of each mention
    ``solutions_where`` ``[R, Z]`` bool   real mentions
    ``true_solution``   ``[R]`` int32     index of the annotated mention or -1; not trained on
    ``row_where``       ``[R]`` bool      real rows
    ==================  ================  ==============================================

    Args:
        windows: R of them.
        num_tokens: T, at least the longest window.
        num_solutions: Z; further mentions of a row are dropped.
        pad_id: of the tokenizer.

    Example:
        >>> window = Window("q1", 0, "Oslo", 0, np.array([2, 7, 3, 8, 3]), 3,
        ...     np.array([[0, 4]]), np.array([[3, 3]]))
        >>> batch = pad_windows([window, None], 6, num_solutions=1, pad_id=0)
        >>> batch["token_ids"].tolist(), batch["context"][0].astype(int).tolist()
        ([[2, 7, 3, 8, 3, 0], [0, 0, 0, 0, 0, 0]], [0, 0, 0, 1, 0, 0])
    """
    rows = len(windows)
    batch: Arrays = {
        "token_ids": np.full((rows, num_tokens), pad_id, np.int32),
        "token_type_ids": np.zeros((rows, num_tokens), np.int32),
        "where": np.zeros((rows, num_tokens), bool),
        "context": np.zeros((rows, num_tokens), bool),
        "solutions": np.zeros((rows, num_solutions, 2), np.int32),
        "solutions_where": np.zeros((rows, num_solutions), bool),
        "true_solution": np.full(rows, -1, np.int32),
        "row_where": np.array([window is not None for window in windows]),
    }
    for row, window in enumerate(windows):
        if window is None:
            continue
        length, start = window.num_tokens, window.context_start
        not_blank = window.offsets[:, 0] < window.offsets[:, 1]
        solutions = window.solutions[:num_solutions]
        batch["token_ids"][row, :length] = window.token_ids
        batch["token_type_ids"][row, start:length] = 1
        batch["where"][row, :length] = True
        batch["context"][row, start : start + len(not_blank)] = not_blank
        batch["solutions"][row, : len(solutions)] = solutions
        batch["solutions_where"][row, : len(solutions)] = True
        if window.true_solution < num_solutions:
            batch["true_solution"][row] = window.true_solution
    return batch
