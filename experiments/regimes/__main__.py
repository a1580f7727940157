"""Runs the grid and draws the maps: ``python -m experiments.regimes``."""

from experiments.regimes.command import Regimes
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(Regimes, prog="python -m experiments.regimes")
