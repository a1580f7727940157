"""Downloads data sets: ``python -m experiments.download --help``."""

from experiments.download.command import Download
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(Download, prog="python -m experiments.download")
