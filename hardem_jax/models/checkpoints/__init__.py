"""Trained models in the layouts of others, read and written."""
