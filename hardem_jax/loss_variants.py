r"""Variants of the paper's losses, from later work and from the paper's first release.

`thresholded_loss` is hard EM, and `count_weighted_mml_loss` and `entropy_regularized_loss` are
MML, each with its own say on which rows or solutions to trust. `released_mml_loss` is for
comparison only. Layouts, weights, contract and reduction are those of `hardem_jax.losses`.
"""

from typing import Unpack

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from hardem_jax.losses import ReduceFn, RowOptions, reduce_rows
from hardem_jax.masked import Rows

Array = jax.Array


def thresholded_loss(
    log_probs: ArrayLike,
    *,
    threshold: Array | float,
    keep_single: Array | bool = False,
    reduce_fn: ReduceFn | None = jnp.mean,
    **rows: Unpack[RowOptions],
) -> Array:
    r"""Hard EM on the rows whose most likely solution has :math:`P(z \mid x)` above a threshold.

    The others cost 0 and are left out of the mean, as rows without a solution are: the model learns
    only from questions it is confident about (Chen et al., 2020; Shao et al., 2021).

    Args:
        threshold: probability in [0, 1]; may be traced.
        keep_single: whether rows with one solution are kept in any case; may be traced.
        others: as in `losses.hard_em_loss`.

    Example:
        >>> log_probs = jnp.log(jnp.array([[0.6, 0.3], [0.2, 0.1]]))
        >>> print(jnp.exp(-thresholded_loss(log_probs, threshold=0.5)))
        0.6
    """
    z = Rows.weighted(log_probs, **rows)
    trusted = _kept(z, threshold, keep_single)
    return reduce_rows(z, z.cross_entropy(z.most_likely()), reduce_fn, rows=trusted)


def kept(
    log_probs: ArrayLike,
    *,
    threshold: Array | float,
    keep_single: Array | bool = False,
    **rows: Unpack[RowOptions],
) -> Array:
    """Returns which rows count in `thresholded_loss`: bool, the batch shape. Same arguments.

    A row with NaN counts, so that the loss shows it.

    Example:
        >>> print(kept(jnp.log(jnp.array([[0.6, 0.3], [0.2, 0.1]])), threshold=0.5))
        [ True False]
    """
    return _kept(Rows.weighted(log_probs, **rows), threshold, keep_single)


def _kept(z: Rows, threshold: Array | float, keep_single: Array | bool) -> Array:
    # Not `>`: a row with NaN is kept, so that the NaN shows.
    confident = ~(z.max(jax.lax.stop_gradient(z.scores)) <= jnp.log(threshold))
    single = z.sum(z.where.astype(jnp.int32)) == 1
    return z.rows & (confident | (single & keep_single))


def count_weighted_mml_loss(
    log_probs: ArrayLike,
    *,
    power: float = 1.0,
    reduce_fn: ReduceFn | None = jnp.mean,
    **rows: Unpack[RowOptions],
) -> Array:
    r""":math:`-|Z|^{-p} \log \sum_{z \in Z} P(z \mid x)`: MML that trusts small Z more.

    A row whose Z has n solutions holds at least n - 1 spurious ones, so the larger n is, the less
    reliable its gradient. With :math:`p` = 0 this is `mml_loss`. (Dividing the sum by n, which
    gives the mean of P, leaves the gradient of MML unchanged.)

    Args:
        power: p, at least 0.
        others: as in `losses.hard_em_loss`.

    Example:
        >>> from hardem_jax.losses import mml_loss
        >>> log_probs = jnp.log(jnp.array([[0.1, 0.3], [0.4, 0.0]]))
        >>> where = jnp.array([[True, True], [True, False]])
        >>> mml = mml_loss(log_probs, where=where, reduce_fn=None)
        >>> print(count_weighted_mml_loss(log_probs, where=where, reduce_fn=None) / mml)
        [0.5 1. ]
    """
    z = Rows.weighted(log_probs, **rows)
    counts = jnp.maximum(z.sum(z.where.astype(jnp.float32)), 1.0)
    mml = -z.logsumexp()
    # The weight may underflow to 0, and 0 times inf is NaN.
    return reduce_rows(z, jnp.where(mml == jnp.inf, mml, mml * counts**-power), reduce_fn)


def entropy_regularized_loss(
    log_probs: ArrayLike,
    *,
    weight: float,
    reduce_fn: ReduceFn | None = jnp.mean,
    **rows: Unpack[RowOptions],
) -> Array:
    r""":math:`-\log \sum_z P(z \mid x) + \lambda H(q)`, MML with the entropy of its posterior.

    :math:`q_i = P(z_i) / \sum_j P(z_j)` over Z. A positive weight makes the model decide among the
    solutions (entropy minimisation, Grandvalet and Bengio, 2004); a negative one keeps it
    undecided. The gradient weight of a solution is :math:`q_i (1 + \lambda (\log q_i + H))`.

    Args:
        weight: lambda; 0 is `mml_loss`.
        others: as in `losses.hard_em_loss`.

    Example:
        >>> log_probs = jnp.log(jnp.array([0.25, 0.25]))
        >>> entropy_regularized_loss(log_probs, weight=0.5).round(4)  # log 2 + 0.5 log 2
        Array(1.0397, dtype=float32)
    """
    z = Rows.weighted(log_probs, **rows)
    return reduce_rows(z, -z.logsumexp() + weight * z.entropy(), reduce_fn)


def released_mml_loss(
    log_probs: ArrayLike, *, reduce_fn: ReduceFn | None = jnp.mean, **rows: Unpack[RowOptions]
) -> Array:
    r""":math:`\log \sum_{z \in Z} 1 / P(z \mid x)`, the "MML" of the paper's first public release.

    **For comparison only; do not train a model with it.** With costs
    :math:`l_z = -\log P(z \mid x)`, MML is :math:`-\log \sum_z \exp(-l_z)`, a soft *minimum*. The
    code that was public when the paper appeared computed :math:`\log \sum_z \exp(l_z)`, a soft
    *maximum*: both signs are flipped. The gradient weight of a solution is
    :math:`\propto 1 / P(z \mid x)`, so training pushes hardest towards the *least* likely
    solution. The code was corrected two months later; whether the paper's MML results were
    obtained with it is unknown.

    A row with even one impossible solution (-inf) costs ``+inf``, as the maximum over its costs
    is infinite, and has no gradient. The release reduced with ``jnp.sum``. Arguments and result
    as in `losses.hard_em_loss`.

    Example:
        The gradient weights of four solutions, compared with those of MML:

        >>> from hardem_jax.losses import mml_loss
        >>> log_probs = -jnp.array([1.0, 2.0, 4.0, 8.0])
        >>> print([f"{-weight:.3f}" for weight in jax.grad(released_mml_loss)(log_probs)])
        ['0.001', '0.002', '0.018', '0.979']
        >>> print([f"{-weight:.3f}" for weight in jax.grad(mml_loss)(log_probs)])
        ['0.705', '0.259', '0.035', '0.001']
    """
    z = Rows.weighted(log_probs, **rows)
    impossible = z.where & ~z.possible
    inverted = z.with_scores(jnp.where(impossible, -jnp.inf, -z.scores))
    infinite = z.any(impossible) & ~z.any(z.where & jnp.isnan(z.scores))
    return reduce_rows(z, jnp.where(infinite, jnp.inf, inverted.logsumexp()), reduce_fn)
