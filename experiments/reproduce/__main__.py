"""Makes a table of the paper at full size: ``python -m experiments.reproduce --help``."""

from experiments.reproduce.command import Reproduce
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(Reproduce, prog="python -m experiments.reproduce")
