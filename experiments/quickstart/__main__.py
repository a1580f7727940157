"""Runs the quickstart: ``python -m experiments.quickstart``."""

from experiments.quickstart.run import Quickstart
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(Quickstart, prog="python -m experiments.quickstart")
