"""Sequence packing: several inputs in one row of the encoder (Krell et al., 2021).

A batch keeps the layout that its task gave it, one input a row, padded to T: the heads and Z know
nothing of packing. Two arrays beside it say where each token stands in the P rows of S tokens that
the encoder reads, and `models.encoders.packing.encode` goes there and back. What is computed on
padding is then what the heads compute, next to nothing.

Each of G devices packs its own part of the batch: no token travels from one to another.
"""

from __future__ import annotations

import bisect

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
    free: list[tuple[int, int]] = []  # room and number of each row, ascending
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
    positions = np.arange(num_tokens, dtype=np.int32)
    for device, own in enumerate(lengths.tolist()):
        rows = pack_lengths(lengths[device], row_tokens).tolist()
        if max(rows) >= num_rows:
            raise ValueError(f"{max(rows) + 1} packed rows needed, {num_rows} given")
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
