"""Modules of Flax NNX made and called without compiling each of their operations by itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def drawn(construct):
    """The module that ``construct`` makes, with weights that NumPy draws.

    Initialization compiles a program for each shape. Scales lie around 1, everything else around
    0, so that a mistake in a bias or a scale shows.
    """
    graphdef, params = nnx.split(nnx.eval_shape(construct))
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        centre = 1.0 if "scale" in jax.tree_util.keystr(path) else 0.0
        return jnp.asarray(rng.normal(centre, 0.2, leaf.shape), leaf.dtype)

    return nnx.merge(graphdef, jax.tree_util.tree_map_with_path(draw, params))


@functools.partial(jax.jit, static_argnums=0)
def _apply(graphdef, params, args, kwargs):
    return nnx.merge(graphdef, params)(*args, **kwargs)


def run(module, *args, **kwargs):
    """The outputs of a module, compiled once for all modules and inputs of the same shapes."""
    return _apply(*nnx.split(module), args, kwargs)


def assert_trees_close(actual, expected, *, rtol=1e-5, atol=2e-5):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
