"""DROP_num, from the official files: ``python -m experiments.drop --help``.

The questions of DROP (Dua et al., 2019) whose answer is a number::

    python -m experiments.drop prepare --file drop_dataset_train.json --out prepared/drop-train
    python -m experiments.drop prepare --file drop_dataset_dev.json --out prepared/drop-dev \
        --split dev
    python -m experiments.drop train --data prepared/drop-train --dev prepared/drop-dev \
        --out runs/drop --model.encoder bert-base-uncased objective:hard-em --objective.tau 10000
    python -m experiments.drop evaluate --run-dir runs/drop --data prepared/drop-dev
    python -m experiments.drop predict --run-dir runs/drop --passage game.txt \
        --question "How many yards longer was the first field goal?"

That is the tagger. NAQANet takes numbers of the passage only, and counts; its other settings are
those of Dua et al. (2019), with the paper's batch size and length::

    RULES="--rules.no-special-numbers --rules.no-question-numbers --rules.max-count 9"
    python -m experiments.drop prepare --file drop_dataset_train.json \
        --out prepared/naqanet-train $RULES
    python -m experiments.drop prepare --file drop_dataset_dev.json \
        --out prepared/naqanet-dev --split dev $RULES
    python -m experiments.drop train --data prepared/naqanet-train --dev prepared/naqanet-dev \
        --out runs/naqanet --batches.batch-size 14 --batches.buckets 160 240 320 400 \
        --optimizer.learning-rate 5e-4 --optimizer.schedule constant \
        --optimizer.warmup-fraction 0 --optimizer.weight-decay 0 --optimizer.clip-norm 5 \
        --optimizer.b1 0.8 --optimizer.b2 0.999 --optimizer.eps 1e-7 --optimizer.ema-decay 0.9999 \
        model:naqanet --model.word-vectors glove.840B.300d.txt objective:hard-em \
        --objective.tau 10000
"""

import dataclasses
from pathlib import Path
from typing import Literal

from hardem_jax.cli.command import run_command
from hardem_jax.cli.equations import Compare, Evaluate, Predict, Train
from hardem_jax.cli.preparing import determined_by, print_summary, watched
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.equations import prepare_questions
from hardem_jax.data.readers.drop import read_drop
from hardem_jax.errors import require
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Find the numbers of every text and every equation that gives the answer.

    Attributes:
        file: ``drop_dataset_train.json`` or ``drop_dataset_dev.json``.
        out: folder to write.
        split: "train" leaves out questions that no equation answers, "dev" keeps them.
        max_words: longer passages are cut (paper: 400); None for no limit.
        numbers: what counts as a number.
        rules: what counts as an equation. The paper's BERT tagger also has percentages:
            ``--rules.percent term``.
        force: replace the split that is in ``out``.
    """

    file: Path
    out: Path
    split: Literal["train", "dev"] = "train"
    max_words: int | None = 400
    numbers: NumberConfig = NumberConfig()
    rules: EquationRules = EquationRules()
    force: bool = False

    def __post_init__(self) -> None:
        require(self, "max_words", at_least=1)

    def run(self) -> None:
        exclusions = ExclusionCounts()
        meta = prepare_questions(
            watched(
                read_drop(
                    self.file, skips=exclusions, max_words=self.max_words, numbers=self.numbers
                )
            ),
            self.out,
            numbers=self.numbers,
            rules=self.rules,
            sources=determined_by(self),
            exclusions=exclusions,
            keep_without_solution=self.split == "dev",
            reader={"max_words": self.max_words},
            replace=self.force,
        )
        print_summary(meta, exclusions)


COMMANDS = {
    "prepare": Prepare,
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "predict": Predict,
}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.drop")
