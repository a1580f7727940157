"""The training step to measure: flags, sizes, a random batch, FLOPs. Imports nothing heavy.

Every process of the benchmark makes the same batch, so none has to be sent.
"""

import dataclasses
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from experiments.benchmark.steps.tasks import Task
from hardem_jax.encoders.config import Implementation
from hardem_jax.errors import InputError, require
from hardem_jax.task.benchmark import BatchSizes, random_texts

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
#: Layers 0, 3, 6, ... of ModernBERT attend to the whole input.
GLOBAL_EVERY = 3
# Rows and columns of the product that is the measure of a device: large enough to fill it.
MATRIX_SIZE = {"cpu": 2048, "gpu": 8192, "tpu": 8192}

Architecture = Literal["bert", "modernbert"]


class Sizes(NamedTuple):
    """Sizes of an encoder, the first five in the order of the fields of its configuration.

    ModernBERT multiplies two products in its feed-forward blocks, and attends to
    ``local_attention`` tokens in all but every third layer.
    """

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    architecture: Architecture = "bert"
    local_attention: int | None = None


Device = Literal["cpu", "gpu", "tpu"]
RandomBits = Literal["threefry2x32", "rbg", "unsafe_rbg"]
Preset = Literal["tiny", "minilm", "bert-base", "bert-large", "modernbert-base"]
PRESETS: dict[Preset, Sizes] = {
    "tiny": Sizes(1000, 32, 2, 2, 64),
    "minilm": Sizes(30522, 384, 6, 12, 1536),
    "bert-base": Sizes(30522, 768, 12, 12, 3072),
    "bert-large": Sizes(30522, 1024, 24, 16, 4096),
    "modernbert-base": Sizes(50368, 768, 22, 12, 1152, "modernbert", 128),
}


@dataclasses.dataclass(frozen=True)
class StepFlags:
    """Flags of every command that runs a training step.

    Attributes:
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        rows: R of each device; the first half has mentions, the second half none, as in training.
        shortest: length of the shortest row as a share of T; lengths are uniform from there to T.
        dropout: rate, of hidden units and of attention.
        attention_dropout: of attention, if it has a rate of its own; our kernels need 0.
        random_bits: how dropout draws: "threefry2x32", as training does, or by the hardware
            ("rbg", "unsafe_rbg").
        attention: what computes it, see `hardem_jax.encoders.ops.attention`.
        scan_layers: compile one layer and loop over it, as `--model.scan-layers` does.
        packed_tokens: length of the rows into which texts are packed; None pads them.
        accumulate: k, micro-batches of a step, each with these rows.
        fsdp: devices over which parameters and optimiser state are split.
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
    random_bits: RandomBits = "threefry2x32"
    attention: Implementation = "auto"
    scan_layers: bool = False
    packed_tokens: int | None = None
    accumulate: int = 1
    fsdp: int = 1
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", Device] = "auto"
    out: Path | None = None

    def setting(self, **others: Any) -> "Setting":
        """A step with these flags, and others of `Setting`, which checks them all."""
        shared = {f.name: getattr(self, f.name) for f in dataclasses.fields(StepFlags)}
        return Setting(**{**shared, **others})


@dataclasses.dataclass(frozen=True)
class Setting(StepFlags):
    """One training step.

    Attributes:
        tokens: T.
        solutions: Z, mentions in every row of the first half.
        task: a name of `STEPS`, such as "spans" of a reader or an "encoder" without a head.
        num_devices: that share a step, each with its own rows.
    """

    tokens: int = 128
    solutions: int = 32
    task: Task = "spans"
    num_devices: int = 1

    def __post_init__(self) -> None:
        counts = ("layers", "solutions", "packed_tokens", "accumulate", "fsdp", "num_devices")
        require(self, *counts, at_least=1)
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
        if self.out is not None and not self.out.parent.is_dir():
            # Now, and not after the measurements.
            raise InputError(f"out: expected an existing folder, found none at {self.out.parent}")

    @property
    def sizes(self) -> Sizes:
        sizes = PRESETS[self.preset]
        return sizes if self.layers is None else sizes._replace(layers=self.layers)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Of the rows of all devices and parts."""
        vocabulary = self.sizes.vocabulary
        return BatchSizes(self.examples, self.tokens, self.solutions, vocabulary, self.shortest)

    @property
    def examples(self) -> int:
        """Rows of a whole step."""
        return self.rows * self.num_devices * self.accumulate

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
    lengths = [setting.tokens] * setting.examples if padding else _lengths(setting).tolist()
    return float(3 * sum(_text_flops(setting.sizes, tokens) for tokens in lengths))


def _text_flops(sizes: Sizes, tokens: int) -> int:
    """Those of one text on the way forward."""
    products = 3 if sizes.architecture == "modernbert" else 2
    dense = 2 * sizes.layers * (4 * sizes.hidden**2 + products * sizes.hidden * sizes.intermediate)
    seen = tokens * sizes.layers
    if sizes.local_attention is not None:
        near = min(tokens, sizes.local_attention)
        everywhere = len(range(0, sizes.layers, GLOBAL_EVERY))
        seen = tokens * everywhere + near * (sizes.layers - everywhere)
    return tokens * (dense + 2 * 2 * seen * sizes.hidden)


def step_tokens(setting: Setting) -> int:
    """Real tokens of a whole step."""
    return int(_lengths(setting).sum())


def _lengths(setting: Setting) -> np.ndarray:
    return random_texts(setting.batch_sizes, np.random.default_rng(0))["where"].sum(axis=1)
