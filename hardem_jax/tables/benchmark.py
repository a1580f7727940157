"""Where the benchmark of a task on tables puts a question and the headers after it."""

from __future__ import annotations

import numpy as np

from hardem_jax.task.benchmark import BatchSizes

#: Tokens of a header.
COLUMN_PIECES = 3


def question_and_headers(sizes: BatchSizes) -> tuple[int, np.ndarray]:
    """Words of a question of a third of the row, and the first token of each header after it."""
    words, width = sizes.tokens // 3, 1 + COLUMN_PIECES  # and [SEP]
    begin = words + 2  # [CLS] question [SEP]
    columns = max(1, (sizes.tokens - begin) // width)
    return words, begin + width * np.arange(columns)
