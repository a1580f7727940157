r"""Losses for learning from a set of solutions, of which at most one is correct.

A question :math:`x` comes with its answer :math:`y` but not with the derivation :math:`z`. All we
know is the set :math:`Z = \{z_1 \ldots z_n\}` of solutions that execute to :math:`y` (Min et al.,
2019, section 3). Every loss takes ``log_probs``, the model's :math:`\log P(z_i \mid x; \theta)`;
the losses differ only in which solutions they trust (section 3.2):

=================  ==========================================  ======================
loss               value of a row                              trusts
=================  ==========================================  ======================
`first_only_loss`  :math:`-\log P(z_1)`                        the first
`mml_loss`         :math:`-\log \sum_i P(z_i)`                 all, posterior-weighted
`hard_em_loss`     :math:`-\log \max_i P(z_i)`                 the most likely
`annealed_loss`    hard EM with a probability that grows       at first all, later one
                   during training, otherwise MML
=================  ==========================================  ======================

`hardem_jax.loss_variants` has variants of these from later work.

For every row, ``mml_loss <= hard_em_loss <= first_only_loss``; for a row with one solution the
three are equal. They are the same M-step under different E-steps; `em_loss` is the general form.

**Layouts.** *Padded*: ``log_probs`` is ``[..., Z]`` with any batch axes, and the mask ``where`` is
False at padding. *Ragged*: ``log_probs`` is ``[N]``, the solutions of all rows concatenated, and
``segment_ids`` (``[N]``, int) with the static ``num_segments`` give the row of each, as in
`jax.ops.segment_sum`.

**What to pass.** Log-probabilities, normalised over *all* solutions the model could give, not only
over Z. Logits or probabilities raise no error and train a wrong model. Z is a set: `mml_loss` adds
up whatever it gets, so a solution listed four times at P = 0.5 costs -0.69, less than a certain
one. `check_log_probs` detects such input.

**Samples and weights.** Where Z is too large to enumerate, pass the sampled solutions, each once
(`hardem_jax.sampled.distinct`), as a ragged or padded Z. ``log_weights`` :math:`\log w_z` are added
to ``log_probs``: every loss then sees :math:`w_z P(z \mid x)` instead of :math:`P(z \mid x)`. With
:math:`w_k = 1 / (K q(z_k))` over K draws from q, repeated ones included, `mml_loss` is the
importance-weighted bound (Burda et al., 2016). With :math:`\log P(y \mid x, z_k)` as log-probs of
draws from the model itself and :math:`w_k = 1 / K` it is the bound of JEPO (Tang et al., 2025).
Rewards and powers of a length can be weights too; :math:`-\infty` leaves a solution out, as a mask
does, whatever its log-prob. `hardem_jax.sampled` has the losses that make a wrong draw less likely.

**Contract**, the same for all losses. Everything is computed in float32, whatever the input dtype.
A mask may have any real dtype; nonzero means True. A row without a solution contributes exactly 0
and is left out of the mean. A log-prob of ``-inf`` (an impossible solution) is legal; a row whose
solutions are all impossible costs ``+inf`` and has no gradient. Gradients are finite for every
input without NaN or ``+inf``.

**Reduction.** ``reduce_fn(values, where=rows)`` reduces the per-row values to the loss, as
`jnp.mean` and `jnp.sum` do; ``rows`` is True for rows that have a solution. The default, the mean,
is 0 over no rows. ``reduce_fn=None`` returns the per-row values; `has_solution` returns which of
them count.

**Several devices.** Under `jax.jit` with sharded arrays the default is correct: it averages over
the global batch. Inside `jax.shard_map`, `jax.pmap` or `jax.vmap` with an axis name, each device
sees only its own rows, and averaging the devices' means is biased unless all devices hold the same
number of rows with a solution. Pass ``reduce_fn=mean_over(axis_name)`` there.

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

import itertools
import math
from collections.abc import Callable, Hashable
from typing import Literal, TypedDict, Unpack

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import ArrayLike

from hardem_jax.masked import Rows

Array = jax.Array
ReduceFn = Callable[..., Array]
Posterior = Callable[..., Array]


class RowOptions(TypedDict, total=False):
    """Which solutions the rows of a loss have, see `hard_em_loss`."""

    log_weights: ArrayLike | None
    where: ArrayLike | None
    segment_ids: ArrayLike | None
    num_segments: int | None


def hard_em_loss(
    log_probs: ArrayLike,
    *,
    log_weights: ArrayLike | None = None,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`-\log \max_{z \in Z} P(z \mid x)`, the paper's hard EM (section 3.2).

    The gradient goes to exactly one solution per row, the most likely one; ties go to the first.
    (`jnp.max` would split the gradient among ties.)

    Args:
        log_probs: log P, ``[..., Z]`` or ragged ``[N]``; see "What to pass" in `hardem_jax.losses`.
        log_weights: of the same shape, see "Samples and weights"; no gradient reaches them.
        where: mask of the same shape; False (or 0) marks padding.
        segment_ids: ragged layout only, ``[N]`` int row of each solution, in any order; ids
            outside ``[0, num_segments)`` mark padding.
        num_segments: ragged layout only, number of rows, a Python int.
        reduce_fn: reduces the per-row values to the loss, called as ``reduce_fn(values,
            where=rows)`` with float32 values and the bool mask of the rows that have a solution;
            `mean_over` inside `jax.shard_map` or `jax.pmap`. None returns the values, 0 where
            `has_solution` is False.

    Returns:
        float32 scalar, or the batch shape with ``reduce_fn=None``.

    Raises:
        ValueError: shapes disagree, or only one of ``segment_ids`` and ``num_segments`` is given.
        TypeError: an argument has an unsupported dtype, such as float segment ids.

    Example:
        >>> hard_em_loss(jnp.log(jnp.array([0.25, 0.5]))).round(4)
        Array(0.6931, dtype=float32)
    """
    z = Rows.weighted(
        log_probs, log_weights, where=where, segment_ids=segment_ids, num_segments=num_segments
    )
    return reduce_rows(z, z.cross_entropy(z.most_likely()), reduce_fn)


