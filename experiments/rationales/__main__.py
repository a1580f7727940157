"""Runs the experiments: ``python -m experiments.rationales {train,variance}``."""

from experiments.rationales.command import GradientVariance, RationaleTraining
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(
        {"train": RationaleTraining, "variance": GradientVariance},
        prog="python -m experiments.rationales",
    )
