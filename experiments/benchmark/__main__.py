"""``python -m experiments.benchmark``: the training step against PyTorch's."""

from experiments.benchmark.train_step import TrainStep
from hardem_jax.cli.command import run_command

if __name__ == "__main__":
    run_command(TrainStep, prog="python -m experiments.benchmark")
