"""Answers that consist of several spans, as in Quoref, learned from their texts only.

Every word is tagged, so that any number of spans can be marked; which mentions of the answer's
texts are meant is latent. Answers of one span are learned and answered in the same way. Files are
in SQuAD's layout, where the answers of a question are all required::

    python -m experiments.multi_span prepare --file quoref-train-v0.1.json --out prepared/train
    python -m experiments.multi_span prepare --file quoref-dev-v0.1.json --out prepared/dev \
        --split dev
    python -m experiments.multi_span train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 4000
    python -m experiments.multi_span evaluate --run-dir runs/hard-em --data prepared/dev \
        --predictions predictions.json

Scores are those of Quoref's official metric; the predictions are what its evaluator reads.
"""

from hardem_jax.cli.command import run_command
from hardem_jax.span_sets.commands import COMMANDS

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.multi_span")
