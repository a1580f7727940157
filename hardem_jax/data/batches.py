"""From examples to padded batches of few fixed shapes.

Training on windows draws one positive (with mentions) and one negative (without)
per item, as the paper's open-domain reader does. A batch of B items is then ``2 B`` rows:
its positives, then its negatives. Rows are padded to the smallest *bucket* that holds
the longest of them, so that a step is compiled once per bucket and never again.

What a batch holds is up to the task: it brings a `Pad`. In all of them ``row_where`` ``[R]`` bool
marks the real rows and ``ids`` lists R example ids, which stay on the host.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import grain
import numpy as np

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
    """

    batch_size: int = 20
    buckets: tuple[int, ...] = (64, 128, 192, 256, 300)
    max_solutions: int | None = None
    negatives: int = 1

    def __post_init__(self):
        if self.batch_size < 1 or self.negatives < 0:
            raise InputError(f"{self}: batch_size must be at least 1, negatives at least 0")
        if not self.buckets or sorted(set(self.buckets)) != list(self.buckets):
            raise InputError(f"{self}: buckets must be distinct lengths in ascending order")

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


class Plan(Sequence[T], abc.ABC):
    """Which inputs make up training step n: a pure function of seed and n.

    Every epoch takes all items in a new order and batches them within their bucket; what does not
    fill a batch moves up to the next bucket, so that an epoch leaves out less than one batch.

    Args:
        num_items: in an epoch.
        longest: tokens of the longest input.
        config: batch size and buckets.
        num_steps: length of the plan.
        seed: of all orders and draws.

    Attributes:
        steps_per_epoch: full batches of one epoch.

    Raises:
        InputError: there is no full batch, or an input that no bucket holds.
    """

    def __init__(
        self, num_items: int, longest: int, config: BatchConfig, *, num_steps: int, seed: int
    ):
        if num_items < config.batch_size:
            raise InputError(
                f"training data: expected at least one batch of {config.batch_size} inputs with a "
                f"solution, found {num_items}"
            )
        if longest > config.buckets[-1]:
            raise InputError(
                f"training data: expected inputs of at most {config.buckets[-1]} tokens "
                f"(the largest bucket), found one of {longest}"
            )
        self.steps_per_epoch = num_items // config.batch_size
        self._config = config
        self._num_steps = num_steps
        self._seed = seed
        self._cached: tuple[int, list[T]] = (-1, [])

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The items of an epoch in a new order.

        Returns:
            ``[num_items, K]`` int, the inputs of each item, and ``[num_items]`` int, the tokens
            of the longest of them.
        """

    @abc.abstractmethod
    def step(self, num_tokens: int, items: np.ndarray) -> T:
        """What the plan says of a step: T and its ``[B, K]`` inputs."""

    def __len__(self) -> int:
        return self._num_steps

    def __getitem__(self, step):
        if not 0 <= step < self._num_steps:
            raise IndexError(step)
        epoch, index = divmod(int(step), self.steps_per_epoch)
        cached_epoch, batches = self._cached
        if cached_epoch != epoch:
            batches = self._epoch(epoch)
            # One tuple, assigned at once: prefetching threads read it while another writes.
            self._cached = (epoch, batches)
        return batches[index]

    def _epoch(self, epoch: int) -> list[T]:
        rng = np.random.default_rng((self._seed, epoch))
        items, lengths = self.draw(rng)
        bucket_of = np.searchsorted(self._config.buckets, lengths)
        batches, waiting = [], np.zeros(0, np.int64)
        for bucket, num_tokens in enumerate(self._config.buckets):
            waiting = np.concatenate([waiting, np.flatnonzero(bucket_of == bucket)])
            full = len(waiting) // self._config.batch_size * self._config.batch_size
            for chosen in waiting[:full].reshape(-1, self._config.batch_size):
                batches.append(self.step(num_tokens, items[chosen]))
            waiting = waiting[full:]
        return [batches[i] for i in rng.permutation(len(batches))]


class TrainingPlan(Plan[tuple[int, np.ndarray, np.ndarray]]):
    """Items of one input with solutions and ``config.negatives`` without.

    Every epoch visits each positive once and pairs it with negatives drawn without replacement
    (with fewer negatives than positives they come round again, in a new order).

    Args:
        positive_lengths: ``[P]`` int, tokens of each window with mentions.
        negative_lengths: ``[N]`` int, tokens of each window without; may be empty.
        config: batch size and buckets.
        num_steps: length of the plan.
        seed: of all orders and draws.

    Item ``n`` is ``(T, positives [B], negatives [B * k])``, indices into the two sources, where
    ``k`` is ``config.negatives``, or 0 if there are no negatives at all.

    Example:
        >>> plan = TrainingPlan(np.array([9, 30, 12, 8]), np.array([10]),
        ...     BatchConfig(batch_size=2, buckets=(16, 32)), num_steps=3, seed=0)
        >>> [(num_tokens, negatives.tolist()) for num_tokens, _, negatives in plan]
        [(32, [0, 0]), (16, [0, 0]), (32, [0, 0])]
    """

    def __init__(
        self,
        positive_lengths: np.ndarray,
        negative_lengths: np.ndarray,
        config: BatchConfig,
        *,
        num_steps: int,
        seed: int,
    ):
        longest = max(positive_lengths.max(initial=0), negative_lengths.max(initial=0))
        super().__init__(len(positive_lengths), longest, config, num_steps=num_steps, seed=seed)
        self._positive_lengths = positive_lengths
        self._negative_lengths = negative_lengths
        self._negatives = config.negatives if len(negative_lengths) else 0

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        positives = rng.permutation(len(self._positive_lengths))
        negatives = draw_rows(rng, len(self._negative_lengths), len(positives), self._negatives)
        lengths = np.maximum(
            self._positive_lengths[positives],
            self._negative_lengths[negatives].max(axis=1, initial=0),
        )
        return np.concatenate([positives[:, None], negatives], axis=1), lengths

    def step(self, num_tokens: int, items: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        return num_tokens, items[:, 0], items[:, 1:].reshape(-1)


def draw_rows(rng: np.random.Generator, available: int, rows: int, columns: int) -> np.ndarray:
    """``[rows, columns]`` of the ``available`` indices, each drawn again only after all others."""
    needed = rows * columns
    rounds = -(-needed // available) if needed else 0
    draws = [rng.permutation(available) for _ in range(rounds)]
    return np.concatenate([np.zeros(0, np.int64), *draws])[:needed].reshape(rows, columns)


def training_batches(
    positives: Sequence[T],
    negatives: Sequence[T],
    plan: TrainingPlan,
    *,
    pad: Pad[T],
    shard: tuple[int, int] = (0, 1),
) -> grain.IterDataset:
    """The batches of a plan, read and padded in background threads; resumable at any step.

    Args:
        positives, negatives: examples by index.
        plan: which of them go into which step.
        pad: makes a batch of rows.
        shard: index and number of this process; each reads its part of the rows.
    """
    index, count = shard

    def read(step: tuple[int, np.ndarray, np.ndarray]) -> Batch:
        num_tokens, chosen, others = step
        rows = [positives[i] for i in np.array_split(chosen, count)[index]]
        rows += [negatives[i] for i in np.array_split(others, count)[index]]
        return pad(rows, num_tokens)

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
