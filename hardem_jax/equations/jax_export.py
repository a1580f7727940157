"""A trained equation tagger as a program for jax alone, see `hardem_jax.task.jax_export`."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx

from hardem_jax.equations.model import EquationTagger
from hardem_jax.task.jax_export import TEXT_INPUTS, Inputs, export_model


def export_tagger(tagger: EquationTagger) -> bytes:
    """A tagger of equations as a program, see `export_model`.

    Its batch has ``token_ids`` and ``token_type_ids`` int32 [B, T], ``where`` bool [B, T],
    ``number_tokens`` int32 [B, N], the first token of each number, and ``numbers_where`` bool
    [B, N]. It returns ``tags`` float32, log-probabilities of the tags of the special numbers and
    then of those of the text; see `TagDistribution`. The equation that they make most likely is
    searched for outside: the normaliser of a tagger over equations is the same for all of them.
    """
    numbers: Inputs = {
        "number_tokens": ("batch, numbers", jnp.int32),
        "numbers_where": ("batch, numbers", jnp.bool_),
    }
    plain = nnx.merge(*nnx.split(tagger))
    plain.rules = None
    return export_model(
        plain,
        {**TEXT_INPUTS, **numbers},
        lambda distribution: {"tags": distribution.tags},
        max_tokens=tagger.encoder.config.max_tokens,
    )
