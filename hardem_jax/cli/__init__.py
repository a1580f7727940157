from hardem_jax.extras import require_packages

require_packages("train", "rich", "tyro")
