"""Batches: padding is explicit, plans are fair and depend on nothing but seed and step."""

import dataclasses
import functools

import numpy as np
import pytest

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.batching.plans import (
    PADDING,
    TrainingPlan,
    evaluation_batches,
    example_batches,
    training_batches,
)
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.windows import Window
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
    rows = [window(0, length=6, mentions=2, true=1), None]
    batch = pad_windows(rows, 8, num_solutions=3, pad_id=99)
    expected = {
        "token_ids":       [[1, 2, 3, 4, 5, 6, 99, 99], [99] * 8],
        "token_type_ids":  [[0, 0, 0, 1, 1, 1,  0,  0], [0] * 8],
        "where":           [[1, 1, 1, 1, 1, 1,  0,  0], [0] * 8],
        "context":         [[0, 0, 0, 1, 1, 0,  0,  0], [0] * 8],
        "solutions_where": [[1, 1, 0], [0, 0, 0]],
        "true_solution":   [1, -1],
        "row_where":       [1, 0],
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_array_equal(np.asarray(batch[name]), np.array(value), err_msg=name)
    np.testing.assert_array_equal(batch["solutions"][0], [[3, 3], [4, 4], [0, 0]])
    masks = {"where", "context", "word_starts", "word_ends", "solutions_where", "row_where"}
    for name in batch:
        assert batch[name].dtype == (bool if name in masks else np.int32), name


def test_mentions_beyond_z_are_cut_from_the_end_and_a_cut_true_mention_is_unknown():
    batch = pad_windows([window(0, length=9, mentions=4, true=2)], 9, num_solutions=2, pad_id=0)
    assert batch["solutions"][0].tolist() == [[3, 3], [4, 4]]
    assert batch["true_solution"].tolist() == [-1]


@pytest.mark.parametrize(("largest", "expected"), [(0, 1), (1, 1), (2, 2), (3, 4), (33, 64)])
def test_z_covers_the_largest_row(largest, expected):
    two = np.array([[10, 0], [10, largest]])
    assert BatchConfig().num_solutions(two) == expected
    assert BatchConfig(max_solutions=20).num_solutions(two) == 20


def sizes(num_positives=50, num_negatives=30):
    """Tokens and mentions: the windows with a mention first, the others shorter."""
    rng = np.random.default_rng(0)
    tokens = [rng.integers(5, 65, num_positives), rng.integers(5, 17, num_negatives)]
    mentions = [np.ones(num_positives, int), np.zeros(num_negatives, int)]
    return np.stack([np.concatenate(tokens), np.concatenate(mentions)], axis=1)


def plan(num_positives=50, num_negatives=30, num_steps=40, seed=3, num_devices=1, **config):
    config = {"batch_size": 4, "buckets": (16, 32, 64)} | config
    return TrainingPlan(
        sizes(num_positives, num_negatives),
        BatchConfig(**config),
        num_steps=num_steps,
        seed=seed,
        num_devices=num_devices,
    )


PACKED = {"packed_tokens": 70, "batch_size": 8}


@pytest.mark.parametrize("config", [{}, PACKED])
def test_an_epoch_visits_every_positive_once_but_for_less_than_a_batch(config):
    steps = plan(**config)
    count = steps.steps_per_epoch
    assert count == 50 // steps.config.batch_size
    for epoch in range(3):
        drawn = np.concatenate([steps[epoch * count + i].items[:, 0] for i in range(count)])
        assert len(np.unique(drawn)) == len(drawn) == count * steps.config.batch_size
        assert drawn.max() < 50


@pytest.mark.parametrize("config", [{}, PACKED])
def test_no_length_is_left_out_more_often_than_another(config):
    # 20 short ones and 19 long ones, of which each epoch has 20.
    lengths = np.array([(10, 1)] * 20 + [(60, 1)] * 19)
    config = BatchConfig(**config | {"batch_size": 20, "buckets": (16, 64), "negatives": 0})
    steps = TrainingPlan(lengths, config, num_steps=400, seed=0)
    visits = np.bincount(np.concatenate([step.items[:, 0] for step in steps]), minlength=39)
    assert 0.45 < visits[20:].mean() / 400 < 0.57 and visits.min() > 150


@pytest.mark.parametrize("num_negatives", [1, 3, 200])
def test_negatives_come_round_evenly_however_few_there_are(num_negatives):
    steps = plan(num_negatives=num_negatives, num_steps=12)
    drawn = np.concatenate([step.items[:, 1] for step in steps]) - 50
    counts = np.bincount(drawn, minlength=num_negatives)
    assert len(drawn) == 48
    # 50 draws are planned, of which 2 fall to the dropped rest of the epoch.
    assert counts.max() - counts.min() <= 1 + 2


@pytest.mark.parametrize("config", [{}, PACKED])
def test_a_plan_is_a_pure_function_of_seed_and_step(config):
    one, two, other = plan(**config), plan(**config), plan(seed=4, **config)
    for step in (13, 30, 2, 7):  # out of order, first in the second epoch
        np.testing.assert_array_equal(one[step].items, two[step].items)
        assert one[step].num_tokens == two[step].num_tokens
        assert one[step].packed_rows == two[step].packed_rows
    assert any(not np.array_equal(one[i].items, other[i].items) for i in range(12))


def test_too_little_data_and_too_long_windows_are_named():
    with pytest.raises(InputError, match="at least one batch of 4 .* found 3; choose"):
        plan(num_positives=3)
    with pytest.raises(InputError, match=r"found 0 \(a split without answers"):
        plan(num_positives=0)
    with pytest.raises(InputError, match="at most 32 tokens .* found one of 6"):
        plan(buckets=(16, 32))
    with pytest.raises(InputError, match="at most 40 tokens .* found one of 6"):
        plan(packed_tokens=40)
    message = "multiple of 8 for packing .2 micro-batches on 4 devices., found 4"
    with pytest.raises(InputError, match=message):
        plan(packed_tokens=70, accumulate=2, num_devices=4)
    with pytest.raises(InputError, match="accumulate: expected a divisor of batch_size"):
        plan(accumulate=3)
    with pytest.raises(InputError, match="batch_size: expected an integer, found 4.0"):
        plan(batch_size=4.0)


WINDOWS = [window(i, length=6 + i % 20) for i in range(20)]
WINDOWS += [window(100 + i, mentions=0) for i in range(7)]


def plan_of_windows(num_steps=11, **config):
    tokens_and_mentions = np.array([(w.num_tokens, len(w.solutions)) for w in WINDOWS])
    config = {"batch_size": 4, "buckets": (16, 32)} | config
    devices = config.pop("num_devices", 1)
    return TrainingPlan(
        tokens_and_mentions, BatchConfig(**config), num_steps=num_steps, seed=0, num_devices=devices
    )


@pytest.mark.parametrize(
    ("negatives", "count", "devices", "rows"), [(0, 1, 4, 8), (1, 1, 8, 16), (0, 2, 8, 4)]
)
def test_batches_are_filled_up_to_equal_parts_for_the_devices(negatives, count, devices, rows):
    config = {"batch_size": 6, "negatives": negatives}
    [expected] = training_batches(WINDOWS, plan_of_windows(1, **config), pad=PAD)
    steps, found = plan_of_windows(1, num_devices=devices, **config), []
    for index in range(count):
        [batch] = training_batches(WINDOWS, steps, pad=PAD, shard=(index, count))
        real = 6 * (1 + negatives) // count
        assert len(batch.ids) == rows and not batch.arrays["row_where"][real:].any()
        found.append({name: x[:real] for name, x in batch.arrays.items()})
    for name, x in expected.arrays.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in found]), x)


