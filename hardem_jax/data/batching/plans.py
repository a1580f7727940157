"""Training plans: which inputs make up each training step, and their batches.

When training on windows, an item is one positive (with mentions) and by default one negative
(without), as in the paper's open-domain reader, so a batch of B items has ``2 B`` rows, item by
item. Rows are padded to the smallest *bucket* that holds the longest of them, so that a step is
compiled only once per bucket, or packed: several inputs in each row that the encoder reads (Krell
et al., 2021). A packed batch keeps its layout, one input per row padded to T, so that heads and Z
are unaffected; two additional arrays map each token to its position in the P rows of S tokens and
back, for `encoders.base.encode`. Each of G devices packs its own part of the batch, so no token
moves between devices.
"""

from __future__ import annotations

import abc
import bisect
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hardem_jax.data.batching.padding import Arrays, Batch, BatchConfig, Items, Pad
from hardem_jax.errors import InputError

T = TypeVar("T")

#: Marks positions without a token and rows without an input.
PADDING = -1


def pack_lengths(lengths: np.ndarray, row_tokens: int) -> np.ndarray:
    """``[N]`` int32, the row of each input by best-fit decreasing, at most 11/9 of the optimum plus
    one row (Johnson et al., 1974); empty inputs go to row 0."""
    rows = np.zeros(len(lengths), np.int32)
    free: list[tuple[int, int]] = []  # (free tokens, row number), ascending
    num_rows = 0
    for i in np.argsort(-lengths, kind="stable"):
        length = int(lengths[i])
        if not length:
            break
        fullest = bisect.bisect_left(free, (length, 0))
        if fullest < len(free):
            room, row = free.pop(fullest)
        else:
            room, row = row_tokens, num_rows
            num_rows += 1
        rows[i] = row
        bisect.insort(free, (room - length, row))
    return rows


def rows_needed(lengths: np.ndarray, row_tokens: int) -> int:
    """The number of rows that `pack_lengths` fills, at least 1."""
    return int(pack_lengths(lengths, row_tokens).max(initial=0)) + 1