def mml_loss(
    log_probs: ArrayLike, *, reduce_fn: ReduceFn | None = jnp.mean, **rows: Unpack[RowOptions]
) -> Array:
    r""":math:`-\log \sum_{z \in Z} P(z \mid x)`, maximum marginal likelihood (section 3.2).

    The gradient weight of a solution is its posterior :math:`P(z \mid x, z \in Z)`.
    Arguments and result as in `hard_em_loss`.

    Example:
        >>> mml_loss(jnp.log(jnp.array([0.25, 0.25]))).round(4)
        Array(0.6931, dtype=float32)
    """
    z = Rows.weighted(log_probs, **rows)
    return reduce_rows(z, -z.logsumexp(), reduce_fn)


def first_only_loss(
    log_probs: ArrayLike, *, reduce_fn: ReduceFn | None = jnp.mean, **rows: Unpack[RowOptions]
) -> Array:
    r""":math:`-\log P(z_1 \mid x)`, the first solution of the row (section 3.2).

    "First" refers to the order of solutions in the row; for spans, document order.
    Arguments and result as in `hard_em_loss`.

    Example:
        >>> where = jnp.array([False, True, True])
        >>> first_only_loss(jnp.log(jnp.array([0.1, 0.5, 0.4])), where=where).round(4)
        Array(0.6931, dtype=float32)
    """
    z = Rows.weighted(log_probs, **rows)
    return reduce_rows(z, z.cross_entropy(z.first(z.where)), reduce_fn)


