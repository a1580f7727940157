"""DROP_num, from the official files: ``python -m experiments.drop --help``.

The questions of DROP (Dua et al., 2019) whose answer is a number. With the folder of the official
``drop_dataset_train.json`` and ``drop_dataset_dev.json``::

    python -m experiments.drop prepare --folder drop --out built/drop
    python -m experiments.drop train --data built/drop --dev built/drop \
        --out runs/drop --model.encoder bert-base-uncased objective:hard-em --objective.tau 10000
    python -m experiments.drop evaluate --run-dir runs/drop --data built/drop
    python -m experiments.drop predict --run-dir runs/drop --document game.txt \
        --question "How many yards longer was the first field goal?"

That is the tagger; the paper's also has percentages (``prepare --rules.percent term``). NAQANet
uses only numbers of the passage, and counts; its other settings are those of Dua et al. (2019),
with the paper's batch size and length::

    python -m experiments.drop prepare --folder drop --out built/naqanet \
        --rules.no-special-numbers --rules.no-question-numbers --rules.max-count 9
    python -m experiments.drop train --data built/naqanet --dev built/naqanet \
        --out runs/naqanet --batches.batch-size 14 --batches.buckets 160 240 320 400 \
        --optimizer.learning-rate 5e-4 --optimizer.schedule constant \
        --optimizer.warmup-fraction 0 --optimizer.weight-decay 0 --optimizer.clip-norm 5 \
        --optimizer.b1 0.8 --optimizer.b2 0.999 --optimizer.eps 1e-7 --optimizer.ema-decay 0.9999 \
        model:naqanet --model.word-vectors glove.840B.300d.txt objective:hard-em \
        --objective.tau 10000
"""

from hardem_jax.cli.builds import BuildCommand, prepare
from hardem_jax.cli.command import run_command
from hardem_jax.equations import commands as equations
from hardem_jax.equations.builds import DropNum


class Build(BuildCommand):
    """Find the numbers of every text and every equation that gives the answer."""

    LAYOUTS = {"": DropNum}


COMMANDS = equations.COMMANDS | {"prepare": prepare(Build)}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.drop")
