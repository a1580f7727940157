"""Everything that finds solutions of a distribution, in one compiled call."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

COUNT, KEYS = 6_000, jax.random.split(jax.random.key(1), 4)


@functools.partial(jax.jit, static_argnames=("distribution", "k", "max_conditions"))
def _found(distribution, values, keys, k, within=None, **limit):
    options = limit | {"within": within}

    def total(values):
        found = distribution(values)
        mass = found.log_mass(**options)
        samples = jax.lax.map(lambda key: found.sample(key, COUNT, **options), keys)
        best = found.top(k, **options)
        return jnp.sum(jnp.where(mass > -jnp.inf, mass, 0.0)), (mass, samples, best)

    (_, found), grads = jax.value_and_grad(total, has_aux=True)(values)
    return *found, grads


def found(distribution, values, *, k=40, **options):
    """Log mass ``[B]``; samples ``[4, B, COUNT, W]`` and their log P'; the ``k`` best and theirs.

    And the gradient of the mass. ``distribution`` makes one of ``values``.
    """
    return jax.tree.map(np.asarray, _found(distribution, values, KEYS, k, **options))
