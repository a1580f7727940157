"""Commands, one module each: ``python -m experiments.triviaqa --help``. Run from a checkout."""

from hardem_jax.errors import MissingPackageError, require_packages

try:
    require_packages("all", "flax", "grain", "optax", "orbax", "rich", "tokenizers", "tyro")
except MissingPackageError as error:
    raise SystemExit(f"error: {error}") from None
