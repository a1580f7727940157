"""Official metrics of data sets with documents, see `hardem_jax.documents.scores.METRICS`."""
