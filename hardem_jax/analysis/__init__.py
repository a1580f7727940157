from hardem_jax.errors import require_packages

require_packages("train", "matplotlib")
