"""What a span reader is trained on: the objective over its mentions, and the selector's loss."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.documents.inputs import NO_ANSWER
from hardem_jax.documents.model import selector_loss_sum
from hardem_jax.encoders.packing import token_metrics
from hardem_jax.objectives import Objective
from hardem_jax.spans.config import LatentConfig
from hardem_jax.spans.distribution import SpanDistribution
from hardem_jax.spans.model import SpanReader
from hardem_jax.task.base import NOT_SEEN, LossFn, keys_of_part, visit_metrics, z_metrics

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
        `task.base.make_loss`; ``items`` counts windows or groups with a mention. Each window
        remembers whether the most likely mention of its group was in it (`visit_metrics`).
    """
    groups = _Groups(latent, negatives)

    def loss(
        params: Any, batch: Mapping[str, Array], *, step: Array, key: Array, dropout_key: Array
    ):
        key, dropout_key = keys_of_part(objective, key, dropout_key)
        reader: SpanReader = nnx.merge(graphdef, params)
        reading = reader(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = groups.of_batch(batch["solutions_where"])
        spans = jax.tree.map(groups.of_batch, reading.spans)
        if latent.rows > 1:
            spans = spans.normalize_over_groups(latent.rows)
        variables = _latent_variables(
            spans, groups.of_batch(batch["solutions"]), where, latent.likelihood
        )
        span_loss, metrics, about = jnp.zeros(()), {}, []
        for log_probs, possible in variables:
            log_probs, possible = groups.merge(log_probs), groups.merge(possible)
            # The same draw for all of them.
            loss_of_one, metrics = objective(
                log_probs, step=step, key=jax.random.clone(key), where=possible
            )
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
            "z_size": jnp.sum(where, dtype=jnp.float32) / averaged,
            "z_entropy": jnp.sum(jnp.stack([entry["z_entropy"] for entry in about])),
            **token_metrics(batch),
            **_mention_metrics(spans, batch, groups),
        }
        return span_loss + selector_loss, metrics

    return loss


@dataclasses.dataclass(frozen=True)
class _Groups:
    """How the windows of a batch make up items: groups of ``latent.rows``, then negatives."""

    latent: LatentConfig
    negatives: int

    def of_batch(self, rows: Array) -> Array:
        """The rows of all groups, one group after the other."""
        if self.latent.scope == "window":
            return rows
        items = rows.reshape(-1, self.latent.rows + self.negatives, *rows.shape[1:])
        return items[:, : self.latent.rows].reshape(-1, *rows.shape[1:])

    def to_batch(self, rows: Array) -> Array:
        """Undoes `of_batch`; negatives get `NOT_SEEN`."""
        if self.latent.scope == "window":
            return rows
        groups = rows.reshape(-1, self.latent.rows)
        return jnp.pad(groups, ((0, 0), (0, self.negatives)), constant_values=NOT_SEEN).reshape(-1)

    def merge(self, of_windows: Array) -> Array:
        """``[R, Z]``, the solutions of windows -> ``[G, rows * Z]``, those of their groups."""
        return of_windows.reshape(-1, self.latent.rows * of_windows.shape[-1])


def _mention_metrics(
    spans: SpanDistribution, batch: Mapping[str, Array], groups: _Groups
) -> dict[str, Any]:
    """`visit_metrics` of mentions, also where starts and ends are latent on their own."""
    log_probs = spans.log_prob(groups.of_batch(batch["solutions"]))
    where = groups.of_batch(batch["solutions_where"])
    known = {name: batch.get(name) for name in ("true_solution", "memory")}
    known = jax.tree.map(groups.of_batch, known)
    found = visit_metrics(groups.merge(log_probs), groups.merge(where), **known)
    if "memory" in found:
        found["memory"] = jax.tree.map(groups.to_batch, found["memory"])
    return found


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
