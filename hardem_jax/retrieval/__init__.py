from hardem_jax.extras import require_packages

require_packages("retrieval", "Stemmer", "bm25s", "sklearn", "scipy")
