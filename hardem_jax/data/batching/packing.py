"""Sequence packing: several inputs per encoder row (Krell et al., 2021).

A batch keeps its layout, one input per row padded to T, so that heads and Z are unaffected. Two
additional arrays map each token to its position in the P rows of S tokens that the encoder reads
and back; `encoders.packing.encode` applies them. Each of G devices packs its own part of the batch,
so no token moves between devices.
"""

from __future__ import annotations

import bisect

import numpy as np

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
    """Indices that pack the tokens of a batch into rows and unpack them again, `PADDING` where
    there is none.

    ``where`` ``[R, T]`` marks real tokens. ``packing`` ``[G, P / G, S]`` int32 indexes the
    flattened ``[R / G, T]`` tokens of a device, ``unpacking`` ``[R, T]`` int32 its flattened ``[P /
    G, S]`` positions.
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
