"""SQuAD-layout files such as SQuAD 1.1 and Quoref, learned from answer texts only.

The annotated place of an answer is never trained on, except for the upper bound of
``prepare --supervised``; evaluation uses it to measure how often the most likely mention is the
true one. Answers that need not be in the text are words in front of every window:
``--windows.choices yes no``, and ``unknown`` for SQuAD 2.0's questions without an answer, which are
then scored by its metric::

    python -m experiments.squad_layout prepare --file train-v1.1.json --out prepared/train
    python -m experiments.squad_layout prepare --file dev-v1.1.json --out prepared/dev --split dev
    python -m experiments.squad_layout prepare --file mine.csv --out prepared/mine
    python -m experiments.squad_layout prepare --file quoref-dev-v0.1.json --out prepared/quoref \
        --split dev --answers-are "all required"
    python -m experiments.squad_layout train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 4000
    python -m experiments.squad_layout evaluate --run-dir runs/hard-em --data prepared/dev \
        --predictions predictions.json
"""

from hardem_jax.cli.command import run_command
from hardem_jax.spans.commands import COMMANDS

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.squad_layout")
