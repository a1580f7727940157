r"""Losses for learning from a set of solutions, of which at most one is correct.

A question :math:`x` comes with its answer :math:`y` but not with the derivation
:math:`z`. What is known is the set :math:`Z = \{z_1 \ldots z_n\}` of solutions that
execute to :math:`y` (Min et al., 2019, section 3). Every loss here takes
``log_probs``, the model's :math:`\log P(z_i \mid x; \theta)`, and they differ only in
which solutions they trust (section 3.2):

=================  ==========================================  ======================
loss               value of a row                              trusts
=================  ==========================================  ======================
`first_only_loss`  :math:`-\log P(z_1)`                        the first
`mml_loss`         :math:`-\log \sum_i P(z_i)`                 all, by posterior
`hard_em_loss`     :math:`-\log \max_i P(z_i)`                 the most likely
`annealed_loss`    hard EM with a probability that grows with  first all, then one
                   training, else MML
=================  ==========================================  ======================

For every row, ``mml_loss <= hard_em_loss <= first_only_loss``; with one solution
the three are equal. They are the same M-step under different E-steps, and
`em_loss` is the general form.

**Layouts.** *Padded*: ``log_probs`` is ``[..., Z]``, leading axes are batch, and the
mask ``where`` tells solutions from padding. *Ragged*: ``log_probs`` is ``[N]``, the
solutions of all rows in one array, and ``segment_ids`` (``[N]``, int) with the static
``num_segments`` give the row of each, as in `jax.ops.segment_sum`.

**What to pass.** Log-probabilities, normalised over *all* solutions the model could
give, not only over Z. Logits or probabilities raise no error and train a wrong model.
Z is a set: `mml_loss` adds up whatever it gets, so a solution that is listed four times
at P = 0.5 costs -0.69, less than certainty. `check_log_probs` finds such input.

**Contract**, the same for all losses: computed in float32 whatever comes in. A mask may
be of any real dtype; whatever is not 0 is True. A row without a solution contributes
exactly 0 and is left out of the mean. A log-prob of ``-inf`` (an impossible solution) is
legal; a row whose solutions are all impossible costs ``+inf`` and sends no gradient.
Gradients are finite for every input without NaN or ``+inf``.

**Reduction.** ``reduce_fn(values, where=rows)`` turns the values of the rows into the
loss, as `jnp.mean` and `jnp.sum` do; ``rows`` says which rows have a solution. The default
mean of no rows is 0. ``reduce_fn=None`` returns the values; `has_solution` says which of
them count.

**Several devices.** Under `jax.jit` with sharded arrays the default is right: the mean is
over the global batch. Inside `jax.shard_map`, `jax.pmap` or `jax.vmap` with an axis name,
each device sees its own rows only, and averaging the devices' means weighs rows
wrongly wherever devices hold unequal numbers of rows with a solution. Pass
``reduce_fn=mean_over(axis_name)`` there.

Example:
    >>> import jax, jax.numpy as jnp
    >>> log_probs = jnp.log(jnp.array([[0.1, 0.4, 0.2], [0.5, 0.3, 0.9]]))
    >>> where = jnp.array([[True, True, True], [True, False, False]])
    >>> print(jnp.exp(-hard_em_loss(log_probs, where=where, reduce_fn=None)))
    [0.4 0.5]
    >>> print(jnp.exp(-mml_loss(log_probs, where=where, reduce_fn=None)).round(4))
    [0.7 0.5]
    >>> print(jax.grad(hard_em_loss)(log_probs, where=where))
    [[ 0.  -0.5  0. ]
     [-0.5  0.   0. ]]
"""

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Hashable

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike

Array = jax.Array
ReduceFn = Callable[..., Array]
Posterior = Callable[..., Array]


