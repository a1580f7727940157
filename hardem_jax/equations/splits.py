"""Splits of builds of questions on numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hardem_jax.data.built import BuiltSplit
from hardem_jax.data.exclusions import REPEATED_ID
from hardem_jax.data.json_stream import PathLike
from hardem_jax.equations.records import RECORDS
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.errors import InputError


class NumericSplit(BuiltSplit):
    """Questions on numbers of a build, see `BuiltSplit`.

    `repeated`: id -> the golds of every repetition of the question in the source file; here, it
    occurs once. The official evaluator scores its answer against each. Golds of questions left out
    are not kept.
    """

    KIND = RECORDS

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, drawn=drawn)
        self.rules = EquationRules(**self.meta["rules"])
        self.numbers = NumberConfig(**self.meta["numbers"])
        self.repeated: dict[str, list[Sequence[Any]]] = {}
        repeats = any(reason == REPEATED_ID for _, reason in self._index["left_out"])
        if repeats and "repeated" not in self._index:
            raise InputError(
                f"{self.folder}: expected the golds of questions that are repeated, found none, as "
                "in builds of an earlier version; build it again"
            )
        kept = set(self._index["kept"])
        for id, golds in self._index.get("repeated", ()):
            if id in kept:
                self.repeated.setdefault(id, []).append(golds)
        for id, count in Counter(id for id, _ in self._index["left_out"] if id not in kept).items():
            if count > 1:
                self.repeated[id] = [()] * (count - 1)
