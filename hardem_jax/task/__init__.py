"""A task: P(z | x), Z and f together, how it trains and how a trained one answers."""

from hardem_jax.errors import require_packages

require_packages("train", "flax", "grain", "optax")
