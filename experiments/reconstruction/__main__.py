"""``python -m experiments.reconstruction``."""

from experiments.reconstruction.command import COMMANDS, main

__all__ = ["COMMANDS"]

if __name__ == "__main__":
    main()
