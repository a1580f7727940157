"""Items of several windows: fair, in document order, a pure function of seed and step."""

import numpy as np
import pytest

from hardem_jax.data.batching.grouped import GroupedPlan, group_ids
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.batching.plans import PADDING, training_batches

# Three questions: one of 4 windows in two documents, one of 1, one without a mention; windows with
# a mention come first, as in a prepared split.
PLACES = np.array([[0, 0, 1], [0, 1, 3], [1, 0, 0], [0, 0, 0], [0, 1, 2], [2, 0, 0], [2, 0, 1]])
SIZES = np.array([[8, 2], [9, 1], [5, 1], [8, 0], [7, 0], [6, 0], [12, 0]])


def plan(scope="question", group_size=4, batch_size=1, negatives=0, steps=40, seed=0):
    config = BatchConfig(batch_size=batch_size, buckets=(8, 12), negatives=negatives)
    return GroupedPlan(
        SIZES, PLACES, config, scope=scope, group_size=group_size, num_steps=steps, seed=seed
    )


def test_windows_without_a_question_in_common_are_never_together():
    for scope, columns in (("window", [0, 1, 2]), ("document", [0, 1]), ("question", [0])):
        ids = group_ids(PLACES, scope)
        for i, mine in enumerate(PLACES):
            for j, other in enumerate(PLACES):
                assert (ids[i] == ids[j]) == (mine[columns] == other[columns]).all()


def test_a_group_is_whole_in_document_order_and_padded():
    steps = plan().steps_per_epoch
    assert steps == 2  # the question without a mention is no item
    epoch = sorted(plan()[i].items[0].tolist() for i in range(steps))
    assert epoch == [[2, *[PADDING] * 3], [3, 0, 4, 1]]
    documents = [plan("document", 2)[i].items[0].tolist() for i in range(3)]
    assert sorted(documents) == [[2, PADDING], [3, 0], [4, 1]]


def test_of_a_large_group_one_with_a_mention_and_others_are_drawn():
    drawn = [step.items[0].tolist() for step in plan(group_size=2, steps=200)]
    drawn = [item for item in drawn if item[0] != 2]
    orders = {(3, 0), (3, 1), (0, 4), (4, 1), (0, 1)}  # never 3 and 4, which have no mention
    assert {tuple(item) for item in drawn} == orders
    # Each of the two with a mention is the chosen one half of the time.
    assert all(0.5 < np.mean([w in item for item in drawn]) < 0.85 for w in (0, 1))
    three = [step.items[0].tolist() for step in plan(group_size=3, steps=40)]
    # None twice, and three if there are.
    assert all(len(set(item) - {PADDING}) == 3 for item in three if item[0] != 2)


def test_negatives_follow_their_item_and_have_no_mention():
    for step in plan(batch_size=2, negatives=2):
        items = step.items
        assert items.shape == (2, 6)
        assert set(items[:, 4:].reshape(-1)) <= {3, 4, 5, 6}
        longest = max(SIZES[i, 0] for i in items.reshape(-1) if i != PADDING)
        assert step.num_tokens == (8 if longest <= 8 else 12)


@pytest.mark.parametrize("count", [1, 2])
def test_processes_read_whole_items(count):
    config = BatchConfig(batch_size=2, buckets=(12,), negatives=1)
    whole = GroupedPlan(SIZES, PLACES, config, scope="question", group_size=3, num_steps=1, seed=0)
    pad = lambda rows, num_tokens: {"rows": np.array([-1 if r is None else r for r in rows])}  # noqa: E731
    parts = [
        next(iter(training_batches(range(len(SIZES)), whole, pad=pad, shard=(i, count)))).arrays
        for i in range(count)
    ]
    rows, item = (np.concatenate([part[name] for part in parts]) for name in ("rows", "item"))
    np.testing.assert_array_equal(rows, whole[0].items.reshape(-1))
    # Every window of a group has a memory of its own, negatives have none.
    np.testing.assert_array_equal(item.reshape(2, 4)[:, :3], whole[0].items[:, :3])
    assert (item.reshape(2, 4)[:, 3] == PADDING).all()
