"""English number words and how they combine into a number ("two hundred and thirty-fifth")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen"
_UNITS += " fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NTHS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh"
_NTHS += " twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"

CARDINALS = {word: float(value) for value, word in enumerate(_UNITS.split())}
CARDINALS |= {word: 10.0 * value for value, word in enumerate(_TENS.split(), start=2)}
SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
ORDINALS = {word: float(value) for value, word in enumerate(_NTHS.split())}
ORDINALS |= {f"{word[:-1]}ieth": value for word, value in CARDINALS.items() if value >= 20}
ORDINAL_SCALES = {f"{word}th": value for word, value in SCALES.items()}
# Denominators: the singular goes with one ("one third"), the plural with the others.
PARTS = {"half": 2.0, "quarter": 4.0} | {k: v for k, v in ORDINALS.items() if 3 <= v <= 10}
PLURAL_PARTS = {"halves" if word == "half" else f"{word}s": v for word, v in PARTS.items()}

VALUES = PARTS | PLURAL_PARTS | CARDINALS | SCALES | ORDINALS | ORDINAL_SCALES


class Word(NamedTuple):
    """A number word in lower case, and whether "and" separates it from the previous one."""

    form: str
    after_and: bool = False


class Compound(NamedTuple):
    """The number at the start of a run of number words."""

    used: int  # words it consists of, at least 1
    value: float | None  # None for a lone denominator such as "quarters"
    ordinal: bool  # whether it ends in an ordinal


def read_compound(words: Sequence[Word]) -> Compound:
    """Reads the longest number at the start of the adjacent ``words``."""
    total, group = 0.0, None  # in "two million five hundred": 2e6, and 500 below the last scale
    room, limit = math.inf, math.inf  # exclusive bounds of the next addend and the next scale
    used = 0
    for at, (form, after_and) in enumerate(words):
        if after_and and (group is None or room <= 10) and not (used and group is None):
            break  # "and" follows hundreds and scales only
        following = words[at + 1].form if at + 1 < len(words) else ""
        if SCALES.get(following, 0.0) >= limit or (after_and and following == "hundred"):
            break  # "two hundred and three hundred" are two numbers
        value = VALUES[form]
        if form in CARDINALS or form in ORDINALS:
            if group is not None and not 0 < value < room:
                break
            group = (group or 0.0) + value
            room = 10 if value >= 20 else 1
        elif form in SCALES or form in ORDINAL_SCALES:
            thirty_hundred = value == 100 and (group or 0) >= 20  # two numbers, unlike "nineteen"
            if (used and group is None) or thirty_hundred or group == 0:
                break
            scaled = (1.0 if group is None else group) * value
            if value == 100:
                group, room = scaled, 100
            else:
                total, group, room, limit = total + scaled, None, math.inf, value
        else:
            break
        used = at + 1
        if form in ORDINALS or form in ORDINAL_SCALES:
            return Compound(used, total + (group or 0.0), True)
    if used == 0:
        return Compound(1, None, False)
    return Compound(used, total + (group or 0.0), False)
