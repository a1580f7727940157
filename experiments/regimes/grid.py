"""The knobs, the grid of their values, and the file of finished runs.

A line of ``runs.jsonl`` is one run::

    {"knobs": {"size": 3, "spurious": 0.8, ...}, "steps": 300, "num_train": 10000, "num_dev": 300,
     "objective": "MML", "seed": 0, "scores": {"true z": 97.3, "answer": 99.0},
     "outcomes": {"true z": "//v/...", "answer": "..."}, "seconds": 12.1}

``scores`` are in percent of the questions of the development split. ``outcomes`` say which are
right: a bit each, in order, the first the highest of a byte (`numpy.packbits`), in base64.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.quickstart.settings import Settings
from hardem_jax.documents.planted import PlantedConfig
from hardem_jax.errors import InputError, require

#: The largest Z of a grid; every batch has room for it, so that all runs share their shapes.
LARGEST_SET = 6
#: Knob -> label of its axis.
LABELS = {
    "size": "mentions in Z",
    "spurious": "questions with a spurious mention (share)",
    "missing": "training questions without true z (share)",
    "first": "true z is first of Z (probability)",
    "noise": "training questions with a wrong answer (share)",
    "width": "hidden size",
    "warm": "steps on questions of one mention, before",
}
#: What tells one run from another.
IDENTITY = ("knobs", "steps", "num_train", "num_dev", "objective", "seed")


@dataclasses.dataclass(frozen=True)
class Knobs:
    """A regime: a corpus, a size of the model, and what it knows at the start.

    Attributes:
        size: |Z|, the mentions of every person.
        spurious, missing, first, noise: see `PlantedConfig`.
        width: hidden size of the encoder; even.
        warm: steps of training on questions of one mention, which is the true one, before those of
            the regime, so that the model does not start from scratch; 0 for none.
    """

    size: int = 3
    spurious: float = 0.0
    missing: float = 0.0
    first: float | None = None
    noise: float = 0.0
    width: int = 64
    warm: int = 0

    def __post_init__(self) -> None:
        require(self, "size", at_least=1, at_most=LARGEST_SET)
        require(self, "warm", at_least=0)
        Settings(width=self.width)  # checks it
        self.corpus()  # checks the others

    def corpus(self, **sizes: int) -> PlantedConfig:
        """``size`` mentions of each of four people; ``sizes`` are those of the splits."""
        knobs = {name: getattr(self, name) for name in ("spurious", "missing", "first", "noise")}
        return PlantedConfig(num_people=4, num_verbs=4, decoys=self.size - 1, **knobs, **sizes)


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of each knob, as in `Knobs`."""

    size: tuple[int, ...] = (2, 3, 4, 6)
    spurious: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0)
    missing: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3)
    first: tuple[float | None, ...] = (None, 0.5, 0.75, 1.0)
    noise: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6)
    width: tuple[int, ...] = (16, 32, 64, 128)
    warm: tuple[int, ...] = (0, 10, 20, 30)

    def __post_init__(self) -> None:
        require(self, "size", at_least=1, at_most=LARGEST_SET)
        require(self, "spurious", "missing", "first", "noise", at_least=0, at_most=1)
        require(self, "width", at_least=2)
        require(self, "warm", at_least=0)


def knobs_of_map(pair: str) -> tuple[str, str]:
    """The two knobs of a map, rows first; an `InputError` if they are not two different knobs."""
    names = pair.split("-")
    if len(names) != 2 or names[0] == names[1] or not set(names) <= set(LABELS):
        expected = f"two different knobs of {', '.join(LABELS)}, such as size-noise"
        raise InputError(f"maps: expected {expected}, found {pair!r}")
    return names[0], names[1]


def cells(pair: str, values: Values, base: Knobs) -> list[list[Knobs]]:
    """The regimes of a map, rows and columns; all other knobs are those of ``base``."""
    row, column = knobs_of_map(pair)
    return [
        [dataclasses.replace(base, **{row: a, column: b}) for b in getattr(values, column)]
        for a in getattr(values, row)
    ]


def grid(maps: Sequence[str], values: Values, base: Knobs) -> list[Knobs]:
    """The regimes of all maps, each once."""
    tables = (cells(pair, values, base) for pair in maps)
    return list(dict.fromkeys(itertools.chain.from_iterable(itertools.chain(*tables))))


def identity(run: Mapping[str, Any]) -> str:
    """What tells a run from all others, whether it has ended or not. Knobs that a line does not
    name are at their base: there were fewer once."""
    knobs = dataclasses.asdict(Knobs(**run["knobs"]))
    return json.dumps({name: run[name] for name in IDENTITY} | {"knobs": knobs}, sort_keys=True)


def pack(right: Iterable[bool]) -> str:
    """Bits in base64, see the top of this file."""
    return base64.b64encode(np.packbits(np.array(list(right), bool)).tobytes()).decode()


def unpack(text: str, count: int) -> np.ndarray:
    """``[count]`` bool of what `pack` returned."""
    packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    if len(packed) != -(-count // 8):
        raise ValueError(f"expected {count} bits, found {8 * len(packed)}")
    return np.unpackbits(packed, count=count).astype(bool)


def append_run(file: Path, run: Mapping[str, Any]) -> None:
    """Adds a finished run, which is on the disk when this returns."""
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(json.dumps(run) + "\n")
        lines.flush()
        os.fsync(lines.fileno())


def recover_runs(file: Path) -> list[dict[str, Any]]:
    """The finished runs; a last line that a kill left unfinished is cut off the file."""
    if not file.exists():
        return []
    content = file.read_bytes()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        os.truncate(file, complete)
    runs = []
    for number, line in enumerate(content[:complete].splitlines(), start=1):
        try:
            run = json.loads(line)
            identity(run)
            for bits in run["outcomes"].values():
                unpack(bits, run["num_dev"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{file}:{number}: expected a run, found {line[:80]!r}") from None
        runs.append(run)
    return runs
