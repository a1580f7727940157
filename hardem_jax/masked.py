r"""Masked softmax, logsumexp and maximum, with one treatment of empty rows, -inf and NaN.

Every loss, posterior, distribution and attention pool uses this module:

- A masked position is ignored, whatever its score; its softmax is 0, its log-softmax -inf.
- A score of -inf is impossible: it has no mass and gets no gradient.
- A row without a possible position has a softmax of 0 everywhere and a logsumexp of -inf.
- NaN at an unmasked position makes its row NaN, but no other row.
- Results are float32, and gradients are finite for every input without NaN or +inf.

`softmax`, `log_softmax` and `logsumexp` work along an axis. `Rows` does the same for the
solutions of a row in either layout of `hardem_jax.losses`.

Example:
    >>> scores = jnp.log(jnp.array([[1.0, 3.0, 4.0], [1.0, 1.0, 1.0]]))
    >>> where = jnp.array([[True, True, False], [False, False, False]])
    >>> print(softmax(scores, where).round(2))
    [[0.25 0.75 0.  ]
     [0.   0.   0.  ]]
    >>> print(jnp.exp(logsumexp(scores, where)))
    [4. 0.]
"""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike

Array = jax.Array


def softmax(scores: ArrayLike, where: ArrayLike | None = None, *, axis: int = -1) -> Array:
    """Returns the softmax over the positions ``where``; 0 elsewhere.

    Args:
        scores: real array of any shape and dtype.
        where: mask that broadcasts to ``scores``; None for all positions.
        axis: the axis that sums to 1.

    Returns:
        float32, the shape of ``scores``.

    Example:
        >>> softmax(jnp.zeros((1, 3)), jnp.array([[True, True, False]])).tolist()
        [[0.5, 0.5, 0.0]]
    """
    return jnp.moveaxis(_rows_along(scores, where, axis).softmax(), -1, axis)


def log_softmax(scores: ArrayLike, where: ArrayLike | None = None, *, axis: int = -1) -> Array:
    """Returns the logarithm of `softmax`, -inf outside ``where``. Same arguments.

    Example:
        >>> print(log_softmax(jnp.zeros(2), jnp.array([True, False])))
        [  0. -inf]
    """
    return jnp.moveaxis(_rows_along(scores, where, axis).log_softmax(), -1, axis)


def logsumexp(scores: ArrayLike, where: ArrayLike | None = None, *, axis: int = -1) -> Array:
    """Returns log sum exp over the positions ``where``; -inf if none is possible.

    Arguments as in `softmax`; the result is reduced along the axis.

    Example:
        >>> print(jnp.exp(logsumexp(jnp.log(jnp.array([1.0, 2.0])))).round(4))
        3.0
    """
    return _rows_along(scores, where, axis).logsumexp()


def _rows_along(scores: ArrayLike, where: ArrayLike | None, axis: int) -> "Rows":
    scores = jnp.asarray(scores)
    mask = None
    if where is not None:
        mask = jnp.moveaxis(jnp.broadcast_to(as_mask(where), scores.shape), axis, -1)
    return Rows.of(jnp.moveaxis(scores, axis, -1), where=mask)


