"""The encoder of `tasks.config.EncoderConfig`: with its pretrained weights, or as a run has it."""

from collections.abc import Sequence

import jax.numpy as jnp
from flax import nnx

from hardem_jax.data.tokenizer import Wordpieces
from hardem_jax.errors import InputError
from hardem_jax.models.encoders.bert import Bert, BertConfig
from hardem_jax.models.encoders.bert_weights import load_bert
from hardem_jax.tasks.config import EncoderConfig


def load_encoder(config: EncoderConfig, tokenizer: Wordpieces) -> Bert:
    """The encoder with its weights.

    Raises:
        InputError: if the checkpoint cannot be loaded or its vocabulary is too small.
    """
    encoder = load_bert(
        config.encoder,
        num_layers=config.num_layers,
        dtype=jnp.dtype(config.dtype),
        remat=config.remat,
        attention=config.attention,
        scan_layers=config.scan_layers,
        attention_dropout=config.attention_dropout,
    )
    if encoder.config.vocab_size < tokenizer.vocab_size:
        raise InputError(
            f"{config.encoder}: vocabulary of {encoder.config.vocab_size} entries, but the data "
            f"was prepared with a tokenizer of {tokenizer.vocab_size}"
        )
    return encoder


def untrained_encoder(config: EncoderConfig, sizes: BertConfig) -> Bert:
    """An encoder as a run has it, with fresh weights: call it in `nnx.eval_shape`.

    Args:
        config: the run's.
        sizes: from the run's ``config.json``.
    """
    return Bert(
        sizes,
        rngs=nnx.Rngs(0),
        dtype=jnp.dtype(config.dtype),
        attention=config.attention,
        scan_layers=config.scan_layers,
    )


def check_lengths(config: EncoderConfig, bert: BertConfig, lengths: Sequence[int]) -> None:
    """Raises `InputError` for batches of inputs longer than the encoder has positions."""
    positions = bert.max_position_embeddings
    if max(lengths) > positions:
        raise InputError(
            f"--batches.buckets: expected at most the {positions} positions of {config.encoder}, "
            f"found {max(lengths)}"
        )
