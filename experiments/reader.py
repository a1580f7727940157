"""The reader of a run: made from a pretrained encoder, or found again in the run's folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from experiments.devices import on_mesh, placing, whole_rows
from experiments.runs import RunConfig
from hardem_jax.data.batches import BatchConfig
from hardem_jax.data.tokenizer import Wordpieces, load_tokenizer
from hardem_jax.data.windows import WindowConfig
from hardem_jax.errors import InputError, require
from hardem_jax.models.attention import Implementation
from hardem_jax.models.bert import Bert, BertConfig, Remat
from hardem_jax.models.bert_weights import load_bert
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.tasks.span_qa import InferenceConfig, SpanQA
from hardem_jax.training.checkpoint import load_params


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """A pretrained encoder.

    Attributes:
        encoder: Hugging Face name or folder of a BERT-family checkpoint.
        num_layers: keep the first so many layers; None keeps all.
        dtype: of the computation in the encoder; parameters and losses stay float32.
        remat: what the backward pass computes again to save memory: nothing, the attention
            probabilities, all but products with weights, or all of each layer.
        scan_layers: compile one layer and loop over it, to save compile time.
        attention: what computes it: XLA, the kernel of a GPU or TPU, or (auto) the kernel of the
            device wherever there is no attention dropout, else XLA.
        attention_dropout: on attention probabilities; None for the checkpoint's rate. Kernels have
            none, so that training with one needs 0.
    """

    encoder: str = "bert-base-uncased"
    num_layers: int | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = "none"
    scan_layers: bool = False
    attention: Implementation = "auto"
    attention_dropout: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.remat, bool):  # as runs of version 0.1 have it in their config.json
            object.__setattr__(self, "remat", "layer" if self.remat else "none")
        require(self, "num_layers", at_least=1)
        require(self, "attention_dropout", at_least=0, below=1)

    def load(self, tokenizer: Wordpieces) -> Bert:
        """The encoder with its weights.

        Raises:
            InputError: if the checkpoint cannot be loaded or its vocabulary is too small.
        """
        encoder = load_bert(
            self.encoder,
            num_layers=self.num_layers,
            dtype=jnp.dtype(self.dtype),
            remat=self.remat,
            attention=self.attention,
            scan_layers=self.scan_layers,
            attention_dropout=self.attention_dropout,
        )
        if encoder.config.vocab_size < tokenizer.vocab_size:
            raise InputError(
                f"{self.encoder}: vocabulary of {encoder.config.vocab_size} entries, but the data "
                f"was prepared with a tokenizer of {tokenizer.vocab_size}"
            )
        return encoder

    def check_lengths(self, bert: BertConfig, lengths: Sequence[int]) -> None:
        """Raises `InputError` for batches of inputs longer than the encoder has positions."""
        positions = bert.max_position_embeddings
        if max(lengths) > positions:
            raise InputError(
                f"--batches.buckets: expected at most the {positions} positions of {self.encoder}, "
                f"found {max(lengths)}"
            )

    def untrained(self, sizes: BertConfig) -> Bert:
        """An encoder as a run has it, with fresh weights: call it in `nnx.eval_shape`.

        Args:
            sizes: from the run's ``config.json``.
        """
        return Bert(
            sizes,
            rngs=nnx.Rngs(0),
            dtype=jnp.dtype(self.dtype),
            attention=self.attention,
            scan_layers=self.scan_layers,
        )


@dataclasses.dataclass(frozen=True)
class ReaderConfig(EncoderConfig):
    """The model.

    Attributes:
        softmax_over: "context" (default) or, as the paper's formula has it, all "tokens".
    """

    softmax_over: Literal["context", "tokens"] = "context"


def new_reader(config: ReaderConfig, tokenizer: Wordpieces, *, seed: int) -> SpanReader:
    """A reader with the pretrained encoder and fresh heads.

    Raises:
        InputError: see `EncoderConfig.load`.
    """
    encoder = config.load(tokenizer)
    return SpanReader(encoder, rngs=nnx.Rngs(seed), softmax_over=config.softmax_over)


class TrainedReader:
    """What a run folder holds, ready to answer.

    Attributes:
        tokenizer: the run's.
        windows: how documents were cut.
        task: `SpanQA`.
        params: of the chosen checkpoint.

    Args:
        run_dir: the folder.
        checkpoint: "best" or "last".
        batch_size: windows read at once, with a mesh rounded up to a multiple of its devices.
        mesh: devices to read on; None for the first.
        **inference: other fields of `InferenceConfig` than the run has.

    Raises:
        InputError: if the folder holds no such run.
    """

    def __init__(
        self,
        run_dir: Path,
        checkpoint: str,
        *,
        batch_size: int,
        mesh: Mesh | None = None,
        **inference: Any,
    ):
        config = RunConfig(run_dir, "windows")
        model = config.flags("model", ReaderConfig)
        own = config.flags("inference", InferenceConfig)
        batches = config.flags("batches", BatchConfig)
        bert = config.section("bert", BertConfig)
        self.windows = config.section("windows", WindowConfig)
        self.tokenizer = load_tokenizer(run_dir)
        abstract = nnx.eval_shape(
            lambda: SpanReader(
                model.untrained(bert),
                rngs=nnx.Rngs(0),
                softmax_over=model.softmax_over,
            )
        )
        graphdef, shapes = nnx.split(abstract, nnx.Param)
        self.params = load_params(run_dir / checkpoint, on_mesh(shapes, mesh))
        self.task = SpanQA(
            graphdef,
            dataclasses.replace(own, batch_size=whole_rows(batch_size, mesh), **inference),
            batches=batches,
            pad_id=self.tokenizer.pad_id,
            place=placing(mesh),
        )
