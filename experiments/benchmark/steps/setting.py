"""The training step to measure: heads, flags, sizes, FLOPs. Imports nothing heavy.

Every process of the benchmark makes the same random batch, so none has to be sent.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hardem_jax.encoders.config import Implementation
from hardem_jax.errors import InputError, require
from hardem_jax.registry import task_module, tasks_with
from hardem_jax.task.benchmark import BatchSizes, Step, random_texts

#: Name -> step, of all tasks. Of "spans" PyTorch's is measured, too.
STEPS: dict[str, Step] = {
    name: step
    for task in tasks_with("benchmark")
    for name, step in task_module(task, "benchmark").STEPS.items()
}
# Flags offer the names that there are.
if TYPE_CHECKING:
    Task = str
else:
    Task = Literal[tuple(STEPS)]

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


class Sizes(NamedTuple):
    """Sizes of an encoder, in the order of the fields of `BertConfig`."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    intermediate: int


Device = Literal["cpu", "gpu", "tpu"]
Preset = Literal["tiny", "minilm", "bert-base", "bert-large"]
PRESETS: dict[Preset, Sizes] = {
    "tiny": Sizes(1000, 32, 2, 2, 64),
    "minilm": Sizes(30522, 384, 6, 12, 1536),
    "bert-base": Sizes(30522, 768, 12, 12, 3072),
    "bert-large": Sizes(30522, 1024, 24, 16, 4096),
}


@dataclasses.dataclass(frozen=True)
class StepFlags:
    """Flags of every command that runs a training step.

    Attributes:
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        rows: R; the first half has mentions, the second half none, as in training.
        shortest: length of the shortest row as a share of T; lengths are uniform from there to T.
        dropout: rate, of hidden units and of attention.
        attention_dropout: of attention, if it has a rate of its own; our kernels need 0.
        attention: what computes it, see `hardem_jax.encoders.ops.attention`.
        scan_layers: compile one layer and loop over it, as `--model.scan-layers` does.
        packed_tokens: length of the rows into which texts are packed; None pads them.
        dtype: of the computation in the encoder; weights, heads and loss are float32.
        device: what computes; "auto" is what JAX would take, the fastest of the machine.
        out: write the measurements here, as JSON, and the table beside it, as Markdown.
    """

    preset: Preset = "minilm"
    layers: int | None = None
    rows: int = 16
    shortest: float = 1.0
    dropout: float = 0.1
    attention_dropout: float | None = None
    attention: Implementation = "auto"
    scan_layers: bool = False
    packed_tokens: int | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", Device] = "auto"
    out: Path | None = None

    def setting(self, **others: Any) -> Setting:
        """A step with these flags, and others of `Setting`, which checks them all."""
        shared = {f.name: getattr(self, f.name) for f in dataclasses.fields(StepFlags)}
        return Setting(**{**shared, **others})


@dataclasses.dataclass(frozen=True)
class Setting(StepFlags):
    """One training step.

    Attributes:
        tokens: T.
        solutions: Z, mentions in every row of the first half.
        task: a name of `STEPS`, such as "spans" of a reader.
    """

    tokens: int = 128
    solutions: int = 32
    task: Task = "spans"

    def __post_init__(self) -> None:
        require(self, "layers", "solutions", "packed_tokens", at_least=1)
        if self.packed_tokens is not None and self.packed_tokens < self.tokens:
            raise InputError(
                f"packed_tokens: expected at least {self.tokens} (tokens), found "
                f"{self.packed_tokens}"
            )
        require(self, "tokens", at_least=MIN_TOKENS)
        require(self, "rows", at_least=2)
        if self.rows % 2:
            raise InputError(f"rows: expected an even number, found {self.rows}")
        require(self, "shortest", at_least=0.5, at_most=1)
        require(self, "dropout", "attention_dropout", at_least=0, below=1)

    @property
    def sizes(self) -> Sizes:
        sizes = PRESETS[self.preset]
        return sizes if self.layers is None else sizes._replace(layers=self.layers)

    @property
    def batch_sizes(self) -> BatchSizes:
        vocabulary = self.sizes.vocabulary
        return BatchSizes(self.rows, self.tokens, self.solutions, vocabulary, self.shortest)

    @property
    def dropout_rates(self) -> dict[str, Any]:
        """Fields of `BertConfig`."""
        attention = self.dropout if self.attention_dropout is None else self.attention_dropout
        return {"hidden_dropout": self.dropout, "attention_dropout": attention}


def step_flops(setting: Setting, *, padding: bool = True) -> float:
    """Floating-point operations of the matrix products in the encoder, in a whole step.

    As if texts were padded to T, packed or not, or those of real tokens within their texts. The
    backward pass takes twice those of the forward pass.

    Example:
        >>> f"{step_flops(Setting('bert-base', rows=32, tokens=300)) / 1e12:.2f} TFLOP"
        '5.21 TFLOP'
    """
    lengths = [setting.tokens] * setting.rows if padding else _lengths(setting).tolist()
    return float(3 * sum(_text_flops(setting.sizes, tokens) for tokens in lengths))


def _text_flops(sizes: Sizes, tokens: int) -> int:
    """Those of one text on the way forward."""
    dense = 2 * sizes.layers * (4 * sizes.hidden**2 + 2 * sizes.hidden * sizes.intermediate)
    return tokens * (dense + 2 * 2 * tokens * sizes.layers * sizes.hidden)


def step_tokens(setting: Setting) -> int:
    """Real tokens of a whole step."""
    return int(_lengths(setting).sum())


def _lengths(setting: Setting) -> np.ndarray:
    return random_texts(setting.batch_sizes, np.random.default_rng(0))["where"].sum(axis=1)
