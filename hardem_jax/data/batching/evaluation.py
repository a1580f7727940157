"""Batches that read every input once: padded to buckets, or packed into rows of one length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from hardem_jax.data.batching.packing import PADDING, packing_arrays, rounded_rows, rows_needed
from hardem_jax.data.batching.padding import Arrays, BatchConfig, Items, Pad

T = TypeVar("T")


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
    nothing = np.full(size, PADDING)
    parts += [nothing] * (-len(parts) % num_devices)
    grouped = range(0, len(parts), num_devices)
    return num_rows, [np.concatenate(parts[i : i + num_devices]) for i in grouped]


def _filled_up(chosen: np.ndarray, size: int) -> np.ndarray:
    return np.pad(chosen, (0, size - len(chosen)), constant_values=PADDING)


def _rows(examples: Items[T], chosen: np.ndarray) -> list[T | None]:
    return [None if i == PADDING else examples[int(i)] for i in chosen]
