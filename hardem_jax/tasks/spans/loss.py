"""What a span reader is trained on: the objective over its mentions, and the selector's loss."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from hardem_jax.data.inputs.windows import NO_ANSWER
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.models.encoders.packing import token_metrics
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import Objective
from hardem_jax.tasks.base import LossFn, keys_of_part, z_metrics
from hardem_jax.tasks.config import LatentConfig
from hardem_jax.tasks.z_visits import NOT_SEEN, visit_metrics

Array = jax.Array
PER_WINDOW = LatentConfig()


def make_span_loss(
    graphdef: nnx.GraphDef,
    objective: Objective,
    latent: LatentConfig = PER_WINDOW,
    *,
    negatives: int = 0,
) -> LossFn:
    """The loss of a training batch as a function of the reader's parameters.

    An item costs the objective over its mentions plus the selector's cross-entropy on each of its
    windows. The batch costs the mean over items.

    Args:
        graphdef: of a `SpanReader`, from `nnx.split`.
        objective: decides which mentions are trusted.
        latent: what they are the mentions of. Scope "window" takes rows in any order; the others
            take items of ``group_size + negatives`` rows (`data.batching.grouped`).
        negatives: number of trailing rows per item that only contribute to the selector loss.

    Returns:
        ``loss(params, batch, *, step, key, dropout_key) -> (loss, metrics)``, see
        `tasks.base.make_loss`; ``items`` counts windows or groups with a mention. Each window
        remembers whether the most likely mention of its group was in it (`tasks.z_visits`).
    """

    def of_groups(rows: Array) -> Array:
        """The rows of all groups, one group after the other."""
        if latent.scope == "window":
            return rows
        items = rows.reshape(-1, latent.rows + negatives, *rows.shape[1:])
        return items[:, : latent.rows].reshape(-1, *rows.shape[1:])

    def of_batch(rows: Array) -> Array:
        """Undoes `of_groups`; negatives get `NOT_SEEN`."""
        if latent.scope == "window":
            return rows
        groups = rows.reshape(-1, latent.rows)
        return jnp.pad(groups, ((0, 0), (0, negatives)), constant_values=NOT_SEEN).reshape(-1)

    def mention_metrics(spans: SpanDistribution, batch: Mapping[str, Array]) -> dict[str, Any]:
        """`visit_metrics` of mentions, also where starts and ends are latent on their own."""
        log_probs = spans.log_prob(of_groups(batch["solutions"]))
        shape = (-1, latent.rows * log_probs.shape[-1])
        known = {name: batch.get(name) for name in ("true_solution", "memory")}
        found = visit_metrics(
            log_probs.reshape(shape),
            of_groups(batch["solutions_where"]).reshape(shape),
            **jax.tree.map(of_groups, known),
        )
        return found | jax.tree.map(of_batch, {k: v for k, v in found.items() if k == "memory"})

    def loss(
        params: Any, batch: Mapping[str, Array], *, step: Array, key: Array, dropout_key: Array
    ):
        key, dropout_key = keys_of_part(objective, key, dropout_key)
        reader: SpanReader = nnx.merge(graphdef, params)
        reading = reader(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = of_groups(batch["solutions_where"])
        spans = jax.tree.map(of_groups, reading.spans)
        if latent.rows > 1:
            spans = spans.normalize_over_groups(latent.rows)
        variables = _latent_variables(
            spans, of_groups(batch["solutions"]), where, latent.likelihood
        )
        span_loss, metrics, about = jnp.zeros(()), {}, []
        for log_probs, possible in variables:
            shape = (-1, latent.rows * log_probs.shape[-1])
            log_probs, possible = log_probs.reshape(shape), possible.reshape(shape)
            # The same key, hence the same draw, for all of them.
            loss_of_one, metrics = objective(log_probs, step=step, key=key, where=possible)
            span_loss += loss_of_one
            about.append(z_metrics(log_probs, possible))
        num_items = about[0]["items"]
        averaged = jnp.maximum(num_items, 1)
        selector_loss = selector_loss_sum(reading.selector_logits, _hold_answer(batch), batch)
        selector_loss /= averaged
        metrics |= {
            "span_loss": span_loss,
            "selector_loss": selector_loss,
            "items": num_items,
            "z_size": jnp.sum(where) / averaged,
            "z_entropy": jnp.sum(jnp.stack([entry["z_entropy"] for entry in about])),
            **token_metrics(batch),
            **mention_metrics(spans, batch),
        }
        return span_loss + selector_loss, metrics

    return loss


def selector_loss_sum(logits: Array, holds: Array, batch: Mapping[str, Array]) -> Array:
    """Cross-entropy of a selector, summed over the real rows of a batch.

    Args:
        logits: ``[R, 2]``; class 1 says that the window holds the answer.
        holds: ``[R]`` bool, whether it does.
        batch: has ``row_where``.
    """
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, holds.astype(jnp.int32))
    return jnp.sum(losses, where=batch["row_where"])


def _hold_answer(batch: Mapping[str, Array]) -> Array:
    """``[R]`` bool, the windows with an answer: one whose Z says that there is none has none."""
    parts = batch.get("parts", jnp.zeros_like(batch["token_ids"]))
    first = jnp.take_along_axis(parts, batch["solutions"][..., 0], axis=-1)
    return jnp.any(batch["solutions_where"] & (first != NO_ANSWER), axis=-1)


def _latent_variables(
    spans: SpanDistribution, solutions: Array, where: Array, likelihood: str
) -> Iterator[tuple[Array, Array]]:
    """``[R, K]`` log-probabilities and which of them are solutions, for each latent variable."""
    if likelihood == "span":
        yield spans.log_prob(solutions), where
        return
    for side, log_probs in enumerate((spans.start, spans.end)):
        nothing = jnp.zeros(log_probs.shape, bool)
        rows = jnp.arange(len(nothing))[:, None]
        yield log_probs, nothing.at[rows, solutions[..., side]].max(where)