def hard_em_loss(
    log_probs: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\log \max_{z \in Z} P(z \mid x)`, the paper's hard EM (section 3.2).

    The gradient reaches exactly one solution per row, the one that is trusted: the
    first among ties. (`jnp.max` would split it among ties.)

    Args:
        log_probs: ``[..., Z]`` or, ragged, ``[N]`` log-probabilities; see "What to pass"
            in `hardem_jax.losses`.
        where: mask of the same shape; False (or 0) marks padding.
        segment_ids: ragged layout only, ``[N]`` int row of each solution, in any
            order; one outside ``[0, num_segments)`` marks padding.
        num_segments: ragged layout only, number of rows, a Python int.
        reduce_fn: turns the values of the rows into one, called as
            ``reduce_fn(values, where=rows)`` with float32 values and the bool mask of the
            rows that have a solution; `mean_over` inside `jax.shard_map` or `jax.pmap`.
            None returns the values, 0 where `has_solution` is False.

    Returns:
        float32 scalar, or the batch shape with ``reduce_fn=None``.

    Raises:
        ValueError: shapes do not agree, or only one of ``segment_ids`` and
            ``num_segments`` is given.
        TypeError: an argument has a dtype that makes no sense, such as float segment ids.

    Example:
        >>> hard_em_loss(jnp.log(jnp.array([0.25, 0.5]))).round(4)
        Array(0.6931, dtype=float32)
    """
    z = _Rows.of(log_probs, where, segment_ids, num_segments)
    return z.reduce(z.cross_entropy(z.most_likely()), reduce_fn)


def mml_loss(
    log_probs: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\log \sum_{z \in Z} P(z \mid x)`, maximum marginal likelihood (section 3.2).

    The gradient weight of a solution is its posterior :math:`P(z \mid x, z \in Z)`.
    Arguments and result as in `hard_em_loss`.

    Example:
        >>> mml_loss(jnp.log(jnp.array([0.25, 0.25]))).round(4)
        Array(0.6931, dtype=float32)
    """
    z = _Rows.of(log_probs, where, segment_ids, num_segments)
    return z.reduce(-z.logsumexp(), reduce_fn)


def first_only_loss(
    log_probs: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\log P(z_1 \mid x)`, the first solution of the row (section 3.2).

    "First" is the order of solutions in the row, for spans the order of the
    document. Arguments and result as in `hard_em_loss`.

    Example:
        >>> where = jnp.array([False, True, True])
        >>> first_only_loss(jnp.log(jnp.array([0.1, 0.5, 0.4])), where=where).round(4)
        Array(0.6931, dtype=float32)
    """
    z = _Rows.of(log_probs, where, segment_ids, num_segments)
    return z.reduce(z.cross_entropy(z.first(z.where)), reduce_fn)


def scheduled_loss(
    log_probs: ArrayLike,
    *,
    key: Array,
    hard_probability: Array | float,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    """Hard EM with probability ``hard_probability``, else MML: one draw for the whole batch.

    Both values are computed and one is chosen, so that neither the draw nor the
    probability recompiles a jitted step; they share one set of log-probs, and next
    to a model their cost is nothing. The same ``key`` gives the same draw on
    every device.

    Args:
        key: a PRNG key, fresh for every step.
        hard_probability: scalar in [0, 1], may be traced.
        others: as in `hard_em_loss`.

    Example:
        >>> log_probs = jnp.log(jnp.array([0.25, 0.25]))
        >>> loss = scheduled_loss(log_probs, key=jax.random.key(0), hard_probability=0.0)
        >>> bool(loss == mml_loss(log_probs))
        True
    """
    z = _Rows.of(log_probs, where, segment_ids, num_segments)
    hard = jax.random.bernoulli(key, hard_probability)
    values = jnp.where(hard, z.cross_entropy(z.most_likely()), -z.logsumexp())
    return z.reduce(values, reduce_fn)


def annealing_probability(
    step: Array | int, *, tau: Array | float | None, cap: float = 1.0
) -> Array:
    """Probability of a hard step, min(step / tau, cap); 1 where tau is None or 0.

    The paper's text has the two objectives the other way round; its authors
    confirmed this direction, in which training starts from MML. The released code
    uses ``cap=0.8``, so that a fifth of its steps stay MML for ever.

    Example:
        >>> print(annealing_probability(3000, tau=4000, cap=0.8))
        0.75
    """
    if tau is None:
        return jnp.float32(1.0)
    tau = jnp.asarray(tau, jnp.float32)
    ratio = jnp.asarray(step, jnp.float32) / jnp.where(tau > 0, tau, 1.0)
    return jnp.where(tau > 0, jnp.minimum(ratio, cap), 1.0)


def annealed_loss(
    log_probs: ArrayLike,
    *,
    step: Array | int,
    key: Array,
    tau: Array | float | None,
    cap: float = 1.0,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    """Hard EM with probability min(step / tau, cap), else MML (section 3.2, appendix B).

    Args:
        step: number of the training step, from 0; may be traced.
        key: a PRNG key, fresh for every step.
        tau: steps until every step is hard; None or 0 is plain hard EM.
        cap: upper bound of the probability while annealing.
        others: as in `hard_em_loss`.

    Example:
        >>> log_probs, key = jnp.log(jnp.array([0.25, 0.25])), jax.random.key(0)
        >>> bool(annealed_loss(log_probs, step=0, key=key, tau=100) == mml_loss(log_probs))
        True
        >>> bool(annealed_loss(log_probs, step=0, key=key, tau=None) == hard_em_loss(log_probs))
        True
    """
    return scheduled_loss(
        log_probs,
        key=key,
        hard_probability=annealing_probability(step, tau=tau, cap=cap),
        where=where,
        segment_ids=segment_ids,
        num_segments=num_segments,
        reduce_fn=reduce_fn,
    )


def em_loss(
    log_probs: ArrayLike,
    posterior: Posterior,
    *,
    where: ArrayLike | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r"""The M-step :math:`-\sum_i q(z_i) \log P(z_i)` under any E-step :math:`q`.

    ``q = posterior(log_probs, where=where)`` is held constant, as EM has it; see
    `hardem_jax.posteriors`. With ``posteriors.hard``, ``soft`` or ``first`` the
    gradient is that of `hard_em_loss`, `mml_loss` or `first_only_loss`. (The value
    under ``soft`` differs from MML by the entropy of ``q``.) Padded layout only.

    Args:
        log_probs: ``[..., Z]`` float.
        posterior: function to weights ``[..., Z]``, each row summing to 1.
        others: as in `hard_em_loss`.

    Example:
        >>> from hardem_jax import posteriors
        >>> log_probs = jnp.log(jnp.array([0.1, 0.3]))
        >>> print(jax.grad(em_loss)(log_probs, posteriors.soft).round(4))
        [-0.25 -0.75]
    """
    z = _Rows.of(log_probs, where, None, None)
    weights = jax.lax.stop_gradient(posterior(z.log_probs, where=z.where))
    return z.reduce(z.cross_entropy(weights), reduce_fn)


def mean_over(axis_name: Hashable) -> ReduceFn:
    """Returns a ``reduce_fn``: the mean over the rows of all devices on a mapped axis.

    Every device gets the same value, the sum over all rows divided by the number of rows that
    have a solution, wherever they are; 0 if there is none. Averaging the devices' own means
    instead (``jax.lax.pmean`` of a loss) gives each device the same weight, however many such
    rows it holds.

    Average the *gradients* with ``jax.lax.pmean``, as usual in data parallelism: the result is
    then the gradient of the global mean, in `jax.pmap`, in `jax.shard_map` and in `jax.vmap`.

    Args:
        axis_name: the axis of `jax.pmap`, `jax.shard_map` or `jax.vmap`, or a tuple of axes.

    Example:
        Two devices, one solution each in three of four rows:

        >>> log_probs = jnp.log(jnp.array([[[0.5], [0.5]], [[0.25], [0.9]]]))
        >>> where = jnp.array([[[True], [True]], [[True], [False]]])
        >>> def loss(log_probs, where):
        ...     return hard_em_loss(log_probs, where=where, reduce_fn=mean_over("devices"))
        >>> per_device = jax.vmap(loss, axis_name="devices")(log_probs, where)
        >>> print(jnp.exp(-3 * per_device).round(4))  # 0.5 x 0.5 x 0.25, on both
        [0.0625 0.0625]
    """

    def mean(values: Array, where: Array) -> Array:
        total = jax.lax.psum(jnp.sum(values, where=where), axis_name)
        count = jax.lax.psum(jnp.sum(where), axis_name)
        return total / jnp.maximum(count, 1)

    return mean


def has_solution(
    log_probs: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
) -> Array:
    """Returns which rows have a solution, and so count in a mean: bool, the batch shape.

    Arguments as in `hard_em_loss`. A row whose solutions are all impossible (-inf) has them.

    Example:
        >>> log_probs = jnp.log(jnp.array([[0.5, 0.5], [0.1, 0.1]]))
        >>> where = jnp.array([[True, False], [False, False]])
        >>> print(has_solution(log_probs, where=where))
        [ True False]
    """
    return _Rows.of(log_probs, where, segment_ids, num_segments).rows


def check_log_probs(
    log_probs: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    tolerance: float = 1e-2,
) -> None:
    """Raises an error if these cannot be log-probabilities of distinct solutions.

    For debugging: call it on what you pass to a loss, and take it out again. It works inside
    `jax.jit`, where it sends the values to the host, and not inside `jax.shard_map`.

    It finds NaN, a log-prob above 0 (logits, or probabilities without the log) and a row whose
    probabilities sum to more than 1 (duplicates in Z, or a softmax over something smaller than
    all solutions). Duplicates that together stay below 1 pass.

    Args:
        tolerance: by how much a probability, or a row's sum, may exceed 1; the default allows
            for log-probs in bfloat16.
        others: as in `hard_em_loss`.

    Raises:
        ValueError: names the first row at fault and what is wrong with it. Inside `jax.jit`
            it arrives when the computation runs, as the cause of JAX's own runtime error.

    Example:
        >>> check_log_probs(jnp.log(jnp.array([[0.1, 0.4], [0.5, 0.5]])))
        >>> check_log_probs(jnp.log(jnp.array([[0.1, 0.4], [0.8, 0.8]])))
        Traceback (most recent call last):
        ...
        ValueError: row 1: probabilities sum to 1.6; are there duplicates in Z, or is the \
softmax not over all solutions?
    """
    z = _Rows.of(log_probs, where, segment_ids, num_segments)
    # NaN is neither greater nor smaller than anything: it is asked for by name.
    has_nan = z.any(z.where & jnp.isnan(z.log_probs))
    measured = has_nan, z.max(z.log_probs), jnp.exp(z.logsumexp())

    def check(has_nan, highest, total) -> None:
        for row in itertools.product(*map(range, total.shape)):
            name = f"row {', '.join(map(str, row))}: " if row else ""
            if has_nan[row]:
                raise ValueError(f"{name}NaN among the log-probs")
            if highest[row] > math.log1p(tolerance):
                raise ValueError(
                    f"{name}a log-prob of {highest[row]:.4g}, above 0; are these logits or "
                    "probabilities?"
                )
            if total[row] > 1 + tolerance:
                raise ValueError(
                    f"{name}probabilities sum to {total[row]:.4g}; are there duplicates in Z, "
                    "or is the softmax not over all solutions?"
                )

    if any(isinstance(x, Tracer) for x in measured):
        jax.debug.callback(check, *measured)
    else:
        check(*jax.device_get(measured))


def one_hot_argmax(scores: Array) -> Array:
    """``[..., Z]`` bool, true at the first of the highest scores; a NaN counts as the highest.

    Chosen by position, not by ``scores == max(scores)``: a compiler may compute the scores once
    for the maximum and once for the comparison and round them differently, and then none is equal
    (https://github.com/jax-ml/jax/issues/40564).

    Example:
        >>> print(one_hot_argmax(jnp.array([1.0, 3.0, 3.0])))
        [False  True False]
    """
    if scores.shape[-1] == 0:
        return jnp.zeros(scores.shape, bool)
    return jax.nn.one_hot(jnp.argmax(scores, axis=-1), scores.shape[-1], dtype=bool)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """The solutions of all rows in either layout: the one place that meets masks and -inf.

    Attributes:
        log_probs: float32, -inf at padding.
        where: bool, True at solutions.
        segment_ids, num_segments: of the ragged layout, None in the padded one.
    """

    log_probs: Array
    where: Array
    segment_ids: Array | None
    num_segments: int | None

    @classmethod
    def of(
        cls,
        log_probs: ArrayLike,
        where: ArrayLike | None,
        segment_ids: ArrayLike | None,
        num_segments: int | None,
    ) -> "_Rows":
        if (segment_ids is None) != (num_segments is None):
            raise ValueError("the ragged layout needs both segment_ids and num_segments")
        log_probs = _real("log_probs", log_probs).astype(jnp.float32)
        if log_probs.ndim == 0:
            raise ValueError("log_probs must have at least one axis, that of the solutions")
        mask = jnp.ones(log_probs.shape, bool) if where is None else as_mask(where)
        if mask.shape != log_probs.shape:
            raise ValueError(f"where {mask.shape} must have log_probs' {log_probs.shape}")
        if segment_ids is None:
            log_probs, mask = map(_unsplit, (log_probs, mask))
            return cls(jnp.where(mask, log_probs, -jnp.inf), mask, None, None)
        ids, num_segments = jnp.asarray(segment_ids), _count("num_segments", num_segments)
        if not jnp.issubdtype(ids.dtype, jnp.integer) and ids.size:
            raise TypeError(f"segment_ids must be integers, got {ids.dtype}")
        if ids.shape != log_probs.shape:
            raise ValueError(f"segment_ids {ids.shape} must have log_probs' {log_probs.shape}")
        if log_probs.ndim != 1:
            raise ValueError(f"ragged log_probs must be [N], got {log_probs.shape}")
        log_probs, mask, ids = map(_unsplit, (log_probs, mask, ids.astype(jnp.int32)))
        mask &= (ids >= 0) & (ids < num_segments)
        return cls(jnp.where(mask, log_probs, -jnp.inf), mask, ids, num_segments)

    # The layout: how values of solutions become values of rows, and back.

    def max(self, x: Array) -> Array:
        if self.segment_ids is None:
            return jnp.max(x, axis=-1, initial=-jnp.inf)
        return jax.ops.segment_max(x, self.segment_ids, self.num_segments)

    def sum(self, x: Array) -> Array:
        if self.segment_ids is None:
            return jnp.sum(x, axis=-1)
        return jax.ops.segment_sum(x, self.segment_ids, self.num_segments)

    def any(self, chosen: Array) -> Array:
        return self.sum(chosen.astype(jnp.int32)) > 0

    def spread(self, row_values: Array) -> Array:
        """The value of its row for each solution."""
        if self.segment_ids is None:
            return row_values[..., None]
        if not self.num_segments:  # all is padding, and there is no value to give
            return jnp.zeros(self.segment_ids.shape, row_values.dtype)
        return row_values[self.segment_ids]

    def lowest(self, rank: Array, chosen: Array) -> Array:
        """Of the ``chosen`` solutions of each row, only the one with the lowest rank. Ragged."""
        assert self.segment_ids is not None
        rank = jnp.where(chosen, rank, rank.size)
        best = jax.ops.segment_min(rank, self.segment_ids, self.num_segments)
        return chosen & (rank == self.spread(best))

    def first(self, chosen: Array) -> Array:
        """Of the ``chosen`` solutions of each row, only the first."""
        if self.segment_ids is None:
            return chosen & (jnp.cumsum(chosen, axis=-1) == 1)
        return self.lowest(jnp.arange(chosen.size), chosen)

    def most_likely(self) -> Array:
        """The most likely solution of each row, the first among ties, NaN before all."""
        scores = jax.lax.stop_gradient(self.log_probs)
        if self.segment_ids is None:
            return one_hot_argmax(scores) & self.where
        # By rank, not by equality with `segment_max`, see `one_hot_argmax`. Sorting puts NaN
        # last, where it would go unseen.
        order = jnp.argsort(jnp.where(jnp.isnan(scores), -jnp.inf, -scores), stable=True)
        rank = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
        return self.lowest(rank, self.where)

    @property
    def rows(self) -> Array:
        """The rows that have a solution."""
        return self.any(self.where)

    # What losses are made of.

    def cross_entropy(self, weights: Array) -> Array:
        r""":math:`-\sum_i q(z_i) \log P(z_i)` of each row, with 0 log 0 = 0.

        A row costs +inf, and sends no gradient, if all its solutions are impossible or one
        that has weight is. A NaN weight reaches the cost, because NaN * 0 is NaN.
        """
        weights = weights.astype(jnp.float32)
        possible = self.log_probs != -jnp.inf  # NaN is not impossible: training stops on it
        costs = -weights * jnp.where((weights > 0) & possible, self.log_probs, 0.0)
        lost = self.any((weights > 0) & ~possible) | ~self.any(possible)
        return jnp.where(lost, jnp.inf, self.sum(costs))

    def logsumexp(self) -> Array:
        r""":math:`\log \sum_i P(z_i)` of each row; -inf and no gradient if all are impossible."""
        possible = self.log_probs != -jnp.inf
        # Shifted by the maximum, and by 0 where the maximum is -inf, so that
        # neither exp overflows nor inf - inf appears.
        peak = self.max(jax.lax.stop_gradient(self.log_probs))
        peak = jnp.where(peak == -jnp.inf, 0.0, peak)
        gap = jnp.where(possible, self.log_probs - self.spread(peak), 0.0)
        total = self.sum(jnp.where(possible, jnp.exp(gap), 0.0))
        # log(1) in place of log(0), whose gradient of 0 * inf would trip jax_debug_nans.
        value = peak + jnp.log(jnp.where(total == 0, 1.0, total))
        return jnp.where(self.any(possible), value, -jnp.inf)

    def reduce(self, values: Array, reduce_fn: ReduceFn | None) -> Array:
        rows = self.rows
        values = jnp.where(rows, values, 0.0)
        if reduce_fn is None:
            return values
        if reduce_fn is jnp.mean:  # of no rows it would be 0 / 0
            return jnp.sum(values, where=rows) / jnp.maximum(jnp.sum(rows), 1)
        return reduce_fn(values, where=rows)


def as_mask(where: ArrayLike) -> Array:
    """Returns a mask as bool: whatever is not 0 is True.

    Raises:
        TypeError: it does not hold real numbers or bools.

    Example:
        >>> print(as_mask([0, 1, 2]))
        [False  True  True]
    """
    return _real("where", where).astype(bool)


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


def _unsplit(x: Array) -> Array:
    """``x`` with its last axis on every device, if an Explicit mesh axis splits it.

    Sorting, scattering and cumulating over a split axis have no sharding rule there. Under
    Auto axes the compiler sees to it, and its arrays do not show how they are split.
    """
    spec = jax.typeof(x).sharding.spec
    if not len(spec) or spec[-1] is None:
        return x
    whole = PartitionSpec(*spec[:-1])
    return jax.sharding.reshard(x, NamedSharding(jax.typeof(x).sharding.mesh, whole))
