from hardem_jax.errors import require_packages

require_packages("retrieval", "Stemmer", "bm25s", "sklearn", "scipy")
