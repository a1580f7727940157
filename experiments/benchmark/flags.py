"""The flags that both benchmarks have."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from experiments.benchmark.setting import MIN_TOKENS, Setting, sizes_of
from hardem_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class BenchmarkFlags:
    """What is computed, where, and how often.

    Attributes:
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        tokens: T, one or several.
        rows: R; the first half has mentions, as in training.
        shortest: length of the shortest row as a share of T; 1 means full rows.
        dropout: rate, of hidden units and of attention.
        attention_dropout: of attention, if it has a rate of its own; our kernels need 0.
        dtype: of the computation in the encoder.
        tf32: allow TensorFloat-32 to all, on a GPU.
        device: "cpu" or "gpu".
        threads: CPUs to use; None for all, each library with the threads it chooses itself.
        rounds: turns of every variant.
        steps: training steps in a turn.
        seed: of weights, batch and dropout.
        out: write the measurements here, as JSON.
    """

    preset: Literal["tiny", "minilm", "bert-base", "bert-large"] = "minilm"
    layers: int | None = None
    tokens: tuple[int, ...] = (128, 300)
    rows: int = 16
    shortest: float = 1.0
    dropout: float = 0.1
    attention_dropout: float | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    tf32: bool = False
    device: Literal["cpu", "gpu"] = "cpu"
    threads: int | None = None
    rounds: int = 10
    steps: int = 3
    seed: int = 0
    out: Path | None = None

    def settings(self, solutions: int) -> list[Setting]:
        """What these flags describe, for each number of tokens.

        Args:
            solutions: Z.

        Raises:
            InputError: naming the flags out of their range.
        """
        if faults := list(self._faults()):
            raise InputError("; ".join(faults))
        sizes = sizes_of(self.preset, self.layers)
        shared = ("rows", "shortest", "dropout", "attention_dropout")
        shared += ("dtype", "tf32", "device", "seed")
        fields = {name: getattr(self, name) for name in shared}
        return [
            Setting(sizes, tokens=tokens, solutions=solutions, **fields) for tokens in self.tokens
        ]

    def _faults(self) -> Iterator[str]:
        for name in ("layers", "threads", "rounds", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"--{name}: expected at least 1, found {value}"
        if not self.tokens or min(self.tokens) < MIN_TOKENS:
            yield f"--tokens: expected lengths of at least {MIN_TOKENS}, found {self.tokens}"
        if self.rows < 2 or self.rows % 2:
            yield f"--rows: expected an even number, found {self.rows}"
        if not 0.5 <= self.shortest <= 1:
            yield f"--shortest: expected a share between 0.5 and 1, found {self.shortest}"
        for name in ("dropout", "attention_dropout"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                flag = name.replace("_", "-")
                yield f"--{flag}: expected 0 <= rate < 1, found {getattr(self, name)}"
        if self.out is not None and not self.out.parent.is_dir():
            # Now, and not after the measurements.
            yield f"--out: expected an existing folder, found none at {self.out.parent}"
        if self.threads is not None:
            yield from _thread_faults(self.threads)


def _thread_faults(threads: int) -> Iterator[str]:
    if not hasattr(os, "sched_getaffinity"):
        yield "--threads: this system cannot bind a process to CPUs"
    elif threads > (available := len(os.sched_getaffinity(0))):
        yield f"--threads: expected at most the {available} CPUs there are, found {threads}"
