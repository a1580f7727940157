"""From windows to padded batches of few fixed shapes.

Training draws one positive window (with mentions) and one negative window (without)
per item, as the paper's open-domain reader does. A batch of B items is ``2 B`` rows:
its positives, then its negatives. Rows are padded to the smallest *bucket* that holds
the longest of them, so that a step is compiled once per bucket and never again.

What a batch holds, with R rows, T tokens and Z solutions:

==================  ================  ==============================================
``token_ids``       ``[R, T]`` int32  [CLS] question [SEP] context [SEP], padded
``token_type_ids``  ``[R, T]`` int32  1 from the context on
``where``           ``[R, T]`` bool   real tokens
``context``         ``[R, T]`` bool   tokens of the document
``solutions``       ``[R, Z, 2]``     int32 first and last token of each mention
``solutions_where`` ``[R, Z]`` bool   real mentions
``true_solution``   ``[R]`` int32     index of the annotated mention or -1; not trained on
``row_where``       ``[R]`` bool      real rows
``ids``             list of R str     example ids, kept on the host
==================  ================  ==============================================
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import grain
import numpy as np

from hardem_jax.data.windows import Window
from hardem_jax.errors import InputError

Batch = dict[str, Any]


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
        """Z for windows of these ``sizes`` (``[N, 2]``, see `records.WindowSource`)."""
        if self.max_solutions is not None:
            return self.max_solutions
        largest = int(sizes[:, 1].max(initial=1))
        return 1 << max(0, largest - 1).bit_length()


def pad_windows(
    windows: Sequence[Window | None], *, num_tokens: int, num_solutions: int, pad_id: int
) -> Batch:
    """A batch of the given windows; None is a row of padding.

    Args:
        windows: R of them.
        num_tokens: T, at least the longest window.
        num_solutions: Z; further mentions of a row are cut.
        pad_id: of the tokenizer.

    Example:
        >>> window = Window("q1", 0, "Oslo", 0, np.array([2, 7, 3, 8, 3]), 3,
        ...     np.array([[0, 4]]), np.array([[3, 3]]))
        >>> batch = pad_windows([window, None], num_tokens=6, num_solutions=1, pad_id=0)
        >>> batch["token_ids"].tolist(), batch["context"][0].astype(int).tolist()
        ([[2, 7, 3, 8, 3, 0], [0, 0, 0, 0, 0, 0]], [0, 0, 0, 1, 0, 0])
    """
    rows = len(windows)
    batch: Batch = {
        "token_ids": np.full((rows, num_tokens), pad_id, np.int32),
        "token_type_ids": np.zeros((rows, num_tokens), np.int32),
        "where": np.zeros((rows, num_tokens), bool),
        "context": np.zeros((rows, num_tokens), bool),
        "solutions": np.zeros((rows, num_solutions, 2), np.int32),
        "solutions_where": np.zeros((rows, num_solutions), bool),
        "true_solution": np.full(rows, -1, np.int32),
        "row_where": np.array([window is not None for window in windows]),
        "ids": ["" if window is None else window.example_id for window in windows],
    }
    for row, window in enumerate(windows):
        if window is None:
            continue
        length, start = window.num_tokens, window.context_start
        solutions = window.solutions[:num_solutions]
        batch["token_ids"][row, :length] = window.token_ids
        batch["token_type_ids"][row, start:length] = 1
        batch["where"][row, :length] = True
        batch["context"][row, start : length - 1] = True
        batch["solutions"][row, : len(solutions)] = solutions
        batch["solutions_where"][row, : len(solutions)] = True
        if window.true_solution < num_solutions:
            batch["true_solution"][row] = window.true_solution
    return batch


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
                f"training data: expected at least one batch of {config.batch_size} windows that "
                f"hold a mention of the answer, found {len(positive_lengths)}"
            )
        longest = max(positive_lengths.max(), negative_lengths.max(initial=0))
        if longest > config.buckets[-1]:
            raise InputError(
                f"training data: expected windows of at most {config.buckets[-1]} tokens "
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
    positives: Sequence[Window],
    negatives: Sequence[Window],
    plan: TrainingPlan,
    *,
    num_solutions: int,
    pad_id: int,
    shard: tuple[int, int] = (0, 1),
) -> grain.IterDataset:
    """The batches of a plan, read and padded in background threads; resumable at any step.

    Args:
        positives, negatives: windows by index.
        plan: which of them go into which step.
        num_solutions: Z.
        pad_id: of the tokenizer.
        shard: index and number of this process; each reads its part of the rows.
    """
    index, count = shard

    def read(step: tuple[int, np.ndarray, np.ndarray]) -> Batch:
        num_tokens, with_mention, without = step
        rows = [positives[i] for i in np.array_split(with_mention, count)[index]]
        rows += [negatives[i] for i in np.array_split(without, count)[index]]
        return pad_windows(rows, num_tokens=num_tokens, num_solutions=num_solutions, pad_id=pad_id)

    return grain.MapDataset.source(plan).map(read).to_iter_dataset()


def evaluation_batches(
    windows: Sequence[Window],
    lengths: np.ndarray,
    *,
    config: BatchConfig,
    num_solutions: int,
    pad_id: int,
) -> Iterator[tuple[np.ndarray, Batch]]:
    """All windows once, in batches of ``config.batch_size`` rows of similar length.

    Args:
        windows: by index.
        lengths: ``[N]`` int tokens of each.
        config: batch size and buckets; a window longer than the last bucket is an error.
        num_solutions: Z.
        pad_id: of the tokenizer.

    Yields:
        The indices of the windows and their batch. The last batch of a bucket is filled up
        with rows of padding, for which there is no index.
    """
    if lengths.max(initial=0) > config.buckets[-1]:
        raise InputError(
            f"data: expected windows of at most {config.buckets[-1]} tokens (the largest bucket), "
            f"found one of {lengths.max()}"
        )
    bucket_of = np.searchsorted(config.buckets, lengths)
    for bucket, num_tokens in enumerate(config.buckets):
        members = np.flatnonzero(bucket_of == bucket)
        for begin in range(0, len(members), config.batch_size):
            chosen = members[begin : begin + config.batch_size]
            rows: list[Window | None] = [windows[i] for i in chosen]
            rows += [None] * (config.batch_size - len(rows))
            yield (
                chosen,
                pad_windows(
                    rows, num_tokens=num_tokens, num_solutions=num_solutions, pad_id=pad_id
                ),
            )