def one_hot_argmax(scores: Array) -> Array:
    """``[..., Z]`` bool, true at the first of the highest scores; NaN counts as the highest.

    Selects by position, not by ``scores == max(scores)``: a compiler may compute the scores once
    for the maximum and again for the comparison, with different rounding, so that none is equal
    (https://github.com/jax-ml/jax/issues/40564).

    Example:
        >>> print(one_hot_argmax(jnp.array([1.0, 3.0, 3.0])))
        [False  True False]
    """
    if scores.shape[-1] == 0:
        return jnp.zeros(scores.shape, bool)
    return jax.nn.one_hot(jnp.argmax(scores, axis=-1), scores.shape[-1], dtype=bool)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The scored solutions of all rows, padded or ragged; see "Layouts" in `hardem_jax.losses`.

    Methods reduce per-solution values to per-row values (``sum``, ``max``, ``any``,
    ``logsumexp``), broadcast them back (``spread``), or select among the solutions of each row
    (``first``, ``most_likely``, ``rank``). Code that uses them works in both layouts.

    Attributes:
        scores: float32 ``[..., Z]`` or ``[N]``, -inf at padding.
        where: bool, True at solutions.
        segment_ids, num_segments: ragged layout only, otherwise None.

    Example:
        >>> z = Rows.of(jnp.array([5.0, 2.0, 7.0]), segment_ids=jnp.array([0, 1, 0]),
        ...             num_segments=2)
        >>> print(z.max(z.scores), z.most_likely())
        [7. 2.] [False  True  True]
    """

    scores: Array
    where: Array
    segment_ids: Array | None
    num_segments: int | None

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        *,
        where: ArrayLike | None = None,
        segment_ids: ArrayLike | None = None,
        num_segments: int | None = None,
    ) -> "Rows":
        """Arguments and exceptions as in `hardem_jax.losses.hard_em_loss`."""
        if (segment_ids is None) != (num_segments is None):
            raise ValueError("the ragged layout needs both segment_ids and num_segments")
        scores = _real("log_probs", scores).astype(jnp.float32)
        if scores.ndim == 0:
            raise ValueError("log_probs must have at least one axis, the solutions")
        mask = jnp.ones_like(scores, bool) if where is None else as_mask(where)
        if mask.shape != scores.shape:
            raise ValueError(f"where must have log_probs' shape {scores.shape}, got {mask.shape}")
        if segment_ids is None:
            scores, mask = map(replicate_last_axis, (scores, mask))
            return cls(jnp.where(mask, scores, -jnp.inf), mask, None, None)
        num_segments = _count("num_segments", num_segments)
        kind: Any = getattr(segment_ids, "dtype", None)
        if kind in ("int64", "uint64"):  # cut to 32 bits, padding could fall into a row
            least = -1 if kind == "int64" else 0
            segment_ids = segment_ids.clip(least, num_segments)  # type: ignore[union-attr]
        ids = jnp.asarray(segment_ids)
        if not jnp.issubdtype(ids.dtype, jnp.integer) and ids.size:
            raise TypeError(f"segment_ids must be integers, got {ids.dtype}")
        if ids.shape != scores.shape:
            raise ValueError(
                f"segment_ids must have log_probs' shape {scores.shape}, got {ids.shape}"
            )
        if scores.ndim != 1:
            raise ValueError(f"ragged log_probs must be [N], got {scores.shape}")
        scores, mask, ids = map(replicate_last_axis, (scores, mask, ids.astype(jnp.int32)))
        inside = (ids >= 0) & (ids < num_segments)
        mask &= inside
        # Padding is one more row, for `checkify` objects to indices out of bounds.
        ids = jnp.where(inside, ids, num_segments)
        return cls(jnp.where(mask, scores, -jnp.inf), mask, ids, num_segments)

    @classmethod
    def weighted(
        cls, log_probs: ArrayLike, log_weights: ArrayLike | None = None, **rows: Any
    ) -> "Rows":
        """The solutions with the scores that the losses see, ``log_probs + log_weights``.

        Arguments and exceptions as in `hardem_jax.losses.hard_em_loss`.
        """
        z = cls.of(log_probs, **rows)
        if log_weights is None:
            return z
        added = jax.lax.stop_gradient(z.aligned("log_weights", log_weights))
        # A weight of 0 acts as a mask; NaN does not, so that it shows.
        left = dataclasses.replace(z, where=z.where & (added != -jnp.inf))
        return left.with_scores(z.scores + added)

    @property
    def layout(self) -> dict[str, Any]:
        """The keywords that name a ragged layout; none in the padded one."""
        if self.segment_ids is None:
            return {}
        return {"segment_ids": self.segment_ids, "num_segments": self.num_segments}

    def with_scores(self, scores: Array) -> "Rows":
        """The same solutions with other scores."""
        return dataclasses.replace(self, scores=jnp.where(self.where, scores, -jnp.inf))

    def aligned(self, name: str, values: ArrayLike) -> Array:
        """Other values of the same solutions, such as rewards, as float32; 0 at padding.

        Raises:
            ValueError: their shape is not that of the scores; ``name`` says whose.
        """
        x = _real(name, values).astype(jnp.float32)
        if x.shape != self.scores.shape:
            raise ValueError(
                f"{name} must have log_probs' shape {self.scores.shape}, got {x.shape}"
            )
        return jnp.where(self.where, replicate_last_axis(x), 0.0)

    # Per-solution values -> per-row values, and back.

    def max(self, x: Array) -> Array:
        if self.segment_ids is None:
            return jnp.max(x, axis=-1, initial=-jnp.inf)
        return self._by_row(jax.ops.segment_max, x)

    def sum(self, x: Array) -> Array:
        if self.segment_ids is None:
            return jnp.sum(x, axis=-1)
        return self._by_row(jax.ops.segment_sum, x)

    def any(self, chosen: Array) -> Array:
        return self.sum(chosen.astype(jnp.int32)) > 0

    def spread(self, row_values: Array) -> Array:
        """Broadcasts per-row values to the solutions of each row."""
        if self.segment_ids is None:
            return row_values[..., None]
        if not self.num_segments:  # everything is padding: no row to index, none to divide by
            return jnp.ones(self.segment_ids.shape, row_values.dtype)
        return row_values[jnp.minimum(self.segment_ids, self.num_segments - 1)]

    def _by_row(self, reduce: Callable[..., Array], x: Array) -> Array:
        assert self.num_segments is not None
        return reduce(x, self.segment_ids, self.num_segments + 1)[:-1]

    @property
    def rows(self) -> Array:
        """The mask of the rows that have a solution."""
        return self.any(self.where)

    @property
    def possible(self) -> Array:
        """The mask of the solutions with nonzero probability. It keeps NaN, to stop training."""
        return self.scores != -jnp.inf

    # Selecting among the solutions of each row.

    def first(self, chosen: Array) -> Array:
        """The mask of the first ``chosen`` solution of each row."""
        if self.segment_ids is None:
            return chosen & (jnp.cumsum(chosen, axis=-1) == 1)
        return self._lowest(jnp.arange(chosen.size), chosen)

    def most_likely(self) -> Array:
        """The mask of the most likely solution of each row, the first among ties; NaN wins."""
        scores = jax.lax.stop_gradient(self.scores)
        if self.segment_ids is None:
            return one_hot_argmax(scores) & self.where
        # By rank rather than equality with `segment_max`, see `one_hot_argmax`.
        order = _descending(scores)
        rank = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
        return self._lowest(rank, self.where)

    def rank(self) -> Array:
        """``int32`` rank of each solution in its row: 0 is the most likely; NaN ranks first.

        Ties rank in the order of the row. Padding ranks last in the padded layout and
        arbitrarily in the ragged one.
        """
        scores = jax.lax.stop_gradient(self.scores)
        if self.segment_ids is None:
            return jnp.argsort(_descending(scores))
        # Sort by score, then stably by row; the rank is the offset from the start of the row.
        by_score = _descending(scores)
        order = by_score[jnp.argsort(self.segment_ids[by_score], stable=True)]
        position = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
        return position - self.spread(self._by_row(jax.ops.segment_min, position))

    def _lowest(self, rank: Array, chosen: Array) -> Array:
        """The mask of the ``chosen`` solution of lowest rank in each row; ragged layout only."""
        rank = jnp.where(chosen, rank, rank.size)
        return chosen & (rank == self.spread(self._by_row(jax.ops.segment_min, rank)))

    # Normalising over the solutions of each row.

    def logsumexp(self) -> Array:
        """log sum exp of each row; -inf without a gradient if no solution is possible."""
        peak, total = self._peak_and_total()
        # log(1) instead of log(0), whose gradient of 0 * inf would trip jax_debug_nans.
        value = peak + jnp.log(jnp.where(total == 0, 1.0, total))
        return jnp.where(self.any(self.possible), value, -jnp.inf)

    def softmax(self) -> Array:
        """The share of each solution in its row; 0 where impossible."""
        peak, total = self._peak_and_total()
        shares = self._shifted_exp(peak) / self.spread(jnp.where(total == 0, 1.0, total))
        return jnp.where(self.where, shares, 0.0)

    def log_softmax(self) -> Array:
        """The logarithm of each solution's share of its row; -inf where impossible."""
        peak, total = self._peak_and_total()
        # Not the scores minus their logsumexp: of large scores that leaves nothing but rounding.
        gap = jnp.where(self.possible, self.scores - self.spread(peak), 0.0)
        total = self.spread(jnp.log(jnp.where(total == 0, 1.0, total)))
        return jnp.where(self.possible, gap - total, -jnp.inf)

    def entropy(self) -> Array:
        """The entropy of each row's softmax, in nats; 0 if no solution is possible."""
        q = self.softmax()
        # 0 log 0 = 0, also in the gradient, and also where P is possible but q underflows.
        return -self.sum(q * jnp.where(q > 0, self.log_softmax(), 0.0))

    def cross_entropy(self, weights: Array) -> Array:
        r""":math:`-\sum_i q(z_i) \log P(z_i)` of each row, with 0 log 0 = 0.

        A row costs +inf, and has no gradient, if all its solutions are impossible, or if one with a
        weight is. A NaN weight makes the cost NaN, because NaN * 0 is NaN.
        """
        weights = weights.astype(jnp.float32)
        costs = -weights * jnp.where((weights > 0) & self.possible, self.scores, 0.0)
        lost = self.any((weights > 0) & ~self.possible) | ~self.any(self.possible)
        return jnp.where(lost, jnp.inf, self.sum(costs))

    def _peak_and_total(self) -> tuple[Array, Array]:
        """Each row's highest score, 0 if that is -inf, and its sum of exp(score - peak)."""
        peak = self.max(jax.lax.stop_gradient(self.scores))
        peak = jnp.where(peak == -jnp.inf, 0.0, peak)
        return peak, self.sum(self._shifted_exp(peak))

    def _shifted_exp(self, peak: Array) -> Array:
        """exp(score - peak), without overflow and without inf - inf."""
        gap = jnp.where(self.possible, self.scores - self.spread(peak), 0.0)
        return jnp.where(self.possible, jnp.exp(gap), 0.0)


