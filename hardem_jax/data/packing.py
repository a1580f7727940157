"""Sequence packing: several inputs in one row of the encoder (Krell et al., 2021).

A batch keeps the layout that its task gave it, one input a row, padded to T: the heads and Z know
nothing of packing. Two arrays beside it say where each token stands in the P rows of S tokens that
the encoder reads, and `models.packing.encode` goes there and back. What is computed on padding is
then what the heads compute, next to nothing.

Each of G devices packs its own part of the batch: no token travels from one to another.
"""

from __future__ import annotations

import numpy as np

#: Stands for no token, and for no input.
PADDING = -1


def pack_lengths(lengths: np.ndarray, row_tokens: int) -> np.ndarray:
    """Which row each input goes to, by best fit in order of descending length.

    Args:
        lengths: ``[N]`` int, tokens of each input; one of 0 tokens goes to row 0.
        row_tokens: S, at least the longest.

    Returns:
        ``[N]`` int32, rows numbered from 0 without gaps. Best fit needs at most 11/9 of the fewest
        rows possible, and one more (Johnson et al., 1974); on windows of text, hardly any more.

    Example:
        >>> pack_lengths(np.array([3, 6, 4, 7]), 10)
        array([0, 1, 1, 0], dtype=int32)
    """
    rows = np.zeros(len(lengths), np.int32)
    free: list[int] = []
    for i in np.argsort(-lengths, kind="stable"):
        length = int(lengths[i])
        if not length:
            continue
        fitting = [(room, row) for row, room in enumerate(free) if room >= length]
        if fitting:
            rows[i] = min(fitting)[1]
        else:
            rows[i] = len(free)
            free.append(row_tokens)
        free[rows[i]] -= length
    return rows


def rows_needed(lengths: np.ndarray, row_tokens: int) -> int:
    """Rows that `pack_lengths` fills, at least 1.

    Example:
        >>> rows_needed(np.array([3, 6, 4, 8]), 10)
        3
    """
    return int(pack_lengths(lengths, row_tokens).max(initial=0)) + 1


def packing_arrays(
    where: np.ndarray, *, num_devices: int, num_rows: int, row_tokens: int
) -> dict[str, np.ndarray]:
    """Where the tokens of a batch stand in packed rows, and which tokens stand there.

    Args:
        where: ``[R, T]`` bool, real tokens; those of a row come first.
        num_devices: G, divides R; device g packs inputs ``g R / G`` to ``(g + 1) R / G - 1``.
        num_rows: P / G, enough for every device.
        row_tokens: S.

    Returns:
        ``packing`` ``[G, P / G, S]`` int32, the token at each place, counted through the
        ``[R / G, T]`` tokens of its device; ``unpacking`` ``[R, T]`` int32, the place of each
        token, counted through the ``[P / G, S]`` places of its device. `PADDING` where there is
        none.

    Raises:
        ValueError: if a device needs more rows.

    Example:
        >>> where = np.arange(4)[None] < np.array([[3], [2], [1]])
        >>> arrays = packing_arrays(where, num_devices=1, num_rows=2, row_tokens=4)
        >>> arrays["packing"].tolist(), arrays["unpacking"].tolist()
        ([[[0, 1, 2, 8], [4, 5, -1, -1]]], [[0, 1, 2, -1], [4, 5, -1, -1], [3, -1, -1, -1]])
    """
    num_inputs, num_tokens = where.shape
    lengths = where.sum(axis=1).reshape(num_devices, -1)
    packing = np.full((num_devices, num_rows * row_tokens), PADDING, np.int32)
    unpacking = np.full((num_devices, num_inputs // num_devices, num_tokens), PADDING, np.int32)
    for device, own in enumerate(lengths):
        rows = pack_lengths(own, row_tokens)
        if rows.max(initial=0) >= num_rows:
            raise ValueError(f"{rows.max() + 1} packed rows needed, {num_rows} given")
        used = np.zeros(num_rows, np.int64)
        for i, (row, length) in enumerate(zip(rows, own, strict=True)):
            begin = row * row_tokens + used[row]
            packing[device, begin : begin + length] = i * num_tokens + np.arange(length)
            unpacking[device, i, :length] = begin + np.arange(length)
            used[row] += length
    return {
        "packing": packing.reshape(num_devices, num_rows, row_tokens),
        "unpacking": unpacking.reshape(num_inputs, num_tokens),
    }
