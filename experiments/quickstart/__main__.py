"""``python -m experiments.quickstart``: the objectives on planted solutions."""

from experiments.quickstart.run import Quickstart
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(Quickstart, prog="python -m experiments.quickstart")
