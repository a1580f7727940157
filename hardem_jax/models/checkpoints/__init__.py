"""Trained models in the layouts of other projects, read and written."""
