"""Training plans: which inputs make up each training step, and their batches.

When training on windows, an item is one positive (with mentions) and by default one negative
(without), as in the paper's open-domain reader, so a batch of B items has ``2 B`` rows, item by
item. Rows are padded to the smallest *bucket* that holds the longest of them, so that a step is
compiled only once per bucket, or packed (`data.batching.packing`).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hardem_jax.data.batching.packing import PADDING, packing_arrays, rounded_rows, rows_needed
from hardem_jax.data.batching.padding import Batch, BatchConfig, Items, Pad
from hardem_jax.errors import InputError

if TYPE_CHECKING:
    import grain

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Step:
    """The inputs and shapes of a training step.

    Attributes:
        num_tokens: T, the length to which inputs are padded.
        items: ``[B, K]`` int, indices of the inputs of each item; `PADDING` for a padded row.
        packed_rows: P / G, packed rows per device; None if inputs are not packed.
    """

    num_tokens: int
    items: np.ndarray
    packed_rows: int | None = None


class Plan(Sequence[Step], abc.ABC):
    """The inputs of every training step n, as a pure function of seed and n.

    Every epoch shuffles the items and batches them by bucket. Items that do not fill a batch move
    up to the next bucket, so an epoch leaves out less than one batch. Packed batches need no
    buckets; their number of rows is rounded up by at most a sixteenth, so that there are few
    different shapes.

    Args:
        sizes: ``[N, 2]`` int, tokens and solutions of each input.
        num_items: items in an epoch.
        config: batch size, buckets, packing.
        num_steps: length of the plan.
        seed: seed of shuffling and sampling.
        num_devices: G, devices that share a batch; each packs its own part of it.

    Attributes:
        config: as given.
        num_devices: as given.
        steps_per_epoch: full batches in an epoch.
        negatives: k, inputs without a solution at the end of each item: ``config.negatives``, or
            0 if the data has none.

    Raises:
        InputError: there is no full batch, an input exceeds the largest bucket, or a batch to
            pack cannot be divided evenly among the devices.
    """

    def __init__(
        self,
        sizes: np.ndarray,
        num_items: int,
        config: BatchConfig,
        *,
        num_steps: int,
        seed: int,
        num_devices: int = 1,
    ):
        if num_items < config.batch_size:
            raise InputError(
                f"training data: expected at least one batch of {config.batch_size} inputs with a "
                f"solution, found {num_items}"
            )
        longest = int(sizes[:, 0].max(initial=0))
        limit = min(config.buckets[-1], config.packed_tokens or longest)
        if longest > limit:
            raise InputError(
                f"training data: expected inputs of at most {limit} tokens "
                f"(the largest bucket or packed row), found one of {longest}"
            )
        if config.packed_tokens and config.batch_size % (config.accumulate * num_devices):
            raise InputError(
                f"batches.batch_size: expected a multiple of {config.accumulate * num_devices} "
                f"for packing ({config.accumulate} micro-batches on {num_devices} devices), "
                f"found {config.batch_size}"
            )
        self.config = config
        self.num_devices = num_devices
        self.steps_per_epoch = num_items // config.batch_size
        self._lengths = sizes[:, 0]
        self._without = np.flatnonzero(sizes[:, 1] == 0)
        self.negatives = config.negatives if len(self._without) else 0
        self._num_steps = num_steps
        self._seed = seed
        self._cached: tuple[int, list[Step]] = (-1, [])

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Returns the shuffled items of an epoch, ``[num_items, K]`` int, see `Step`."""

    def draw_negatives(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """Samples inputs without a solution, ``[rows, k]``; none repeats before all were used."""
        needed = rows * self.negatives
        rounds = -(-needed // len(self._without)) if needed else 0
        draws = [rng.permutation(self._without) for _ in range(rounds)]
        drawn = np.concatenate([np.zeros(0, np.int64), *draws])
        return drawn[:needed].reshape(rows, self.negatives)

    def __len__(self) -> int:
        return self._num_steps

    def __getitem__(self, step):
        if not 0 <= step < self._num_steps:
            raise IndexError(step)
        epoch, index = divmod(int(step), self.steps_per_epoch)
        cached_epoch, batches = self._cached
        if cached_epoch != epoch:
            rng = np.random.default_rng((self._seed, epoch))
            items = self.draw(rng)
            epoch_steps = self._packed if self.config.packed_tokens else self._bucketed
            batches = list(epoch_steps(items, self._item_lengths(items)))
            batches = [batches[i] for i in rng.permutation(len(batches))]
            # A single tuple, assigned atomically: prefetching threads may read it meanwhile.
            self._cached = (epoch, batches)
        return batches[index]

    def _item_lengths(self, items: np.ndarray) -> np.ndarray:
        return np.where(items == PADDING, 0, self._lengths[items])

    def _bucketed(self, items: np.ndarray, lengths: np.ndarray) -> Iterator[Step]:
        size = self.config.batch_size
        bucket_indices = np.searchsorted(self.config.buckets, lengths.max(axis=1))
        waiting = np.zeros(0, np.int64)
        for bucket, num_tokens in enumerate(self.config.buckets):
            waiting = np.concatenate([waiting, np.flatnonzero(bucket_indices == bucket)])
            full = len(waiting) // size * size
            for chosen in waiting[:full].reshape(-1, size):
                yield Step(num_tokens, items[chosen])
            waiting = waiting[full:]

    def _packed(self, items: np.ndarray, lengths: np.ndarray) -> Iterator[Step]:
        config, row_tokens = self.config, self.config.packed_tokens or 0
        num_tokens = config.bucket(int(self._lengths.max()))
        parts = config.accumulate * self.num_devices
        for i in range(self.steps_per_epoch):
            own = slice(i * config.batch_size, (i + 1) * config.batch_size)
            rows = max(rows_needed(part, row_tokens) for part in lengths[own].reshape(parts, -1))
            yield Step(num_tokens, items[own], rounded_rows(rows))


class TrainingPlan(Plan):
    """Items of one input with solutions and ``config.negatives`` without.

    Every epoch visits each positive once and pairs it with negatives sampled without replacement;
    if they run out, all are shuffled and used again.

    Args:
        sizes: ``[N, 2]`` int, tokens and solutions of each input.
        config, num_steps, seed, num_devices: see `Plan`.

    Example:
        >>> sizes = np.array([[9, 1], [30, 2], [12, 1], [8, 1], [10, 0]])
        >>> plan = TrainingPlan(sizes, BatchConfig(batch_size=2, buckets=(16, 32)), num_steps=3,
        ...     seed=0)
        >>> [(step.num_tokens, step.items[:, 1].tolist()) for step in plan]
        [(32, [4, 4]), (16, [4, 4]), (32, [4, 4])]
    """

    def __init__(
        self,
        sizes: np.ndarray,
        config: BatchConfig,
        *,
        num_steps: int,
        seed: int,
        num_devices: int = 1,
    ):
        self._positives = np.flatnonzero(sizes[:, 1] > 0)
        schedule = {"num_steps": num_steps, "seed": seed, "num_devices": num_devices}
        super().__init__(sizes, len(self._positives), config, **schedule)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        positives = self._positives[rng.permutation(len(self._positives))]
        negatives = self.draw_negatives(rng, len(positives))
        return np.concatenate([positives[:, None], negatives], axis=1)


def training_batches(
    inputs: Items[T], plan: Plan, *, pad: Pad[T], shard: tuple[int, int] = (0, 1)
) -> grain.IterDataset:
    """Reads and pads the batches of a plan in background threads; resumable at any step.

    Rows are ordered item by item. To what `pad` makes, a batch adds ``item``, ``[R]`` int32: the
    index of each row's input, by which a step keeps what it remembers of it. It is `PADDING` for
    padded rows and for sampled negatives, which have no Z and may be in a batch more than once; all
    others are in an epoch at most once. With ``config.accumulate`` above 1, arrays have an
    additional leading axis, one entry per micro-batch.

    Args:
        inputs: the model inputs.
        plan: which inputs go into which step.
        pad: builds a batch from rows.
        shard: index of this process and number of processes; each reads its part of the items.
    """

    import grain  # imports jax, which computing a plan does not need

    def read(step: Step) -> Batch:
        return _read(step, inputs, plan, pad, shard)

    return grain.MapDataset.source(plan).map(read).to_iter_dataset()


def example_batches(plan: Plan, *, pad: Pad, shard: tuple[int, int] = (0, 1)) -> list[Batch]:
    """Returns an all-padding batch for each shape of the first epoch, largest first.

    The training step can be compiled for them before any data is read. For the arguments see
    `training_batches`.
    """
    epoch = [plan[i] for i in range(min(len(plan), plan.steps_per_epoch))]
    shapes = {(step.packed_rows or 0, step.num_tokens): step for step in epoch}
    steps = [shapes[shape] for shape in sorted(shapes, reverse=True)]
    empty = (dataclasses.replace(x, items=np.full_like(x.items, PADDING)) for x in steps)
    return [_read(step, (), plan, pad, shard) for step in empty]


def _read(step: Step, inputs: Items[T], plan: Plan, pad: Pad[T], shard: tuple[int, int]) -> Batch:
    """Reads this process's part of the batch of a step."""
    (index, count), config = shard, plan.config

    def read_part(items: np.ndarray) -> Batch:
        items = np.array_split(items, count)[index]
        own = items.reshape(-1)
        rows = [None if i == PADDING else inputs[i] for i in own]
        arrays = {**pad(rows, step.num_tokens), "item": _own_items(items, plan.negatives)}
        if config.packed_tokens and step.packed_rows:
            arrays |= packing_arrays(
                arrays["where"],
                num_devices=plan.num_devices // count,
                num_rows=step.packed_rows,
                row_tokens=config.packed_tokens,
            )
        return Batch([getattr(row, "id", "") for row in rows], arrays)

    parts = [read_part(items) for items in np.split(step.items, config.accumulate)]
    if len(parts) == 1:
        return parts[0]
    return Batch(
        ids=[id for part in parts for id in part.ids],
        arrays={name: np.stack([part.arrays[name] for part in parts]) for name in parts[0].arrays},
    )


def _own_items(items: np.ndarray, negatives: int) -> np.ndarray:
    """``[R]`` int32, the inputs of all rows but padded ones and negatives."""
    own = items.astype(np.int32)
    own[:, items.shape[1] - negatives :] = PADDING
    return own.reshape(-1)
