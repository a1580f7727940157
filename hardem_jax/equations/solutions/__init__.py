"""Equations over the numbers of a text: Z, f and the search for numbers."""