def annealed_loss(
    log_probs: ArrayLike,
    *,
    step: Array | int,
    key: Array,
    tau: Array | float | None,
    cap: float = 1.0,
    schedule: Literal["linear", "switch", "as-printed"] = "linear",
    reduce_fn: ReduceFn | None = jnp.mean,
    **rows: Unpack[RowOptions],
) -> Array:
    r"""Hard EM with probability :math:`\min(t / \tau, 1)`, else MML (section 3.2, appendix B).

    One draw decides for the whole batch. Both losses are computed and one is selected, so that
    neither the draw nor the step number triggers recompilation; they share the log-probs, so the
    extra cost is negligible. The same ``key`` gives the same draw on every device.

    Args:
        step: step number t, from 0; may be traced.
        key: a PRNG key, fresh for every step.
        tau: steps until every step is hard; None or 0 is plain hard EM.
        cap: upper bound of the probability while annealing (released code: 0.8).
        schedule: how the probability changes, see `hard_probability`.
        others: as in `hard_em_loss`.

    Raises:
        ValueError: the step is not a scalar.

    Example:
        >>> log_probs, key = jnp.log(jnp.array([0.25, 0.25])), jax.random.key(0)
        >>> bool(annealed_loss(log_probs, step=0, key=key, tau=100) == mml_loss(log_probs))
        True
        >>> bool(annealed_loss(log_probs, step=0, key=key, tau=None) == hard_em_loss(log_probs))
        True
    """
    hard = is_hard_step(step=step, key=key, tau=tau, cap=cap, schedule=schedule)
    return drawn_loss(log_probs, hard=hard, reduce_fn=reduce_fn, **rows)


def drawn_loss(
    log_probs: ArrayLike,
    *,
    hard: Array | bool,
    reduce_fn: ReduceFn | None = jnp.mean,
    **rows: Unpack[RowOptions],
) -> Array:
    """`annealed_loss` after its draw: hard EM if ``hard`` (`is_hard_step`), else MML.

    Example:
        >>> print(jnp.exp(-drawn_loss(jnp.log(jnp.array([0.25, 0.5])), hard=True)))
        0.5
    """
    z = Rows.weighted(log_probs, **rows)
    values = jnp.where(hard, z.cross_entropy(z.most_likely()), -z.logsumexp())
    return reduce_rows(z, values, reduce_fn)


def is_hard_step(
    *,
    step: Array | int,
    key: Array,
    tau: Array | float | None,
    cap: float = 1.0,
    schedule: Literal["linear", "switch", "as-printed"] = "linear",
) -> Array:
    """Returns a bool scalar: whether `annealed_loss` with these arguments is hard EM.

    Example:
        >>> print(is_hard_step(step=7, key=jax.random.key(0), tau=None))
        True
    """
    if shape := jnp.shape(step):
        raise ValueError(f"step must be a scalar, got shape {shape}")
    return jax.random.bernoulli(key, hard_probability(step, tau=tau, cap=cap, schedule=schedule))


def hard_probability(
    step: Array | int,
    *,
    tau: Array | float | None,
    cap: float = 1.0,
    schedule: Literal["linear", "switch", "as-printed"] = "linear",
) -> Array:
    r"""Returns the probability of a hard step; 1 where ``tau`` is None or 0.

    ==============  ============================================================================
    ``linear``      :math:`\min(t / \tau, cap)`: from MML to hard EM (Min et al., 2019). The
                    released code uses ``cap=0.8``, so a fifth of its steps stay MML.
    ``switch``      0 before step :math:`\tau`, then ``cap`` (Cheng et al., 2020).
    ``as-printed``  :math:`1 - \min(t / \tau, cap)`: from hard EM to MML, as printed in the
                    paper. Its authors confirmed the opposite direction.
    ==============  ============================================================================

    Args:
        step: t, int or array.
        others: as in `annealed_loss`.

    Returns:
        float32, the shape of ``step``.

    Example:
        >>> print(hard_probability(3000, tau=4000, cap=0.8))
        0.75
        >>> print(hard_probability(3000, tau=4000, schedule="switch"))
        0.0
    """
    if schedule not in (names := ("linear", "switch", "as-printed")):
        raise ValueError(f"schedule must be one of {', '.join(names)}, got {schedule!r}")
    if tau is None:
        return jnp.ones_like(jnp.asarray(step, jnp.float32))
    step, tau = jnp.asarray(step, jnp.float32), jnp.asarray(tau, jnp.float32)
    # Not left to the quotient: compiled code multiplies by 1 / tau, and 41 * (1 / 41) < 1.
    share = jnp.zeros_like(step) if schedule == "switch" else step / jnp.where(tau > 0, tau, 1.0)
    probability = jnp.minimum(jnp.where(step >= tau, 1.0, share), cap)
    if schedule == "as-printed":
        probability = 1.0 - probability
    return jnp.where(tau > 0, probability, 1.0)


