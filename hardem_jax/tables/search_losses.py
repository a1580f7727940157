"""The loss of a training batch under an objective that searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.encoders.packing import token_metrics
from hardem_jax.search.candidates import Space
from hardem_jax.search.objectives import AnySearchObjective, Memory, Metrics
from hardem_jax.training.grad_accumulation import ITEMS, MEMORY, LossFn, Mean
from hardem_jax.training.state import ITEM

Array = jax.Array


def make_search_loss(
    graphdef: nnx.GraphDef,
    objective: AnySearchObjective,
    space: Callable[[Any, Mapping[str, Array]], Space],
) -> LossFn:
    """The loss of a training batch under an objective that searches.

    Args:
        graphdef: of a model whose call gives P(z | x), from `nnx.split`.
        objective: looks for solutions.
        space: what is searched, given P(z | x) and the batch.

    Returns:
        A `LossFn`. In addition to the model's inputs, a batch has ``item`` and ``row_where``, and
        ``memory`` if the objective has one. ``solutions`` are not read. For the metrics see
        `hardem_jax.search.protocol.SearchObjective`.
    """

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        del key  # the same in all parts of a batch, whose samples have to be independent
        dropout_key, key = jax.random.split(dropout_key)
        model = nnx.merge(graphdef, params)
        found = model(batch, rngs=nnx.Rngs(dropout=dropout_key))
        rows = batch["row_where"] & (batch[ITEM] >= 0)
        memory = batch.get(MEMORY, {})
        searched = space(found, batch)
        value, counts, memory = objective(searched, memory, step=step, key=key, rows=rows)
        return value, reported(counts, memory, batch)

    return loss


def reported(counts: Metrics, memory: Memory, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a loss returns beside its value.

    Args:
        counts: metrics of the objective, see `hardem_jax.search.protocol.SearchObjective`.
        memory: of the rows, after the step.
        batch: the batch.
    """
    averaged, _ = counts["averaged"]
    means = {name: Mean(*map(_float, x)) for name, x in counts.items() if name != "averaged"}
    metrics: dict[str, Any] = {**means, ITEMS: _float(averaged)}
    if memory:
        metrics[MEMORY] = jax.lax.stop_gradient(memory)
    if "where" in batch:  # the encoder reads tokens
        metrics |= token_metrics(batch)
    return metrics


def _float(x: Array) -> Array:
    return x.astype(jnp.float32)
