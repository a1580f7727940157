"""What tasks have in common: the loss of a batch, reading a split, scores by the size of Z."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental import multihost_utils

from hardem_jax.data.batching.padding import Batch, BatchConfig, Pad, evaluation_batches
from hardem_jax.models.encoders.packing import real_token_share
from hardem_jax.objectives import Objective

Array = jax.Array
#: Wraps an iterator whose items show how far an evaluation has come.
Progress = Callable[[Iterator[Any]], Iterator[Any]]

#: The paper's measure of sparsity is the share of Z below such probabilities (appendix C).
SPARSITY_THRESHOLDS = (1e-3, 1e-4)


def make_loss(
    graphdef: nnx.GraphDef, objective: Objective, **log_prob: Any
) -> Callable[..., tuple[Array, dict]]:
    """The loss of a training batch as a function of the model's parameters.

    Args:
        graphdef: of a model whose call gives a distribution over solutions, from `nnx.split`.
        objective: decides which solutions are trusted.
        **log_prob: options of the distribution's ``log_prob``.

    Returns:
        ``loss(params, batch, *, step, key, dropout_key) -> (loss, metrics)``, both of float32
        scalars: the objective draws from ``key``, dropout from ``dropout_key``. A batch has
        ``solutions`` and ``solutions_where`` ``[B, Z]`` bool beside the model's inputs. Among
        the metrics ``items`` is the number of questions that the loss is the mean over.
    """

    def loss(
        params: Any, batch: Mapping[str, Array], *, step: Array, key: Array, dropout_key: Array
    ):
        model = nnx.merge(graphdef, params)
        distribution = model(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = batch["solutions_where"]
        log_probs = distribution.log_prob(batch["solutions"], **log_prob)
        value, metrics = objective(log_probs, step=step, key=key, where=where)
        num_items = jnp.maximum(jnp.sum(jnp.any(where, axis=-1)), 1)
        metrics |= {
            "z_size": jnp.sum(where) / num_items,
            "items": num_items.astype(jnp.float32),
        }
        if "where" in batch:  # the encoder reads wordpieces
            metrics["real_tokens"] = real_token_share(batch)
        return value, metrics

    return loss


def read_rows(
    read: Callable[[Any, Mapping[str, Array]], Mapping[str, Array]],
    params: Any,
    inputs: Sequence[Any],
    sizes: np.ndarray,
    *,
    batches: BatchConfig,
    pad: Pad,
    place: Callable[[Batch], Mapping[str, Array]],
) -> Iterator[tuple[int, dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Run a compiled function over a split, grouped by length.

    Args:
        read: (params, batch) -> arrays with one row for each of the batch.
        params: of the model.
        inputs: what ``pad`` takes, by index.
        sizes: ``[N, 2]`` int, tokens and solutions of each.
        batches: batch size and buckets.
        pad: makes a batch.
        place: puts a batch of numpy arrays on the devices.

    Yields:
        ``(index, row of the outputs, row of the batch)`` for every input.
    """
    for indices, batch in evaluation_batches(inputs, sizes[:, 0], config=batches, pad=pad):
        arrays = {name: value for name, value in batch.items() if name != "ids"}
        out = fetch(read(params, place(arrays)))
        for row, index in enumerate(indices):
            outputs, entries = ({n: x[row] for n, x in part.items()} for part in (out, arrays))
            yield int(index), outputs, entries


def fetch(arrays: Any) -> Any:
    """``jax.device_get``, also of arrays whose rows are on the devices of several processes.

    All processes have to ask for the same arrays, and all get all of their rows.

    Example:
        >>> fetch({"x": jnp.arange(2)})
        {'x': array([0, 1], dtype=int32)}
    """

    def whole(array: Array) -> Any:
        if array.is_fully_addressable:
            return array
        return multihost_utils.process_allgather(array, tiled=True)

    return jax.device_get(jax.tree.map(whole, arrays))


def size_group(size: int, bounds: Sequence[int]) -> str:
    """Which group of |Z| a question is in (the paper's figure 3).

    Args:
        size: |Z|.
        bounds: the largest size of every group but the last, ascending.

    Example:
        >>> [size_group(size, (0, 1, 4)) for size in (0, 1, 3, 9)]
        ['0', '1', '2-4', '5+']
    """
    low = 0
    for high in bounds:
        if size <= high:
            return f"{high}" if low >= high else f"{low}-{high}"
        low = high + 1
    return f"{low}+"


def names_by_size(measure: str, bounds: Sequence[int]) -> list[str]:
    """The names of a score by |Z|, see `size_group`.

    Example:
        >>> names_by_size("em", (1,))
        ['em |Z|=0-1', 'em |Z|=2+']
    """
    return [f"{measure} |Z|={size_group(size, bounds)}" for size in (*bounds, max(bounds) + 1)]


def percentages(
    groups: Mapping[str, Sequence[Any]], *, measure: str, bounds: Sequence[int]
) -> dict[str, float]:
    """Means in percent: scores by name, then those of ``measure`` by |Z|, in ascending order.

    Args:
        groups: name -> outcome of every question; by size under ``"{measure} |Z|={group}"``.
        measure: the score that is broken down.
        bounds: see `size_group`.

    Example:
        >>> groups = {"em |Z|=2+": [1], "f1": [0.5, 1], "em |Z|=0-1": [0], "em": [0, 1]}
        >>> percentages(groups, measure="em", bounds=(1,))
        {'em': 50.0, 'f1': 75.0, 'em |Z|=0-1': 0.0, 'em |Z|=2+': 100.0}
    """
    by_size = names_by_size(measure, bounds)
    order = [*sorted(name for name in groups if name not in by_size), *by_size]
    return {name: 100 * float(np.mean(groups[name])) for name in order if groups.get(name)}
