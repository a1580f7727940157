r"""Objectives for learning from a set of solutions, of which at most one is meant.

A question :math:`x` comes with its answer :math:`y` but not with the derivation
:math:`z`. What is known is the set :math:`Z = \{z_1 \ldots z_n\}` of solutions that
execute to :math:`y` (Min et al., 2019, section 3). Every loss here takes
``log_probs``, the model's :math:`\log P(z_i \mid x; \theta)`, and differs only in
which solutions it trusts (section 3.2):

=================  ==========================================  ======================
loss               value of a row                              trusts
=================  ==========================================  ======================
`first_only_loss`  :math:`-\log P(z_1)`                        the first
`mml_loss`         :math:`-\log \sum_i P(z_i)`                 all, by posterior
`hard_em_loss`     :math:`-\log \max_i P(z_i)`                 the likeliest
`annealed_loss`    hard EM with a probability that grows with  first all, then one
                   training, else MML
=================  ==========================================  ======================

For every row, ``mml_loss <= hard_em_loss <= first_only_loss``; with one solution
the three are equal. They are the same M-step under different E-steps, which
`em_loss` states in its general form.

**Layouts.** *Padded*: ``log_probs`` is ``[..., Z]``, leading axes are batch, and the
bool mask ``where`` tells solutions from padding. *Ragged*: ``log_probs`` is ``[N]``,
all solutions of all rows one after the other, and ``segment_ids`` (``[N]``, int)
with the static ``num_segments`` tell the rows, as in `jax.ops.segment_sum`.

**Contract**, the same for all losses: computed in float32 whatever comes in. A row
without a solution contributes exactly 0 and is left out of the mean. A log-prob of
``-inf`` (an impossible solution) is legal; a row whose solutions are all impossible
costs ``+inf``, because that is what it costs, and sends no gradient. Gradients are
finite for every input without NaN or ``+inf``. ``reduce_fn`` must take a ``where`` keyword, as
`jnp.mean` and `jnp.sum` do; ``reduce_fn=None`` returns the value of each row.

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
from collections.abc import Callable

import jax
import jax.numpy as jnp

Array = jax.Array
ReduceFn = Callable[..., Array]
Posterior = Callable[..., Array]


def hard_em_loss(
    log_probs: Array,
    *,
    where: Array | None = None,
    segment_ids: Array | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\log \max_{z \in Z} P(z \mid x)`, the paper's hard EM (section 3.2).

    The gradient reaches exactly one solution per row, the first among ties:
    the one that is taken for true. (`jnp.max` would split it among ties.)

    Args:
        log_probs: ``[..., Z]`` or, ragged, ``[N]`` float.
        where: bool mask of the same shape; False marks padding.
        segment_ids: ragged layout only, ``[N]`` int row of each solution, in any
            order; one outside of ``[0, num_segments)`` marks padding.
        num_segments: ragged layout only, number of rows.
        reduce_fn: how rows become one number; None for the rows themselves.

    Returns:
        float32 scalar, or the batch shape with ``reduce_fn=None``.

    Raises:
        ValueError: shapes that do not agree, or half of the ragged layout's two.

    Example:
        >>> hard_em_loss(jnp.log(jnp.array([0.25, 0.5]))).round(4)
        Array(0.6931, dtype=float32)
    """
    z = _Candidates.of(log_probs, where, segment_ids, num_segments)
    return z.reduce(z.hard_em(), reduce_fn)


