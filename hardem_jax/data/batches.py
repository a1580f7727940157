"""From examples to padded batches of few fixed shapes.

Training on windows draws one positive (with mentions) and one negative (without)
per item, as the paper's open-domain reader does. A batch of B items is then ``2 B`` rows:
its positives, then its negatives. Rows are padded to the smallest *bucket* that holds
the longest of them, so that a step is compiled once per bucket and never again.

What a batch holds is up to the task: it brings a `Pad`. In all of them ``row_where`` ``[R]`` bool
marks the real rows and ``ids`` lists R example ids, which stay on the host.
"""

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


class TrainingPlan(Sequence[tuple[int, np.ndarray, np.ndarray]]):
    """Which windows make up training step n: a pure function of seed and n.

    Every epoch visits each positive once, in a new order, and pairs it with negatives drawn
    without replacement (with fewer negatives than positives they come round again, in a new
    order). Items are batched within their bucket; what does not fill a batch moves up to the next
    bucket, so that an epoch leaves out less than one batch.

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
        if len(positive_lengths) < config.batch_size:
            raise InputError(
                f"training data: expected at least one batch of {config.batch_size} inputs with a "
                f"solution, found {len(positive_lengths)}"
            )
        longest = max(positive_lengths.max(), negative_lengths.max(initial=0))
        if longest > config.buckets[-1]:
            raise InputError(
                f"training data: expected inputs of at most {config.buckets[-1]} tokens "
                f"(the largest bucket), found one of {longest}"
            )
        self._positive_lengths = positive_lengths
        self._negative_lengths = negative_lengths
        self._config = config
        self._negatives = config.negatives if len(negative_lengths) else 0
        self._num_steps = num_steps
        self._seed = seed
        self.steps_per_epoch = len(positive_lengths) // config.batch_size
        self._cached: tuple[int, list] = (-1, [])

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

    def _epoch(self, epoch: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
        rng = np.random.default_rng((self._seed, epoch))
        positives = rng.permutation(len(self._positive_lengths))
        negatives = self._draw_negatives(rng, len(positives))
        lengths = np.maximum(
            self._positive_lengths[positives],
            self._negative_lengths[negatives].max(axis=1, initial=0),
        )
        bucket_of = np.searchsorted(self._config.buckets, lengths)
        batches, waiting = [], np.zeros(0, np.int64)
        for bucket, num_tokens in enumerate(self._config.buckets):
            waiting = np.concatenate([waiting, np.flatnonzero(bucket_of == bucket)])
            full = len(waiting) // self._config.batch_size * self._config.batch_size
            for items in waiting[:full].reshape(-1, self._config.batch_size):
                batches.append((num_tokens, positives[items], negatives[items].reshape(-1)))
            waiting = waiting[full:]
        return [batches[i] for i in rng.permutation(len(batches))]

    def _draw_negatives(self, rng: np.random.Generator, count: int) -> np.ndarray:
        needed, available = count * self._negatives, len(self._negative_lengths)
        rounds = -(-needed // available) if needed else 0
        draws = [rng.permutation(available) for _ in range(rounds)]
        return np.concatenate([np.zeros(0, np.int64), *draws])[:needed].reshape(count, -1)


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
