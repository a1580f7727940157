"""``python -m experiments.quickstart``: the objectives on planted solutions."""

from experiments.cli import run_command
from experiments.quickstart.run import Quickstart

if __name__ == "__main__":
    run_command(Quickstart, prog="python -m experiments.quickstart")