def em_loss(
    log_probs: ArrayLike,
    posterior: Posterior,
    *,
    reduce_fn: ReduceFn | None = jnp.mean,
    **rows: Unpack[RowOptions],
) -> Array:
    r"""The M-step :math:`-\sum_i q(z_i) \log P(z_i)` under any E-step :math:`q`.

    ``q = posterior(log_probs, where=where)`` gets no gradient, as in EM; see
    `hardem_jax.posteriors`. With ``posteriors.hard``, ``soft`` or ``first`` the gradient is that of
    `hard_em_loss`, `mml_loss` or `first_only_loss`. (Under ``soft`` the value differs from MML by
    the entropy of ``q``.)

    Args:
        posterior: called as ``posterior(log_probs, where=...)``, in the ragged layout also
            with ``segment_ids`` and ``num_segments``; returns weights of the shape of
            ``log_probs`` that sum to 1 in each row with a possible solution.
        others: as in `hard_em_loss`.

    Example:
        >>> from hardem_jax import posteriors
        >>> log_probs = jnp.log(jnp.array([0.1, 0.3]))
        >>> print(jax.grad(em_loss)(log_probs, posteriors.soft).round(4))
        [-0.25 -0.75]
    """
    z = Rows.weighted(log_probs, **rows)
    # Twice, for a posterior may read more than these scores.
    weights = posterior(jax.lax.stop_gradient(z.scores), where=z.where, **z.layout)
    weights = jax.lax.stop_gradient(z.aligned("the posterior's weights", weights))
    return reduce_rows(z, z.cross_entropy(weights), reduce_fn)


def posterior_entropy(log_probs: ArrayLike, **rows: Unpack[RowOptions]) -> Array:
    r"""Returns the entropy of each row's posterior, :math:`-\sum_i q_i \log q_i`, in nats.

    :math:`q_i = P(z_i) / \sum_j P(z_j)` over Z: 0 where the model has decided, log |Z| where it has
    no preference; 0 in rows without a possible solution. Arguments as in `hard_em_loss`; float32,
    the batch shape.

    Example:
        >>> posterior_entropy(jnp.full(4, -9.0)).round(4)  # log 4
        Array(1.3863, dtype=float32)
    """
    return Rows.weighted(log_probs, **rows).entropy()


