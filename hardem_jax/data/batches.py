"""From examples to padded batches of few fixed shapes.

Training on windows draws one positive (with mentions) and one negative (without)
per item, as the paper's open-domain reader does. A batch of B items is then ``2 B`` rows,
item after item. Rows are padded to the smallest *bucket* that holds the longest of them, so
that a step is compiled once per bucket and never again; or they are packed (`data.packing`).

What a batch holds is up to the task: it brings a `Pad`. In all of them ``row_where`` ``[R]`` bool
marks the real rows and ``ids`` lists R example ids, which stay on the host.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import grain
import numpy as np

from hardem_jax.data.packing import PADDING, packing_arrays, rows_needed
from hardem_jax.errors import InputError

T = TypeVar("T")
Batch = dict[str, Any]
#: R rows, None for one of padding, and the number of tokens T to pad to -> a batch.
Pad = Callable[[Sequence[T | None], int], Batch]


@dataclasses.dataclass(frozen=True)
class BatchConfig:
    """Shapes of batches.

    Attributes:
        batch_size: items of a training step, over all devices.
        buckets: lengths T to which batches are padded, ascending; longer windows are an error.
        max_solutions: Z; mentions beyond it are cut at the end of the row. None takes the
            largest row of the data, rounded up to a power of two, and cuts nothing. (The
            released code keeps 20.)
        negatives: windows without a mention drawn per item.
        packed_tokens: S, pack the inputs of a training step into rows of so many tokens; None
            pads every input to its bucket.
        accumulate: parts of a training step's batch that are computed one after another, to
            save memory.
    """

    batch_size: int = 20
    buckets: tuple[int, ...] = (64, 128, 192, 256, 300)
    max_solutions: int | None = None
    negatives: int = 1
    packed_tokens: int | None = None
    accumulate: int = 1

    def __post_init__(self):
        if self.batch_size < 1 or self.negatives < 0:
            raise InputError(f"{self}: batch_size must be at least 1, negatives at least 0")
        if not self.buckets or sorted(set(self.buckets)) != list(self.buckets):
            raise InputError(f"{self}: buckets must be distinct lengths in ascending order")
        if self.packed_tokens is not None and self.packed_tokens < 1:
            raise InputError(f"{self}: packed_tokens must be None or at least 1")
        if self.accumulate < 1 or self.batch_size % self.accumulate:
            raise InputError(f"{self}: accumulate must be at least 1 and divide batch_size")

    def bucket(self, length: int) -> int:
        """The smallest bucket that holds an input of ``length`` tokens; there must be one."""
        return self.buckets[int(np.searchsorted(self.buckets, length))]

    def num_solutions(self, sizes: np.ndarray) -> int:
        """Z for windows of these ``sizes`` (``[N, 2]``, see `records.RecordSource`)."""
        if self.max_solutions is not None:
            return self.max_solutions
        largest = int(sizes[:, 1].max(initial=1))
        return 1 << max(0, largest - 1).bit_length()


class Chosen(Sequence[T]):
    """Some items of a sequence, read when they are asked for.

    Example:
        >>> list(Chosen("abcd", np.array([3, 0])))
        ['d', 'a']
    """

    def __init__(self, items: Sequence[T], indices: np.ndarray):
        self._items, self._indices = items, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index):
        return self._items[int(self._indices[index])]


@dataclasses.dataclass(frozen=True)
class Step:
    """What goes into a training step.

    Attributes:
        num_tokens: T, to which inputs are padded.
        items: ``[B, K]`` int, the inputs of each item; `PADDING` for a row of padding.
        packed_rows: P / G, rows that a device packs; None if inputs are not packed.
    """

    num_tokens: int
    items: np.ndarray
    packed_rows: int | None = None


class Plan(Sequence[Step], abc.ABC):
    """Which inputs make up training step n: a pure function of seed and n.

    Every epoch takes all items in a new order and batches them within their bucket; what does not
    fill a batch moves up to the next bucket, so that an epoch leaves out less than one batch.
    Packed batches need no buckets; they differ in their number of rows, which is rounded
    up, by a sixteenth or less, so that there are few different ones.

    Args:
        lengths: ``[N]`` int, tokens of each input.
        num_items: in an epoch.
        config: batch size, buckets, packing.
        num_steps: length of the plan.
        seed: of all orders and draws.
        num_devices: G, which share a batch; each packs its own part of it.

    Attributes:
        config: as given.
        num_devices: as given.
        steps_per_epoch: full batches of one epoch.

    Raises:
        InputError: there is no full batch, an input that no bucket holds, or a batch that does not
            divide by the devices.
    """

    def __init__(
        self,
        lengths: np.ndarray,
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
        longest = int(lengths.max(initial=0))
        limit = min(config.buckets[-1], config.packed_tokens or longest)
        if longest > limit:
            raise InputError(
                f"training data: expected inputs of at most {limit} tokens "
                f"(the largest bucket or a packed row), found one of {longest}"
            )
        if config.packed_tokens and config.batch_size % (config.accumulate * num_devices):
            raise InputError(
                f"batches: {config.batch_size} items do not divide into {config.accumulate} parts "
                f"of {num_devices} devices to pack"
            )
        self.config = config
        self.num_devices = num_devices
        self.steps_per_epoch = num_items // config.batch_size
        self._lengths = lengths
        self._num_steps = num_steps
        self._seed = seed
        self._cached: tuple[int, list[Step]] = (-1, [])

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The items of an epoch in a new order: ``[num_items, K]`` int, see `Step`."""

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
            batches = list(epoch_steps(items, self._lengths_of(items)))
            batches = [batches[i] for i in rng.permutation(len(batches))]
            # One tuple, assigned at once: prefetching threads read it while another writes.
            self._cached = (epoch, batches)
        return batches[index]

    def _lengths_of(self, items: np.ndarray) -> np.ndarray:
        return np.where(items == PADDING, 0, self._lengths[items])

    def _bucketed(self, items: np.ndarray, lengths: np.ndarray) -> Iterator[Step]:
        size = self.config.batch_size
        bucket_of = np.searchsorted(self.config.buckets, lengths.max(axis=1))
        waiting = np.zeros(0, np.int64)
        for bucket, num_tokens in enumerate(self.config.buckets):
            waiting = np.concatenate([waiting, np.flatnonzero(bucket_of == bucket)])
            full = len(waiting) // size * size
            for chosen in waiting[:full].reshape(-1, size):
                yield Step(num_tokens, items[chosen])
            waiting = waiting[full:]

    def _packed(self, items: np.ndarray, lengths: np.ndarray) -> Iterator[Step]:
        config, row_tokens = self.config, self.config.packed_tokens or 0
        num_tokens = config.bucket(int(self._lengths.max()))
        parts = config.accumulate * self.num_devices
        # The mean over the data, not of this epoch: the rounding is that of all epochs.
        tokens = float(self._lengths.mean()) * config.batch_size * items.shape[1]
        multiple = max(1, int(tokens / parts / row_tokens / 16))
        for i in range(self.steps_per_epoch):
            own = slice(i * config.batch_size, (i + 1) * config.batch_size)
            rows = max(rows_needed(part, row_tokens) for part in lengths[own].reshape(parts, -1))
            yield Step(num_tokens, items[own], -(-rows // multiple) * multiple)


class TrainingPlan(Plan):
    """Items of one input with solutions and ``config.negatives`` without.

    Every epoch visits each positive once and pairs it with negatives drawn without replacement
    (with fewer negatives than positives they come round again, in a new order).

    Args:
        sizes: ``[N, 2]`` int, tokens and solutions of each input.
        config: see `Plan`, as are the others.

    Attributes:
        negatives: K - 1, which is ``config.negatives``, or 0 if there are no negatives at all.

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
        self._without = np.flatnonzero(sizes[:, 1] == 0)
        self.negatives = config.negatives if len(self._without) else 0
        super().__init__(
            sizes[:, 0],
            len(self._positives),
            config,
            num_steps=num_steps,
            seed=seed,
            num_devices=num_devices,
        )

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        positives = self._positives[rng.permutation(len(self._positives))]
        negatives = draw_rows(rng, len(self._without), len(positives), self.negatives)
        return np.concatenate([positives[:, None], self._without[negatives]], axis=1)


def draw_rows(rng: np.random.Generator, available: int, rows: int, columns: int) -> np.ndarray:
    """``[rows, columns]`` of the ``available`` indices, each drawn again only after all others."""
    needed = rows * columns
    rounds = -(-needed // available) if needed else 0
    draws = [rng.permutation(available) for _ in range(rounds)]
    return np.concatenate([np.zeros(0, np.int64), *draws])[:needed].reshape(rows, columns)


def training_batches(
    inputs: Sequence[T], plan: Plan, *, pad: Pad[T], shard: tuple[int, int] = (0, 1)
) -> grain.IterDataset:
    """The batches of a plan, read and padded in background threads; resumable at any step.

    Rows come item after item. With ``config.accumulate`` above 1 every array has an axis more in
    front, one part of the batch after another.

    Args:
        inputs: by index.
        plan: which of them go into which step.
        pad: makes a batch of rows.
        shard: index and number of this process; each reads its part of the items.
    """
    index, count = shard
    config = plan.config

    def read_part(step: Step, items: np.ndarray) -> Batch:
        own = np.array_split(items, count)[index].reshape(-1)
        batch = pad([None if i == PADDING else inputs[i] for i in own], step.num_tokens)
        if config.packed_tokens and step.packed_rows:
            batch |= packing_arrays(
                batch["where"],
                num_devices=plan.num_devices // count,
                num_rows=step.packed_rows,
                row_tokens=config.packed_tokens,
            )
        return batch

    def read(step: Step) -> Batch:
        parts = [read_part(step, items) for items in np.split(step.items, config.accumulate)]
        if len(parts) == 1:
            return parts[0]
        ids = [name for part in parts for name in part["ids"]]
        arrays = (name for name in parts[0] if name != "ids")
        return {name: np.stack([part[name] for part in parts]) for name in arrays} | {"ids": ids}

    return grain.MapDataset.source(plan).map(read).to_iter_dataset()


def evaluation_batches(
    examples: Sequence[T], lengths: np.ndarray, *, config: BatchConfig, pad: Pad[T]
) -> Iterator[tuple[np.ndarray, Batch]]:
    """All examples once, in batches of ``config.batch_size`` rows of similar length.

    Args:
        examples: by index.
        lengths: ``[N]`` int tokens of each.
        config: batch size and buckets; an example longer than the last bucket is an error.
        pad: makes a batch of rows.

    Yields:
        The indices of the examples and their batch. The last batch of a bucket is filled up
        with rows of padding, for which there is no index.
    """
    if lengths.max(initial=0) > config.buckets[-1]:
        raise InputError(
            f"data: expected inputs of at most {config.buckets[-1]} tokens (the largest bucket), "
            f"found one of {lengths.max()}"
        )
    bucket_of = np.searchsorted(config.buckets, lengths)
    for bucket, num_tokens in enumerate(config.buckets):
        members = np.flatnonzero(bucket_of == bucket)
        for begin in range(0, len(members), config.batch_size):
            chosen = members[begin : begin + config.batch_size]
            rows: list[T | None] = [examples[i] for i in chosen]
            rows += [None] * (config.batch_size - len(rows))
            yield chosen, pad(rows, num_tokens)
