"""Sequence packing: several inputs per encoder row (Krell et al., 2021).

A batch keeps its layout, one input per row padded to T, so that heads and Z are unaffected. Two
additional arrays map each token to its position in the P rows of S tokens that the encoder reads
and back; `models.encoders.packing.encode` applies them. Only the cheap heads then compute on
padding.

Each of G devices packs its own part of the batch, so no token moves between devices.
"""

from __future__ import annotations

import bisect

import numpy as np

#: Marks positions without a token and rows without an input.
PADDING = -1


def pack_lengths(lengths: np.ndarray, row_tokens: int) -> np.ndarray:
    """Assigns each input to a row by best-fit decreasing.

    Args:
        lengths: ``[N]`` int, tokens of each input; empty inputs go to row 0.
        row_tokens: S, at least the largest length.

    Returns:
        ``[N]`` int32, rows numbered from 0 without gaps. Best fit needs at most 11/9 of the
        optimum plus one row (Johnson et al., 1974), and close to the optimum on windows of text.

    Example:
        >>> pack_lengths(np.array([3, 6, 4, 7]), 10)
        array([0, 1, 1, 0], dtype=int32)
    """
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
    """Returns the number of rows that `pack_lengths` fills, at least 1.

    Example:
        >>> rows_needed(np.array([3, 6, 4, 8]), 10)
        3
    """
    return int(pack_lengths(lengths, row_tokens).max(initial=0)) + 1


def rounded_rows(rows: int) -> int:
    """Returns ``rows``, raised by at most a sixteenth, so that there are few different shapes.

    Example:
        >>> [rounded_rows(rows) for rows in (7, 33, 65)]
        [7, 34, 68]
    """
    # A power of two between 1/32 and 1/16 of the rows.
    multiple = 1 << max(0, (rows // 16).bit_length() - 1)
    return -(-rows // multiple) * multiple


def packing_arrays(
    where: np.ndarray, *, num_devices: int, num_rows: int, row_tokens: int
) -> dict[str, np.ndarray]:
    """Computes the indices that pack the tokens of a batch into rows and unpack them again.

    Args:
        where: ``[R, T]`` bool, True for real tokens, which come first in a row.
        num_devices: G, divides R; device g packs inputs ``g R / G`` to ``(g + 1) R / G - 1``.
        num_rows: P / G, enough for every device.
        row_tokens: S.

    Returns:
        ``packing`` ``[G, P / G, S]`` int32, for each packed position the index of its token among
        the flattened ``[R / G, T]`` tokens of its device; ``unpacking`` ``[R, T]`` int32, for each
        token its index among the flattened ``[P / G, S]`` positions of its device. `PADDING`
        where there is none.

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
            raise ValueError(f"num_rows: expected at least {max(rows) + 1}, found {num_rows}")
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