def mml_loss(
    log_probs: Array,
    *,
    where: Array | None = None,
    segment_ids: Array | None = None,
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
    z = _Candidates.of(log_probs, where, segment_ids, num_segments)
    return z.reduce(z.mml(), reduce_fn)


def first_only_loss(
    log_probs: Array,
    *,
    where: Array | None = None,
    segment_ids: Array | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\log P(z_1 \mid x)`, the first solution of the row (section 3.2).

    "First" is the order in which solutions stand in the row, for spans the
    order of the document. Arguments and result as in `hard_em_loss`.

    Example:
        >>> where = jnp.array([False, True, True])
        >>> first_only_loss(jnp.log(jnp.array([0.1, 0.5, 0.4])), where=where).round(4)
        Array(0.6931, dtype=float32)
    """
    z = _Candidates.of(log_probs, where, segment_ids, num_segments)
    return z.reduce(z.first_only(), reduce_fn)


def scheduled_loss(
    log_probs: Array,
    *,
    key: Array,
    hard_probability: Array | float,
    where: Array | None = None,
    segment_ids: Array | None = None,
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
    z = _Candidates.of(log_probs, where, segment_ids, num_segments)
    hard = jax.random.bernoulli(key, hard_probability)
    return z.reduce(jnp.where(hard, z.hard_em(), z.mml()), reduce_fn)


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
    log_probs: Array,
    *,
    step: Array | int,
    key: Array,
    tau: Array | float | None,
    cap: float = 1.0,
    where: Array | None = None,
    segment_ids: Array | None = None,
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
    log_probs: Array,
    posterior: Posterior,
    *,
    where: Array | None = None,
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
    z = _Candidates.of(log_probs, where, None, None)
    weights = jax.lax.stop_gradient(posterior(z.log_probs, where=z.where))
    # 0 * log 0 = 0: a solution without weight costs nothing, however impossible it is.
    # A NaN weight reaches the loss, because NaN * 0 is NaN.
    trusted, possible = weights > 0, z.log_probs != -jnp.inf
    costs = -weights * jnp.where(trusted & possible, z.log_probs, 0.0)
    costs = jnp.where(trusted & ~possible, jnp.inf, costs)
    return z.reduce(jnp.where(z.hopeless, jnp.inf, z.sum(costs)), reduce_fn)


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
class _Candidates:
    """The solutions of all rows in either layout: the one place where masks and -inf are met.

    ``log_probs`` is float32 with -inf at padding. ``rows`` says which rows have a
    solution, ``hopeless`` which of these have only impossible ones.
    """

    log_probs: Array
    where: Array
    segment_ids: Array | None
    num_segments: int | None

    @classmethod
    def of(cls, log_probs, where, segment_ids, num_segments) -> "_Candidates":
        if (segment_ids is None) != (num_segments is None):
            raise ValueError("the ragged layout needs both segment_ids and num_segments")
        log_probs = jnp.asarray(log_probs, jnp.float32)
        if log_probs.ndim == 0:
            raise ValueError("log_probs must have at least one axis, that of the solutions")
        where = jnp.ones(log_probs.shape, bool) if where is None else where
        for name, other in (("where", where), ("segment_ids", segment_ids)):
            if other is not None and other.shape != log_probs.shape:
                raise ValueError(f"{name} {other.shape} must have log_probs' {log_probs.shape}")
        if segment_ids is not None:
            if log_probs.ndim != 1:
                raise ValueError(f"ragged log_probs must be [N], got {log_probs.shape}")
            where = where & (segment_ids >= 0) & (segment_ids < num_segments)
        return cls(jnp.where(where, log_probs, -jnp.inf), where, segment_ids, num_segments)

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

    def to_candidates(self, row_values: Array) -> Array:
        if self.segment_ids is None:
            return row_values[..., None]
        return row_values[self.segment_ids]

    def is_first(self, chosen: Array) -> Array:
        """Of the ``chosen`` candidates, only the first of each row."""
        if self.segment_ids is None:
            return chosen & (jnp.cumsum(chosen, axis=-1) == 1)
        position = jnp.arange(chosen.size)
        first = jax.ops.segment_min(
            jnp.where(chosen, position, chosen.size), self.segment_ids, self.num_segments
        )
        return position == first[self.segment_ids]

    @property
    def rows(self) -> Array:
        return self.any(self.where)

    @property
    def hopeless(self) -> Array:
        # NaN is not impossible: it has to reach the loss, where training stops on it.
        possible = self.log_probs != -jnp.inf
        return self.rows & ~self.any(possible)

    def pick(self, chosen: Array) -> Array:
        """-log P of the one ``chosen`` candidate per row, +inf if it is impossible."""
        taken = jnp.where(chosen & (self.log_probs != -jnp.inf), self.log_probs, 0.0)
        impossible = self.any(chosen & (self.log_probs == -jnp.inf))
        return jnp.where(impossible, jnp.inf, -self.sum(taken))

    def first_only(self) -> Array:
        return self.pick(self.is_first(self.where))

    def hard_em(self) -> Array:
        return self.pick(self.is_likeliest())

    def is_likeliest(self) -> Array:
        """The likeliest candidate of each row, the first among ties and NaN before all."""
        scores = jax.lax.stop_gradient(self.log_probs)
        if self.segment_ids is None:
            return one_hot_argmax(scores)
        # By rank, not by equality with `segment_max`, see `one_hot_argmax`. Sorting puts NaN
        # last, where it would go unseen.
        order = jnp.argsort(jnp.where(jnp.isnan(scores), -jnp.inf, -scores), stable=True)
        rank = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
        rank = jnp.where(self.where, rank, order.size)
        best = jax.ops.segment_min(rank, self.segment_ids, self.num_segments)
        return self.where & (rank == best[self.segment_ids])

    def mml(self) -> Array:
        # Shifted by the maximum, and by 0 where the maximum is -inf, so that
        # neither exp overflows nor inf - inf appears.
        peak = self.max(jax.lax.stop_gradient(self.log_probs))
        peak = jnp.where(peak == -jnp.inf, 0.0, peak)
        possible = self.log_probs != -jnp.inf
        gap = jnp.where(possible, self.log_probs - self.to_candidates(peak), 0.0)
        total = self.sum(jnp.where(possible, jnp.exp(gap), 0.0))
        # log(1) in place of log(0), whose gradient of 0 * inf would trip jax_debug_nans.
        value = -(peak + jnp.log(jnp.where(total == 0, 1.0, total)))
        return jnp.where(self.hopeless, jnp.inf, value)

    def reduce(self, values: Array, reduce_fn: ReduceFn | None) -> Array:
        values = jnp.where(self.rows, values, 0.0)
        if reduce_fn is None:
            return values
        # Without any row, reduce over all the zeros: a mean over nothing would be NaN.
        return reduce_fn(values, where=self.rows | ~jnp.any(self.rows))