def as_mask(where: ArrayLike) -> Array:
    """Returns a mask as bool: nonzero is True.

    Raises:
        TypeError: the mask holds neither real numbers nor bools.

    Example:
        >>> print(as_mask([0, 1, 2]))
        [False  True  True]
    """
    return _real("where", where).astype(bool)


def _descending(scores: Array) -> Array:
    """Descending order of the last axis; NaN comes first, where sorting would put it last."""
    return jnp.argsort(jnp.where(jnp.isnan(scores), -jnp.inf, -scores), stable=True)


def _real(name: str, x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    if not (jnp.issubdtype(x.dtype, jnp.bool_) or jnp.isrealobj(x)):
        raise TypeError(f"{name} must be real numbers, got {x.dtype}")
    return x


def _count(name: str, x: int | None) -> int:
    try:
        count = operator.index(x)  # type: ignore[arg-type]
    except TypeError as error:
        raise TypeError(f"{name} must be a Python int (it is a shape), got {x!r}") from error
    if count < 0:
        raise ValueError(f"{name} must be at least 0, got {count}")
    return count


def replicate_last_axis(x: Array) -> Array:
    """Replicates the last axis of ``x`` if it is sharded over an Explicit mesh axis.

    Explicit sharding has no rules for sort, scatter and cumsum along a sharded axis. With Auto
    axes the compiler handles them, and the array's type does not show its sharding.
    """
    sharding = jax.typeof(x).sharding
    spec = tuple(sharding.spec)
    if not spec or spec[-1] is None:
        return x
    return jax.sharding.reshard(x, NamedSharding(sharding.mesh, PartitionSpec(*spec[:-1])))
