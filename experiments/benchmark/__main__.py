"""``python -m experiments.benchmark``: the training step against PyTorch's."""

from experiments.benchmark.train_step import main

if __name__ == "__main__":
    main()
