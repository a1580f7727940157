"""What the tests of training steps share."""

import jax
import pytest


@pytest.fixture
def unoptimized():
    """XLA's optimizer off, for tests that count compilations, which it has no part in."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()
