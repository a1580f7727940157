"""Text encoders of the BERT family, their layers and kernels, weights in and out."""

from hardem_jax.errors import require_packages

require_packages("models", "flax", "safetensors")