def test_training_batches_resume_at_any_step():
    data = training_batches(WINDOWS, plan_of_windows(), pad=PAD)
    everything = list(data)
    assert len(everything) == 11
    iterator = iter(data)
    for _ in range(6):
        next(iterator)
    resumed = iter(data)
    resumed.set_state(iterator.get_state())
    for expected, got in zip(everything[6:], resumed, strict=True):
        np.testing.assert_array_equal(expected.arrays["token_ids"], got.arrays["token_ids"])
        assert expected.ids == got.ids


@pytest.mark.parametrize("config", [{}, {"packed_tokens": 30, "num_devices": 2}])
def test_shards_of_a_batch_together_are_the_batch(config):
    steps = plan_of_windows(**config)
    whole, *parts = (
        next(iter(training_batches(WINDOWS, steps, pad=PAD, shard=shard)))
        for shard in ((0, 1), (0, 2), (1, 2))
    )
    assert whole.ids == parts[0].ids + parts[1].ids
    assert all(part.arrays["solutions_where"].any(axis=1).sum() == 2 for part in parts)
    for name, value in whole.arrays.items():
        np.testing.assert_array_equal(value, np.concatenate([p.arrays[name] for p in parts]))
    assert ("packing" in whole.arrays) == bool(config)


@pytest.mark.parametrize("config", [{}, {"packed_tokens": 30, "num_devices": 2}])
def test_parts_to_accumulate_are_the_same_rows_stacked(config):
    whole = next(iter(training_batches(WINDOWS, plan_of_windows(**config), pad=PAD)))
    steps = plan_of_windows(accumulate=2, **config)
    stacked = next(iter(training_batches(WINDOWS, steps, pad=PAD)))
    assert whole.ids == stacked.ids
    for name in set(whole.arrays) - {"packing", "unpacking"}:
        assert stacked.arrays[name].shape[0] == 2
        np.testing.assert_array_equal(whole.arrays[name], np.concatenate(stacked.arrays[name]))
    if config:
        assert stacked.arrays["packing"].shape[:2] == (2, 2)  # parts, devices