def mean_over(axis_name: Hashable) -> ReduceFn:
    """Returns a ``reduce_fn`` that averages over the rows of all devices on a mapped axis.

    Every device gets the same value: the sum over all rows divided by the number of rows with a
    solution on any device, or 0 if there are none. Averaging the devices' own means instead
    (``jax.lax.pmean`` of a loss) would give each device the same weight, however many such rows it
    holds. Average the *gradients* with ``jax.lax.pmean`` to get that of the global mean, or sum
    them with ``psum`` if `jax.lax.pcast` has made the parameters of a `jax.shard_map` varying.

    Args:
        axis_name: the axis of `jax.pmap`, `jax.shard_map` or `jax.vmap`, or a tuple of axes.

    Example:
        Two devices; three of the four rows have a solution:

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
        return total / jnp.maximum(count, 1).astype(total.dtype)

    return mean


def has_solution(log_probs: ArrayLike, **rows: Unpack[RowOptions]) -> Array:
    """Returns which rows have a solution and so count in a mean: bool, the batch shape.

    Arguments as in `hard_em_loss`. Impossible solutions (log-probs of -inf) count as solutions;
    those left out by ``log_weights`` of -inf do not.

    Example:
        >>> log_probs = jnp.log(jnp.array([[0.5, 0.5], [0.1, 0.1]]))
        >>> where = jnp.array([[True, False], [False, False]])
        >>> print(has_solution(log_probs, where=where))
        [ True False]
    """
    return Rows.weighted(log_probs, **rows).rows


def check_log_probs(
    log_probs: ArrayLike,
    *,
    where: ArrayLike | None = None,
    segment_ids: ArrayLike | None = None,
    num_segments: int | None = None,
    tolerance: float = 1e-2,
) -> None:
    """Raises an error if these cannot be log-probabilities of distinct solutions.

    A debugging aid: call it on what you pass to a loss, then remove the call. It works inside
    `jax.jit`, where it sends the values to the host, but not inside `jax.shard_map`.

    It detects NaN, a log-prob above 0 (logits, or probabilities without the log) and a row whose
    probabilities sum to more than 1 (duplicates in Z, or a softmax over some of the solutions).
    Undetected are duplicates that sum to less and a softmax over Z alone, whose rows sum to 1.

    Args:
        tolerance: by how much a probability or a row's sum may exceed 1, by default for bfloat16.
        others: as in `hard_em_loss`.

    Raises:
        ValueError: names the first bad row and the problem. Inside `jax.jit` it is raised when
            the computation runs, in the message of JAX's own runtime error.

    Example:
        >>> check_log_probs(jnp.log(jnp.array([[0.1, 0.4], [0.5, 0.5]])))
        >>> check_log_probs(jnp.log(jnp.array([[0.1, 0.4], [0.8, 0.8]])))
        Traceback (most recent call last):
        ...
        ValueError: row 1: probabilities sum to 1.6; are there duplicates in Z, or is the \
softmax not over all solutions?
    """
    z = Rows.of(log_probs, where=where, segment_ids=segment_ids, num_segments=num_segments)
    # Comparisons with NaN are false, so NaN needs a check of its own.
    has_nan = z.any(z.where & jnp.isnan(z.scores))
    measured = has_nan, z.max(z.scores), jnp.exp(z.logsumexp())

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


def reduce_rows(
    z: Rows, values: Array, reduce_fn: ReduceFn | None, *, rows: Array | None = None
) -> Array:
    """Reduces the costs of rows to a loss, see "Reduction" in `hardem_jax.losses`.

    Args:
        z: the solutions.
        values: float32, the batch shape.
        reduce_fn: as in `hard_em_loss`.
        rows: bool, the rows that count; None for all that have a solution.

    Example:
        >>> z = Rows.of(jnp.zeros((2, 1)), where=jnp.array([[True], [False]]))
        >>> print(reduce_rows(z, jnp.array([3.0, 5.0]), jnp.mean))
        3.0
    """
    rows = z.rows if rows is None else rows
    if not values.shape == rows.shape == z.rows.shape:
        found = values.shape if values.shape != z.rows.shape else rows.shape
        raise ValueError(f"expected values of rows {z.rows.shape}, found {found}")
    values = jnp.where(rows, values, 0.0)
    if reduce_fn is None:
        return values
    if reduce_fn is jnp.mean:  # over no rows it would be 0 / 0
        return jnp.sum(values, where=rows) / jnp.maximum(jnp.sum(rows), 1).astype(jnp.float32)
    return reduce_fn(values, where=rows)
