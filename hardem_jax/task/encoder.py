"""Models on an encoder: pretrained for a new run, or as a saved run has it."""

import abc
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import jax.numpy as jnp
from flax import nnx

from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.encoders import pretrained
from hardem_jax.encoders.base import Encoder, EncoderConfig
from hardem_jax.errors import InputError
from hardem_jax.task import config as configs
from hardem_jax.task.base import Model
from hardem_jax.task.run_config import RunConfig


@dataclasses.dataclass(frozen=True)
class EncoderModel(Model):
    """A model that consists of an encoder and a head; ``config`` is a
    `hardem_jax.task.config.EncoderConfig`, ``encoder`` its sizes."""

    config: Any
    encoder: EncoderConfig
    tokenizer: Tokenizer

    @staticmethod
    @abc.abstractmethod
    def module(config: Any, encoder: Encoder, *, seed: int) -> nnx.Module:
        """The encoder with a fresh head."""

    @staticmethod
    def tokenizer_for(config: Any, data: Any) -> Tokenizer:
        """The tokenizer of a new model: its encoder's, unless the data are tokenized already."""
        del data
        return load_tokenizer(config.encoder)

    @classmethod
    def start(cls, config: Any, data: Any, *, seed: int, **fields: Any) -> Self:
        """The pretrained encoder with a fresh head, to which a subclass passes ``fields``."""
        tokenizer = cls.tokenizer_for(config, data)
        encoder = load_encoder(config, tokenizer)
        module = cls.module(config, encoder, seed=seed, **fields)
        return cls(*nnx.split(module, nnx.Param), config, encoder.config, tokenizer, **fields)

    @classmethod
    def restore(cls, config: Any, run: RunConfig, **fields: Any) -> Self:
        """The model of a run, without values; ``fields`` as in `start`."""
        sizes = restore_sizes(run)
        abstract = nnx.eval_shape(
            lambda: cls.module(config, untrained_encoder(config, sizes), seed=0, **fields)
        )
        tokenizer = load_tokenizer(run.folder)
        return cls(*nnx.split(abstract, nnx.Param), config, sizes, tokenizer, **fields)

    @property
    def max_tokens(self) -> int:
        return self.encoder.max_tokens

    def check_lengths(self, buckets: Sequence[int]) -> None:
        del buckets  # inputs are cut to --model.max-tokens
        check_lengths(self.config, self.encoder, ())

    def save(self, run_dir: Path) -> dict[str, Any]:
        self.tokenizer.save(run_dir)
        return save_sizes(self.encoder)


def load_encoder(config: configs.EncoderConfig, tokenizer: Tokenizer) -> Encoder:
    """The encoder with its pretrained weights."""
    encoder = pretrained.load_encoder(
        config.encoder,
        num_layers=config.num_layers,
        dtype=jnp.dtype(config.dtype),
        remat=config.remat,
        attention=config.attention,
        scan_layers=config.scan_layers,
        attention_dropout=config.attention_dropout,
        ignore=config.ignore,
    )
    check_vocabulary(config.encoder, encoder.config, tokenizer)
    return encoder


def check_vocabulary(name: str, sizes: EncoderConfig, tokenizer: Tokenizer) -> None:
    """Raises `InputError` if the tokenizer has entries that the encoder of this name lacks."""
    if sizes.vocab_size < tokenizer.vocab_size:
        raise InputError(
            f"{name}: vocabulary of {sizes.vocab_size} entries, but a tokenizer of "
            f"{tokenizer.vocab_size}"
        )


def untrained_encoder(config: configs.EncoderConfig, sizes: EncoderConfig) -> Encoder:
    """A run's encoder with random weights: call it inside `nnx.eval_shape`."""
    return pretrained.untrained_encoder(
        sizes,
        dtype=jnp.dtype(config.dtype),
        attention=config.attention,
        scan_layers=config.scan_layers,
    )


def save_sizes(sizes: EncoderConfig) -> dict[str, Any]:
    """What a model saves about its encoder, for `restore_sizes`."""
    return {"encoder": {"model_type": sizes.model_type, **dataclasses.asdict(sizes)}}


def restore_sizes(run: RunConfig) -> EncoderConfig:
    """The sizes of a run's encoder."""
    fields = run.part("encoder")
    try:
        kind = pretrained.architecture(fields.pop("model_type", None)).config
    except InputError as error:
        raise InputError(f"{run.place}: model.encoder.{error}") from error
    return run.restore(kind, fields, "model.encoder")


def check_lengths(
    config: configs.EncoderConfig, sizes: EncoderConfig, lengths: Sequence[int]
) -> None:
    """Raises `InputError` if batches are longer than the encoder has positions, or inputs are cut
    to more tokens."""
    flags = {"--batches.buckets": max(lengths, default=0)}
    flags["--model.max-tokens"] = getattr(config, "max_tokens", 0)
    for flag, found in flags.items():
        if found > sizes.max_tokens:
            raise InputError(
                f"{flag}: expected at most the {sizes.max_tokens} positions of {config.encoder}, "
                f"found {found}"
            )
