"""Synthetic corpora with known true solutions."""