def rounded_rows(rows: int) -> int:
    """``rows``, raised by at most a sixteenth, so that there are few different shapes."""
    # A power of two between 1/32 and 1/16 of the rows.
    multiple = 1 << max(0, (rows // 16).bit_length() - 1)
    return -(-rows // multiple) * multiple


def packing_arrays(
    where: np.ndarray, *, num_devices: int, num_rows: int, row_tokens: int
) -> dict[str, np.ndarray]:
    """Indices that pack the tokens ``where`` ``[R, T]`` of a batch into rows and unpack them again.

    ``packing`` ``[G, P / G, S]`` int32 indexes the flattened ``[R / G, T]`` tokens of a device,
    ``unpacking`` ``[R, T]`` int32 its flattened ``[P / G, S]`` positions; else `PADDING`. Texts
    find slots in this order of rows, see `encoders.ops.attention.Texts`.
    """
    num_inputs, num_tokens = where.shape
    lengths = where.sum(axis=1).reshape(num_devices, -1)
    packing = np.full((num_devices, num_rows * row_tokens), PADDING, np.int32)
    unpacking = np.full((num_devices, num_inputs // num_devices, num_tokens), PADDING, np.int32)
    positions = np.arange(num_tokens, dtype=np.int32)
    for device, own in enumerate(lengths.tolist()):
        rows = pack_lengths(lengths[device], row_tokens)
        if rows.max() >= num_rows:
            raise ValueError(f"num_rows: expected at least {rows.max() + 1}, found {num_rows}")
        rows = _in_slots(rows, lengths[device] > 0, num_rows).tolist()
        begins = [row * row_tokens for row in range(num_rows)]
        for i, (row, length) in enumerate(zip(rows, own, strict=True)):
            begin, end = begins[row], begins[row] + length
            packing[device, begin:end] = positions[:length] + i * num_tokens
            unpacking[device, i, :length] = positions[:length] + begin
            begins[row] = end
    return {
        "packing": packing.reshape(num_devices, num_rows, row_tokens),
        "unpacking": unpacking.reshape(num_inputs, num_tokens),
    }


def _in_slots(rows: np.ndarray, real: np.ndarray, num_rows: int) -> np.ndarray:
    """The rows; those of the fewest texts come first if a text would take a later row's slot."""
    texts = np.bincount(rows[real], minlength=num_rows) + 1  # what is left over is a text, too
    # One more than `Texts.slots` of these rows: cuDNN has a beginning more than lengths in each.
    places = -(-len(rows) // num_rows) + 2
    if (texts.cumsum() <= places * np.arange(1, num_rows + 1)).all():
        return rows
    return np.argsort(np.argsort(texts, kind="stable"))[rows]


if TYPE_CHECKING:
    import grain


@dataclasses.dataclass(frozen=True)
class Step:
    """The inputs and shapes of a training step.

    T, the length to which inputs are padded; ``[B, K]`` int, the inputs of each item, `PADDING` for
    a padded row; P / G, packed rows per device, or None if inputs are not packed.
    """

    num_tokens: int
    items: np.ndarray
    packed_rows: int | None = None


class Plan(Sequence[Step], abc.ABC):
    """The inputs of every training step n, as a pure function of seed and n.

    Every epoch shuffles the items, leaves out the last that do not fill a batch, and batches the
    others by bucket; those that do not fill a batch there move up to the next bucket. Packed
    batches need no buckets; their number of rows is rounded up by at most a sixteenth, for few
    different shapes.

    ``sizes`` ``[N, 2]`` int are tokens and solutions of each input, ``num_items`` the items of an
    epoch, ``num_devices`` G devices that share a batch. ``negatives`` is k, inputs without a
    solution at the end of each item: ``config.negatives``, or 0 if the data has none.
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
            advice = "; choose a smaller batch size" if num_items else " (a split without answers?)"
            raise InputError(
                f"training data: expected at least one batch of {config.batch_size} inputs with a "
                f"solution, found {num_items}{advice}"
            )
        longest = int(sizes[:, 0].max(initial=0))
        limit = min(config.buckets[-1], config.packed_tokens or longest)
        if longest > limit:
            raise InputError(
                f"training data: expected inputs of at most {limit} tokens "
                f"(the largest of --batches.buckets, or a packed row), found one of {longest}"
            )
        if config.packed_tokens and config.batch_size % (config.accumulate * num_devices):
            raise InputError(
                f"--batches.batch-size: expected a multiple of {config.accumulate * num_devices} "
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
            batches = self._epoch(epoch)
            # A single tuple, assigned atomically: prefetching threads may read it meanwhile.
            self._cached = (epoch, batches)
        return batches[index]

    def _epoch(self, epoch: int) -> list[Step]:
        rng = np.random.default_rng((self._seed, epoch))
        # Not after bucketing, which would leave out the longest in every epoch.
        items = self.draw(rng)[: self.steps_per_epoch * self.config.batch_size]
        epoch_steps = self._packed if self.config.packed_tokens else self._bucketed
        batches = list(epoch_steps(items, self._item_lengths(items)))
        if epoch and self.config.packed_tokens:
            batches = [dataclasses.replace(x, packed_rows=self._compiled(x)) for x in batches]
        return [batches[i] for i in rng.permutation(len(batches))]

    @functools.cached_property
    def _first_rows(self) -> list[int]:
        return sorted({step.packed_rows or 0 for step in self._epoch(0)})

    def _compiled(self, step: Step) -> int:
        """The least rows of the first epoch, whose programs are compiled, that hold a step's."""
        rows = step.packed_rows or 0
        return next((n for n in self._first_rows if n >= rows), rows)

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
    """Items of one input with solutions and ``config.negatives`` without; see `Plan`.

    Every epoch visits each positive once and pairs it with negatives sampled without replacement;
    if they run out, all are shuffled and used again.
    """

    def __init__(self, sizes: np.ndarray, config: BatchConfig, **schedule: Any):
        self._positives = np.flatnonzero(sizes[:, 1] > 0)
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
    others are in an epoch at most once. Padded rows at the end make parts of one size for all
    devices of a process. With ``config.accumulate`` above 1, arrays have an
    additional leading axis, one entry per micro-batch. Process ``shard[0]`` of ``shard[1]`` reads
    its part of the items.
    """

    import grain  # imports jax, which computing a plan does not need

    read = functools.partial(_read, inputs=inputs, plan=plan, pad=pad, shard=shard)
    return grain.MapDataset.source(plan).map(read).to_iter_dataset()


def example_batches(plan: Plan, *, pad: Pad, shard: tuple[int, int] = (0, 1)) -> list[Batch]:
    """An all-padding batch for each shape of the first epoch, largest first.

    The training step can be compiled for them before any data is read.
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
        parts = max(1, plan.num_devices // count)  # of as many rows each
        parts //= math.gcd(parts, items.shape[1])
        items = np.pad(items, ((0, -len(items) % parts), (0, 0)), constant_values=PADDING)
        rows = [None if i == PADDING else inputs[i] for i in items.reshape(-1)]
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


def evaluation_batches(
    examples: Items[T],
    lengths: np.ndarray,
    *,
    config: BatchConfig,
    pad: Pad[T],
    num_devices: int = 1,
) -> Iterator[tuple[np.ndarray, Arrays]]:
    """Yields all examples as (index of each row's example ``[R]`` or `PADDING`, arrays).

    Padded, a batch holds examples of similar length; those longer than the last bucket share an
    additional one. Packed, it holds a random sample, so that short examples fill up the rows of the
    long ones, and all batches have one shape.
    """
    longest = int(lengths.max(initial=0))
    buckets = [*config.buckets, *([longest] if longest > config.buckets[-1] else [])]
    bucket_indices = np.searchsorted(buckets, lengths)
    if config.packed_tokens:
        num_tokens = buckets[int(bucket_indices.max(initial=0))]
        row_tokens = max(config.packed_tokens, longest)
        num_rows, batches = _packed(lengths, config.batch_size, row_tokens, num_devices)
        for chosen in batches:
            arrays = pad(_rows(examples, chosen), num_tokens)
            sizes = {"num_devices": num_devices, "num_rows": num_rows, "row_tokens": row_tokens}
            yield chosen, arrays | packing_arrays(arrays["where"], **sizes)
        return
    for bucket, num_tokens in enumerate(buckets):
        members = np.flatnonzero(bucket_indices == bucket)
        for begin in range(0, len(members), config.batch_size):
            chosen = _filled_up(members[begin : begin + config.batch_size], config.batch_size)
            yield chosen, pad(_rows(examples, chosen), num_tokens)


def _packed(
    lengths: np.ndarray, batch_size: int, row_tokens: int, num_devices: int
) -> tuple[int, list[np.ndarray]]:
    """P / G, packed rows per device, and the examples of each batch, ``[R]`` int."""
    # In the order of the data, neighbours are windows of one document, which are equally long.
    order = np.random.default_rng(0).permutation(len(lengths))
    size = batch_size // num_devices
    needed = [
        rows_needed(lengths[order[begin : begin + size]], row_tokens)
        for begin in range(0, len(order), size)
    ]
    # Enough for most; the others leave examples to the next part.
    num_rows = rounded_rows(int(np.median(needed))) if needed else 1
    parts, begin = [], 0
    while begin < len(order):
        part = order[begin : begin + size]
        while rows_needed(lengths[part], row_tokens) > num_rows:
            part = part[:-1]
        parts.append(_filled_up(part, size))
        begin += len(part)
    parts += [np.full(size, PADDING)] * (-len(parts) % num_devices)
    grouped = range(0, len(parts), num_devices)
    return num_rows, [np.concatenate(parts[i : i + num_devices]) for i in grouped]


def _filled_up(chosen: np.ndarray, size: int) -> np.ndarray:
    return np.pad(chosen, (0, size - len(chosen)), constant_values=PADDING)


def _rows(examples: Items[T], chosen: np.ndarray) -> list[T | None]:
    return [None if i == PADDING else examples[int(i)] for i in chosen]
