"""Configuration of the models; importing it is cheap enough to parse a command line."""

from __future__ import annotations

import dataclasses
from typing import Literal

from hardem_jax.errors import InputError, require

#: What computes attention, see `hardem_jax.encoders.ops.attention`.
Implementation = Literal["auto", "xla", "cudnn", "splash"]
#: What the backward pass recomputes instead of reading it from memory: nothing; the attention
#: probabilities, which are the largest array of long inputs and cost few operations (Korthikanti et
#: al., 2022, section 5); all but products with weights; everything in a layer but its input.
Remat = Literal["none", "attention", "dots", "layer"]
#: What the softmax of a value's first and last word ranges over, see `hardem_jax.queries.model`.
ValueUnits = Literal["words", "wordpieces"]

_RATES = ("dropout", "layer_dropout")


@dataclasses.dataclass(frozen=True)
class NAQANetSizes:
    """Sizes and rates of NAQANet; the defaults are those of Dua et al. (2019) in their code."""

    word_size: int = 300
    """Width of a word vector."""
    character_size: int = 64
    """Width of a character embedding."""
    num_filters: int = 200
    """Filters of the character convolution."""
    filter_width: int = 5
    """Characters that a filter sees."""
    num_highway_layers: int = 2
    """Highway layers over the word features."""
    hidden_size: int = 128
    """Width of everything after the word features."""
    num_heads: int = 8
    """Heads of each self-attention."""
    num_phrase_blocks: int = 1
    """Blocks of the encoder that reads passage and question separately."""
    num_phrase_convs: int = 4
    """Convolutions in each of them."""
    phrase_width: int = 7
    """Words that one of these convolutions sees."""
    num_modelling_blocks: int = 6
    """Blocks of the encoder that reads the passage in the light of the question."""
    num_modelling_convs: int = 2
    """Convolutions in each of them."""
    modelling_width: int = 5
    """Words that one of these convolutions sees."""
    num_passes: int = 4
    """Times that encoder is applied, with the same parameters, to its own output."""
    dropout: float = 0.1
    """Probability of dropping an element."""
    layer_dropout: float = 0.1
    """Probability of leaving out the last sublayer of a block; earlier ones in proportion."""

    def __post_init__(self) -> None:
        require(self, *_RATES, at_least=0, below=1)
        sizes = {f.name for f in dataclasses.fields(NAQANetSizes)} - {*_RATES, "num_highway_layers"}
        require(self, *sorted(sizes), at_least=1, integer=True)
        require(self, "num_highway_layers", at_least=0, integer=True)
        size, heads = self.hidden_size, self.num_heads
        if size % 2 or size < 4 or size % heads:
            raise InputError(
                "hidden_size: expected an even number of at least 4 and a multiple of "
                f"{heads} heads, found {size}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NAQANetConfig(NAQANetSizes):
    """`NAQANetSizes`, with what follows from the data."""

    num_words: int
    """Entries of the word vocabulary, padding and unknown included."""
    num_characters: int
    """Entries of the character vocabulary, padding and unknown included."""
    num_counts: int = 10
    """Counts that can be answered: 0, 1, ... num_counts - 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "num_words", "num_characters", "num_counts", at_least=1, integer=True)
