"""Checkpoints of training runs: all that the project knows of Orbax."""
