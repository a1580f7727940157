"""Configurations of tasks and their models. Importing them is cheap: no jax."""

import dataclasses
from typing import Literal

from hardem_jax.encoders.config import Implementation, Remat
from hardem_jax.errors import require
from hardem_jax.training.fingerprint import may_change


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """A pretrained encoder.

    Attributes:
        encoder: Hugging Face name or folder of a checkpoint: BERT, RoBERTa, ModernBERT, ...
        num_layers: keep only the first layers; None keeps all.
        dtype: of the computation in the encoder; parameters and losses stay float32.
        remat: what the backward pass recomputes to save memory: nothing, the attention
            probabilities, everything but products with weights, or whole layers.
        scan_layers: compile one layer and loop over it, to save compile time.
        attention: its implementation: XLA, a kernel for GPUs or TPUs, or (auto) the kernel of the
            device if there is no attention dropout, else XLA.
        attention_dropout: on probabilities; None for the checkpoint's rate. Kernels train with 0.
        ignore: heads of a fine-tuned checkpoint to leave out, such as "qa_outputs" or "classifier".
    """

    encoder: str = "bert-base-uncased"
    num_layers: int | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = may_change("the same run up to rounding", default="none")
    scan_layers: bool = False
    attention: Implementation = "auto"
    attention_dropout: float | None = None
    ignore: tuple[str, ...] = may_change("what is left out is not read", default=())

    def __post_init__(self) -> None:
        require(self, "num_layers", at_least=1)
        require(self, "attention_dropout", at_least=0, below=1)
