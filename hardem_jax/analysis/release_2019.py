r"""The MML of the paper's first public release, kept to reproduce it and for nothing else.

Maximum marginal likelihood is :math:`-\log \sum_z \exp(-l_z)` over the negative
log-likelihoods :math:`l_z = -\log P(z \mid x)`, a soft *minimum* of them
(`hardem_jax.losses.mml_loss`). The code that was public when the paper appeared
computed :math:`\log \sum_z \exp(l_z)`, a soft *maximum*: both signs are turned. Its
gradient weight of a solution is :math:`\propto 1 / P(z \mid x)`, so that training pushes
hardest towards the solution the model believes least, the opposite of both MML and
hard EM. It was corrected two months later. Whether the paper's MML rows were
obtained with it is not known; this module lets one measure what they would be.

**Do not train a model with it** for any other purpose than that comparison.
"""

import dataclasses

import jax
import jax.numpy as jnp

from hardem_jax.analysis.objectives import ReleasedMML
from hardem_jax.losses import ReduceFn, _Rows

__all__ = ["ReleasedMML", "released_mml_loss"]

Array = jax.Array


def released_mml_loss(
    log_probs: Array,
    *,
    where: Array | None = None,
    segment_ids: Array | None = None,
    num_segments: int | None = None,
    reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
    r""":math:`\log \sum_{z \in Z} 1 / P(z \mid x)`, a soft maximum of negative log-likelihoods.

    Arguments, layouts, masks and result as in `hardem_jax.losses.hard_em_loss`. A
    row with even one impossible solution (-inf) costs ``+inf`` and sends no
    gradient: a maximum over costs of which one is infinite. The release reduced with
    ``jnp.sum``; the default is a mean, like every loss here.

    Example:
        The weights of four solutions, and those of MML:

        >>> from hardem_jax.losses import mml_loss
        >>> log_probs = -jnp.array([1.0, 2.0, 4.0, 8.0])
        >>> print([f"{-weight:.3f}" for weight in jax.grad(released_mml_loss)(log_probs)])
        ['0.001', '0.002', '0.018', '0.979']
        >>> print([f"{-weight:.3f}" for weight in jax.grad(mml_loss)(log_probs)])
        ['0.705', '0.259', '0.035', '0.001']
    """
    z = _Rows.of(log_probs, where, segment_ids, num_segments)
    impossible = z.where & (z.log_probs == -jnp.inf)
    # log sum exp(-x) is minus the MML of -x, with padding at -inf on either side.
    turned = jnp.where(z.where & ~impossible, -z.log_probs, -jnp.inf)
    values = dataclasses.replace(z, log_probs=turned).logsumexp()
    lost = z.sum(impossible.astype(jnp.int32)) > 0
    return z.reduce(jnp.where(lost, jnp.inf, values), reduce_fn)
