"""Sums and averages as SQLite computes them, to the last bit.

SQLite adds from the first row to the last. Releases before 3.43 add float64 as they come; later
ones compensate for rounding (Kahan, Babuska, Neumaier), so that last bits may differ: of
0.1 + 0.2 + 0.3, for one. `sum_like_sqlite` does as the SQLite of this Python does, and an answer
that another release wrote may be missed by a bit. Sums of integers are the same in all of them.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

from hardem_jax.solutions.sql.values import ExecutionError

COMPENSATED_SUMS = sqlite3.sqlite_version_info >= (3, 43)

_INT64 = 2**63
# Integers whose float64 arithmetic is exact, less a factor of 2; SQLite splits larger ones.
_EXACT = 2**52


def sum_like_sqlite(
    addends: Sequence[int | float], average: bool = False, compensated: bool = COMPENSATED_SUMS
) -> int | float:
    """SQLite's sum, or average, in the order given.

    Args:
        addends: at least one; integers of 64 bits and float64.
        average: divide by their number.
        compensated: as from SQLite 3.43 on.

    Returns:
        An integer if all addends are, and no average is asked for. NaN is NULL in SQLite.

    Raises:
        ExecutionError: integers sum up to more than 64 bits; from SQLite 3.43 on, only if there is
            no float among the addends, before that, if none comes first.

    Example:
        >>> [sum_like_sqlite([0.1, 0.2, 0.3], compensated=flag) for flag in (False, True)]
        [0.6000000000000001, 0.6]
    """
    leading, integer, overflow = _leading_integers(addends)
    if overflow and compensated:  # a float further behind makes good for it
        overflow = all(isinstance(addend, int) for addend in addends)
    if overflow and not average:
        raise ExecutionError("expected a sum of 64 bits, found a larger one")
    if leading == len(addends) and not average:
        return integer
    if compensated:
        total = _compensated(integer, addends[leading:])
    else:
        total = _plain(addends)
    return total / len(addends) if average else total


def _leading_integers(addends: Sequence[int | float]) -> tuple[int, int, bool]:
    """How many integers come first, their sum, and whether more would exceed 64 bits."""
    integer = 0
    for place, addend in enumerate(addends):
        if not isinstance(addend, int):
            return place, integer, False
        if not -_INT64 <= integer + addend < _INT64:
            return place, integer, True
        integer += addend
    return len(addends), integer, False


def _plain(addends: Sequence[int | float]) -> float:
    total = 0.0
    for addend in addends:
        total += addend
    return total


def _compensated(integer: int, addends: Sequence[int | float]) -> float:
    total, *low = _parts(integer)
    error = sum(low)
    for addend in addends:
        for part in _parts(addend):
            added = total + part
            larger, smaller = (total, part) if abs(total) > abs(part) else (part, total)
            error += (larger - added) + smaller
            total = added
    return total + error if math.isfinite(error) else total


def _parts(addend: int | float) -> tuple[float, ...]:
    """A float, or the two that SQLite makes of an integer that float64 may not hold.

    Without `math.fmod`, for which the integer would be rounded to float64 first.
    """
    if isinstance(addend, float) or -_EXACT < addend < _EXACT:
        return (float(addend),)
    low = addend % 2**14 if addend > 0 else -(-addend % 2**14)
    return float(addend - low), float(low)
