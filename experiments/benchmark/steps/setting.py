"""What is computed: flags, sizes of the encoder, a random batch, FLOPs. Imports nothing heavy.

Every process of the benchmark makes the same batch from the same seed, so none has to travel.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hardem_jax.errors import InputError, require
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective

# The longest mention, in tokens (released code: 10).
MAX_MENTION = 10
MIN_TOKENS = 16
# AdamW as in fine-tuning BERT, decaying linearly to 0. There is no warmup: the very first update
# then moves the weights, and the second loss checks it.
OPTIMIZER: dict[str, Any] = {
    "learning_rate": 1e-5,
    "weight_decay": 0.01,
    "clip_norm": 1.0,
    "b1": 0.9,
    "b2": 0.999,
    "eps": 1e-6,
}
NUM_STEPS = 100_000
OBJECTIVES: dict[str, Objective] = {
    "first-only": FirstOnly(),
    "mml": MML(),
    "hard-em": HardEM(),
    "hard-em, annealed": HardEM(tau=10_000),
}
# Rows and columns of the product that is the measure of a device: large enough to fill it.
MATRIX_SIZE = {"cpu": 2048, "gpu": 8192}
# File next to the encoder's checkpoint: `HEAD.kernel` [D, 2] and `HEAD.bias` [2] of each head.
HEADS_FILE = "heads.npz"
HEADS = ("span_scores", "selector")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """An encoder: vocabulary, hidden width, layers, heads, feed-forward width."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    intermediate: int


PRESETS = {
    "tiny": Sizes(1000, 32, 2, 2, 64),  # to see that everything runs
    "minilm": Sizes(30522, 384, 6, 12, 1536),
    "bert-base": Sizes(30522, 768, 12, 12, 3072),
    "bert-large": Sizes(30522, 1024, 24, 16, 4096),
}


def sizes_of(preset: str, layers: int | None) -> Sizes:
    """The sizes of `PRESETS`, with another number of layers unless that is None.

    Example:
        >>> sizes_of("minilm", 2).layers
        2
    """
    sizes = PRESETS[preset]
    return sizes if layers is None else dataclasses.replace(sizes, layers=layers)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One training step.

    Attributes:
        sizes: of the encoder.
        rows: R; the first half has mentions, the second half none, as in training.
        tokens: T.
        solutions: Z, mentions in every row of the first half.
        shortest: length of the shortest row as a share of T; lengths are uniform from there to T.
        dropout: rate, of hidden units and of attention.
        attention_dropout: of attention, if it has a rate of its own.
        dtype: of the computation in the encoder; weights, heads and loss are float32.
        tf32: allow TensorFloat-32 in float32 matrix products, where the device has it.
        device: "cpu" or "gpu".
        seed: of batch and dropout.
        task: see `experiments.benchmark.steps.tasks`; PyTorch has "spans" only.
    """

    sizes: Sizes
    rows: int
    tokens: int
    solutions: int
    shortest: float = 1.0
    dropout: float = 0.1
    attention_dropout: float | None = None
    dtype: str = "float32"
    tf32: bool = False
    device: str = "cpu"
    seed: int = 0
    task: str = "spans"

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Setting":
        """What `dataclasses.asdict` took apart."""
        return cls(**{**fields, "sizes": Sizes(**fields["sizes"])})

    @property
    def dropout_rates(self) -> dict[str, Any]:
        """Fields of `BertConfig`."""
        attention = self.dropout if self.attention_dropout is None else self.attention_dropout
        return {"hidden_dropout": self.dropout, "attention_dropout": attention}

    @property
    def positions(self) -> int:
        """Rows of the position table."""
        return max(512, self.tokens)


def random_batch(setting: Setting) -> dict[str, np.ndarray]:
    """A batch in the layout of `hardem_jax.data.batching.padding`, without the entries of the host.

    A question of an eighth of the row, then context; mentions drawn anywhere in the context.

    Example:
        >>> batch = random_batch(Setting(PRESETS["tiny"], rows=2, tokens=16, solutions=3))
        >>> batch["solutions"].shape, batch["solutions_where"].any(axis=1).tolist()
        ((2, 3, 2), [True, False])
    """
    rng = np.random.default_rng(setting.seed)
    rows = setting.rows
    texts = random_texts(setting, rng)
    answerable = np.arange(rows)[:, None] < rows // 2
    end = texts["where"].sum(axis=1, keepdims=True) - 1  # the last real token is [SEP]
    first = rng.integers(_begin(setting), end, (rows, setting.solutions))
    last = np.minimum(first + rng.integers(0, MAX_MENTION, first.shape), end - 1)
    position = np.arange(setting.tokens)[None]
    return {
        **texts,
        "context": (texts["token_type_ids"] > 0) & (position < end),
        "solutions": (np.stack([first, last], axis=-1) * answerable[..., None]).astype(np.int32),
        "solutions_where": np.broadcast_to(answerable, first.shape).copy(),
        "row_where": np.ones(rows, bool),
    }


def random_texts(setting: Setting, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Token ids, types and mask: a question of an eighth of the row, then context."""
    shape = rows, tokens = setting.rows, setting.tokens
    lengths = rng.integers(int(np.ceil(setting.shortest * tokens)), tokens + 1, (rows, 1))
    position = np.arange(tokens)[None]
    where = position < lengths
    token_ids = np.where(where, rng.integers(1, setting.sizes.vocabulary, shape), 0)
    return {
        "token_ids": token_ids.astype(np.int32),
        "token_type_ids": (where & (position >= _begin(setting))).astype(np.int32),
        "where": where,
    }


def _begin(setting: Setting) -> int:
    """First token of the context: [CLS] question [SEP] come before."""
    return setting.tokens // 8 + 2


def step_flops(sizes: Sizes, rows: int, tokens: int) -> float:
    """Floating-point operations of a training step on ``rows`` rows of ``tokens`` tokens.

    Example:
        >>>         >>> f"{step_flops(PRESETS['bert-base'], 32, 300) / 1e12:.2f} TFLOP"
        '5.21 TFLOP'
    """
    hidden = sizes.hidden
    dense = 2 * (4 * hidden**2 + 2 * hidden * sizes.intermediate)
    attention = 2 * 2 * tokens * hidden
    return float(3 * sizes.layers * rows * tokens * (dense + attention))


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
