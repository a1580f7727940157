"""Random batches of the benchmark are batches of taggings."""

import numpy as np

from hardem_jax.span_sets.benchmark import random_batch
from hardem_jax.task.benchmark import BatchSizes


def test_random_taggings_mark_mentions_that_do_not_overlap():
    batch = random_batch(BatchSizes(rows=4, tokens=48, solutions=6))
    first, last = np.moveaxis(batch["mentions"], -1, 0)
    assert np.all(first <= last) and np.all(last[:, :-1] < first[:, 1:])
    assert np.all(last < batch["words_where"].sum(axis=1, keepdims=True))
    assert np.all(batch["solutions"].any(axis=-1))
