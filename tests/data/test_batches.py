"""Batches: padding is explicit, plans are fair and depend on nothing but seed and step."""

import functools

import numpy as np
import pytest

from hardem_jax.data.batches import (
    BatchConfig,
    TrainingPlan,
    evaluation_batches,
    training_batches,
)
from hardem_jax.data.windows import Window, pad_windows
from hardem_jax.errors import InputError

PAD = functools.partial(pad_windows, num_solutions=2, pad_id=0)


def window(number, length=6, mentions=1, true=-1):
    return Window(
        example_id=f"q{number}",
        document=0,
        text="x" * length,
        text_start=0,
        token_ids=np.arange(1, length + 1),
        context_start=3,
        offsets=np.stack([np.arange(length - 4), np.arange(length - 4) + 1], axis=1),
        solutions=np.array([[3 + i, 3 + i] for i in range(mentions)]).reshape(-1, 2),
        true_solution=true,
    )


def test_padding_table():
    batch = pad_windows(
        [window(0, length=6, mentions=2, true=1), None], 8, num_solutions=3, pad_id=99
    )
    expected = {
        "token_ids":       [[1, 2, 3, 4, 5, 6, 99, 99], [99] * 8],
        "token_type_ids":  [[0, 0, 0, 1, 1, 1,  0,  0], [0] * 8],
        "where":           [[1, 1, 1, 1, 1, 1,  0,  0], [0] * 8],
        "context":         [[0, 0, 0, 1, 1, 0,  0,  0], [0] * 8],
        "solutions_where": [[1, 1, 0], [0, 0, 0]],
        "true_solution":   [1, -1],
        "row_where":       [1, 0],
        "ids":             ["q0", ""],
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_array_equal(np.asarray(batch[name]), np.array(value), err_msg=name)
    np.testing.assert_array_equal(batch["solutions"][0], [[3, 3], [4, 4], [0, 0]])


def test_mentions_beyond_z_are_cut_from_the_end_and_a_cut_true_mention_is_unknown():
    batch = pad_windows([window(0, length=9, mentions=4, true=3)], 9, num_solutions=2, pad_id=0)
    assert batch["solutions"][0].tolist() == [[3, 3], [4, 4]]
    assert batch["true_solution"].tolist() == [-1]


@pytest.mark.parametrize(("largest", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (33, 64)])
def test_z_covers_the_largest_row(largest, expected):
    sizes = np.array([[10, 0], [10, largest]])
    assert BatchConfig().num_solutions(sizes) == expected
    assert BatchConfig(max_solutions=20).num_solutions(sizes) == 20


def plan(num_positives=50, num_negatives=30, num_steps=40, seed=3, **config):
    rng = np.random.default_rng(0)
    config = {"batch_size": 4, "buckets": (16, 32, 64)} | config
    return TrainingPlan(
        rng.integers(5, 65, num_positives),
        rng.integers(5, 17, num_negatives),
        BatchConfig(**config),
        num_steps=num_steps,
        seed=seed,
    )


def test_an_epoch_visits_every_positive_once_but_for_less_than_a_batch():
    steps = plan()
    assert steps.steps_per_epoch == 12
    for epoch in range(3):
        batches = [steps[epoch * 12 + i] for i in range(12)]
        drawn = np.concatenate([positives for _, positives, _ in batches])
        assert len(np.unique(drawn)) == len(drawn) == 48


def test_rows_fit_their_bucket_and_most_do_not_fit_a_smaller_one():
    rng = np.random.default_rng(0)
    lengths, negative_lengths = rng.integers(5, 65, 50), rng.integers(5, 17, 30)
    for num_tokens, positives, negatives in plan():
        longest = max(lengths[positives].max(), negative_lengths[negatives].max())
        assert longest <= num_tokens
    smaller = [t for t, positives, _ in plan() if t > 16 and lengths[positives].max() <= 16]
    assert not smaller


@pytest.mark.parametrize("num_negatives", [1, 3, 200])
def test_negatives_come_round_evenly_however_few_there_are(num_negatives):
    steps = plan(num_negatives=num_negatives, num_steps=12)
    drawn = np.concatenate([negatives for _, _, negatives in steps])
    counts = np.bincount(drawn, minlength=num_negatives)
    assert len(drawn) == 48
    # 50 draws are planned, of which 2 fall to the dropped rest of the epoch.
    assert counts.max() - counts.min() <= 1 + 2


def test_without_negatives_batches_hold_positives_alone():
    for _, positives, negatives in plan(num_negatives=0, num_steps=5):
        assert len(positives) == 4 and len(negatives) == 0


def test_negatives_change_from_epoch_to_epoch():
    steps = plan(num_negatives=1000, num_steps=24)
    first, second = (
        {int(n) for i in range(12) for n in steps[epoch * 12 + i][2]} for epoch in (0, 1)
    )
    assert len(first & second) < 20


def test_a_plan_is_a_pure_function_of_seed_and_step():
    one, two, other = plan(), plan(), plan(seed=4)
    for step in (30, 2, 17):  # out of order
        for a, b in zip(one[step], two[step], strict=True):
            np.testing.assert_array_equal(a, b)
    assert any(not np.array_equal(one[i][1], other[i][1]) for i in range(12))


def test_too_little_data_and_too_long_windows_are_named():
    with pytest.raises(InputError, match="at least one batch of 4 .* found 3"):
        plan(num_positives=3)
    with pytest.raises(InputError, match="at most 32 tokens .* found one of 6"):
        plan(buckets=(16, 32))


def test_training_batches_resume_at_any_step():
    positives = [window(i, length=6 + i % 20) for i in range(20)]
    negatives = [window(100 + i, mentions=0) for i in range(7)]
    steps = TrainingPlan(
        np.array([w.num_tokens for w in positives]),
        np.array([w.num_tokens for w in negatives]),
        BatchConfig(batch_size=4, buckets=(16, 32)),
        num_steps=11,
        seed=0,
    )
    data = training_batches(positives, negatives, steps, pad=PAD)
    everything = list(data)
    assert len(everything) == 11
    iterator = iter(data)
    for _ in range(6):
        next(iterator)
    resumed = iter(data)
    resumed.set_state(iterator.get_state())
    for expected, got in zip(everything[6:], resumed, strict=True):
        np.testing.assert_array_equal(expected["token_ids"], got["token_ids"])
        assert expected["ids"] == got["ids"]


def test_shards_of_a_batch_together_are_the_batch():
    positives = [window(i) for i in range(8)]
    negatives = [window(100 + i, mentions=0) for i in range(8)]
    steps = TrainingPlan(
        np.full(8, 6), np.full(8, 6), BatchConfig(batch_size=4, buckets=(16,)), num_steps=2, seed=0
    )
    whole, *parts = (
        next(iter(training_batches(positives, negatives, steps, pad=PAD, shard=s)))
        for s in ((0, 1), (0, 2), (1, 2))
    )
    assert sorted(whole["ids"]) == sorted(parts[0]["ids"] + parts[1]["ids"])
    assert all(part["solutions_where"].any(axis=1).sum() == 2 for part in parts)


def test_evaluation_visits_every_window_once_and_marks_the_filling():
    windows = [window(i, length=5 + i % 28) for i in range(23)]
    lengths = np.array([w.num_tokens for w in windows])
    config = BatchConfig(batch_size=4, buckets=(16, 32))
    seen = []
    for indices, batch in evaluation_batches(windows, lengths, config=config, pad=PAD):
        assert batch["token_ids"].shape[0] == 4
        assert batch["row_where"].sum() == len(indices)
        assert [batch["ids"][i] for i in range(len(indices))] == [f"q{i}" for i in indices]
        seen.extend(indices)
    assert sorted(seen) == list(range(23))
