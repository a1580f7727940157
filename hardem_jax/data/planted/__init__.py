"""Generated corpora whose true solutions are known."""
