"""Configuration of the models; importing it is cheap enough to parse a command line."""

from __future__ import annotations

from typing import Literal

#: What computes attention, see `hardem_jax.encoders.ops.attention`.
Implementation = Literal["auto", "xla", "cudnn", "splash"]
#: What the backward pass recomputes instead of reading it from memory: nothing; the attention
#: probabilities, which are the largest array of long inputs and cost few operations (Korthikanti et
#: al., 2022, section 5); all but products with weights; everything in a layer but its input.
Remat = Literal["none", "attention", "dots", "layer"]
#: What the softmax of a value's first and last word ranges over, see `hardem_jax.queries.model`.
ValueUnits = Literal["words", "wordpieces"]
