"""Random batches of the benchmark are batches of windows."""

import numpy as np

from hardem_jax.spans.benchmark import random_batch
from hardem_jax.task.benchmark import BatchSizes

SIZES = BatchSizes(rows=6, tokens=40, solutions=50, shortest=0.5)


def test_random_batch_has_the_layout_of_training():
    batch = random_batch(SIZES)
    lengths = batch["where"].sum(axis=1)
    assert lengths.min() >= 20 and lengths.min() < lengths.max() <= 40
    # [CLS], a question of 40 / 8 tokens, [SEP], context, [SEP].
    context = np.arange(40)[None] >= 7
    context = context & (np.arange(40)[None] < lengths[:, None] - 1)
    np.testing.assert_array_equal(batch["context"], context)
    assert batch["solutions_where"].any(axis=1).tolist() == [True] * 3 + [False] * 3
    for row in range(3):
        spans = batch["solutions"][row]
        assert batch["context"][row][spans].all() and (spans[:, 0] <= spans[:, 1]).all()
    np.testing.assert_array_equal(batch["solutions"], random_batch(SIZES)["solutions"])
