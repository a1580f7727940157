"""Runs the inspector: ``python -m experiments.inspect``."""

from experiments.inspect.command import Inspect
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(Inspect, prog="python -m experiments.inspect")