@pytest.mark.parametrize("config", [{}, {"packed_tokens": 30}])
def test_rows_know_their_input_unless_it_is_padding_or_a_negative(config):
    batch = next(iter(training_batches(WINDOWS, plan_of_windows(**config), pad=PAD)))
    item, has_solutions = batch.arrays["item"], batch.arrays["solutions_where"].any(axis=1)
    assert item.dtype == np.int32 and (item >= 0).sum() == 4
    np.testing.assert_array_equal(item >= 0, has_solutions)
    ids = [batch.ids[row] for row in np.flatnonzero(item >= 0)]
    assert [WINDOWS[i].id for i in item[item >= 0]] == ids
    for example in example_batches(plan_of_windows(**config), pad=PAD):
        assert (example.arrays["item"] == -1).all()


@pytest.mark.parametrize("config", [{}, {"packed_tokens": 32, "batch_size": 4}])
def test_examples_have_every_shape_of_an_epoch_once_and_nothing_in_it(config):
    steps = plan_of_windows(**config)
    epoch = [steps[i] for i in range(steps.steps_per_epoch)]
    shapes = {(step.packed_rows or 0, step.num_tokens) for step in epoch}
    assert len(shapes) > 1
    examples = [example.arrays for example in example_batches(steps, pad=PAD)]
    found = []
    for example in examples:
        rows = example["packing"].shape[1] if config else 0
        found.append((rows, example["token_ids"].shape[1]))
        assert example["token_ids"].shape[0] == 2 * steps.config.batch_size
        assert not example["row_where"].any() and not example["where"].any()
    assert found == sorted(shapes, reverse=True)  # what does not fit fails first
    rows = {rows for rows, _ in shapes}  # later epochs have the same, but for larger ones
    later = [step.packed_rows or 0 for step in plan_of_windows(500, **config)]
    assert {n for n in later if n <= max(rows)} == rows
    assert len(example_batches(plan_of_windows(num_steps=1, **config), pad=PAD)) == 1
    first = next(iter(training_batches(WINDOWS, steps, pad=PAD))).arrays
    assert any({k: np.shape(v) for k, v in first.items()} == {k: np.shape(v) for k, v in e.items()}
               for e in examples)  # fmt: skip


def test_evaluation_visits_every_window_once_and_marks_the_filling():
    windows = [window(i, length=5 + i % 28) for i in range(23)]
    lengths = np.array([w.num_tokens for w in windows])
    config = BatchConfig(batch_size=4, buckets=(16, 32))
    seen = []
    for indices, batch in evaluation_batches(windows, lengths, config=config, pad=PAD):
        assert batch["token_ids"].shape[0] == 4
        np.testing.assert_array_equal(batch["row_where"], indices != PADDING)
        for i, row in zip(indices, batch["token_ids"], strict=True):
            if i != PADDING:
                expected = windows[i].token_ids
                np.testing.assert_array_equal(row[: len(expected)], expected)
                seen.append(i)
    assert sorted(seen) == list(range(23))


@pytest.mark.parametrize("num_devices", [1, 4])
def test_packed_evaluation_visits_every_window_once_in_batches_of_one_shape(num_devices):
    lengths = np.random.default_rng(0).integers(5, 33, 101)
    windows = [window(i, length=length) for i, length in enumerate(lengths)]
    config = BatchConfig(batch_size=16, buckets=(16, 32), packed_tokens=40)
    batches = list(
        evaluation_batches(windows, lengths, config=config, pad=PAD, num_devices=num_devices)
    )
    seen = np.concatenate([indices for indices, _ in batches])
    assert sorted(seen[seen != PADDING]) == list(range(101))
    assert len({str({n: x.shape for n, x in arrays.items()}) for _, arrays in batches}) == 1
    for indices, arrays in batches:
        np.testing.assert_array_equal(arrays["row_where"], indices != PADDING)
        assert arrays["packing"].shape[::2] == (num_devices, 40)
        assert (arrays["packing"] != PADDING).sum() == lengths[indices[indices != PADDING]].sum()
    read = sum(arrays["packing"].size for _, arrays in batches)
    padded = evaluation_batches(
        windows, lengths, config=dataclasses.replace(config, packed_tokens=None), pad=PAD
    )
    assert lengths.sum() <= read < sum(arrays["where"].size for _, arrays in padded)
