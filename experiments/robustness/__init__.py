"""Robustness tests: fault injection, fuzzing and mutation testing."""
