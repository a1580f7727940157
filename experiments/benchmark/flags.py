"""The flags that both benchmarks have."""

import dataclasses
import os
from pathlib import Path
from typing import Literal

from experiments.benchmark.setting import MIN_TOKENS, Setting, sizes_of
from hardem_jax.errors import InputError, require


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

    def __post_init__(self) -> None:
        require(self, "layers", "threads", "rounds", "steps", at_least=1)
        if not self.tokens:
            raise InputError("tokens: expected at least one length, found none")
        require(self, "tokens", at_least=MIN_TOKENS)
        require(self, "rows", at_least=2)
        if self.rows % 2:
            raise InputError(f"rows: expected an even number, found {self.rows}")
        require(self, "shortest", at_least=0.5, at_most=1)
        require(self, "dropout", "attention_dropout", at_least=0, below=1)
        require(self, "seed", at_least=0, below=2**32)
        if self.out is not None and not self.out.parent.is_dir():
            # Now, and not after the measurements.
            raise InputError(f"out: expected an existing folder, found none at {self.out.parent}")
        if self.threads is not None:
            _check_threads(self.threads)

    def settings(self, solutions: int) -> list[Setting]:
        """What these flags describe, for each number of tokens.

        Args:
            solutions: Z.
        """
        sizes = sizes_of(self.preset, self.layers)
        shared = ("rows", "shortest", "dropout", "attention_dropout")
        shared += ("dtype", "tf32", "device", "seed")
        fields = {name: getattr(self, name) for name in shared}
        return [
            Setting(sizes, tokens=tokens, solutions=solutions, **fields) for tokens in self.tokens
        ]


def _check_threads(threads: int) -> None:
    if not hasattr(os, "sched_getaffinity"):
        raise InputError("threads: expected none, because this system cannot bind a process")
    if threads > (available := len(os.sched_getaffinity(0))):
        raise InputError(
            f"threads: expected at most the {available} CPUs of this process, found {threads}"
        )
