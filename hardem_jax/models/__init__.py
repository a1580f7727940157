from hardem_jax.extras import require_packages

require_packages("models", "flax", "safetensors")
