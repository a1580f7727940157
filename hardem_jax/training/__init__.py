from hardem_jax.errors import require_packages

require_packages("train", "filelock", "flax", "grain", "optax", "orbax", "rich", "tensorboardX")
