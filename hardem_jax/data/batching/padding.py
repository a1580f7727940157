"""Batch configuration, and what all batches have in common.

Each task provides a `Pad` function that decides which arrays its batches contain. In all of them
``row_where`` ``[R]`` bool marks the real rows.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from hardem_jax.errors import InputError, require

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
#: The arrays of a batch by name, ``[R, ...]``.
Arrays = dict[str, np.ndarray]
#: R rows (None for a padded one) and the number of tokens T to pad to -> their arrays.
Pad = Callable[[Sequence[T | None], int], Arrays]


@dataclasses.dataclass(frozen=True)
class Batch:
    """R inputs on the host: ids, for messages, "" for padded rows; what a step computes with."""

    ids: Sequence[str]
    arrays: Arrays


class Items(Protocol[T_co]):
    """Items read by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> T_co: ...


class Inputs(Items[T_co], Protocol[T_co]):
    """Model inputs, by index; ``sizes`` ``[N, 2]`` int32 are tokens and solutions of each."""

    @property
    def sizes(self) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class BatchConfig:
    """Shapes of batches.

    Attributes:
        batch_size: items per training step, over all devices.
        buckets: lengths T to which batches are padded, ascending; longer inputs are an error in
            training, and get a bucket of their own in evaluation and prediction.
        max_solutions: maximum number of solutions per row. If an input has more, its first solution
            and a fixed uniform sample of the rest are kept; for mentions, the first ones in
            document order, as in the released code (20). None uses the data's maximum, rounded up
            to a power of two, and drops none. Readers of spans are evaluated on all mentions.
        negatives: sampled windows without a mention per item.
        packed_tokens: pack the inputs of a training step into rows of this many tokens; None
            pads every input to its bucket.
        accumulate: micro-batches per training step, one after another to save memory.
    """

    batch_size: int = 20
    buckets: tuple[int, ...] = (64, 128, 192, 256, 300)
    max_solutions: int | None = None
    negatives: int = 1
    packed_tokens: int | None = None
    accumulate: int = 1

    def __post_init__(self):
        sizes = ("batch_size", "buckets", "max_solutions", "packed_tokens", "accumulate")
        require(self, *sizes, at_least=1)
        require(self, "negatives", at_least=0)
        if not self.buckets or sorted(set(self.buckets)) != list(self.buckets):
            found = " ".join(map(str, self.buckets)) or "none"
            raise InputError(f"buckets: expected distinct ascending lengths, found {found}")
        if self.batch_size % self.accumulate:
            raise InputError(
                f"accumulate: expected a divisor of batch_size ({self.batch_size}), "
                f"found {self.accumulate}"
            )

    def bucket(self, length: int) -> int:
        """Returns the smallest bucket for an input of ``length`` tokens; there must be one."""
        return self.buckets[int(np.searchsorted(self.buckets, length))]

    def num_solutions(self, sizes: np.ndarray) -> int:
        """Returns the number of solutions per row for inputs of these ``sizes`` ``[N, 2]``."""
        if self.max_solutions is not None:
            return self.max_solutions
        return 1 << max(0, int(sizes[:, 1].max(initial=1)) - 1).bit_length()


class Subset(Sequence[T]):
    """Selected items of a sequence, read lazily, and their ``sizes``, if the items are `Inputs`."""

    def __init__(self, items: Items[T], indices: np.ndarray):
        self._items, self._indices = items, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index):
        return self._items[int(self._indices[index])]

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        inputs: Any = self._items
        return inputs.sizes[self._indices]


def fitting(id: str, count: int, room: int) -> np.ndarray:
    """Ascending indices of the solutions that a row has ``room`` for: all of ``count``, or the
    first, which First-only uses, and a sample of the others fixed by the id."""
    if count <= room:
        return np.arange(count)
    rng = np.random.default_rng(zlib.crc32(id.encode("utf-8", "surrogatepass")))
    return np.concatenate([[0], np.sort(1 + rng.choice(count - 1, room - 1, replace=False))])
