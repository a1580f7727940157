"""Prepared questions as the arrays of a model."""
