"""WikiTableQuestions, answered by programs: ``python -m experiments.wikitablequestions --help``.

WikiTableQuestions (Pasupat and Liang, 2015) from the official files, which hold questions, tables
and answers, and no programs::

    python -m experiments.wikitablequestions prepare --folder WikiTableQuestions --out built/wtq
    python -m experiments.wikitablequestions train --data built/wtq --dev built/wtq \
        --out runs/wtq --model.encoder bert-base-uncased objective:mml
    python -m experiments.wikitablequestions evaluate --run-dir runs/wtq --data built/wtq
    python -m experiments.wikitablequestions predict --run-dir runs/wtq --table mine.csv \
        --question "Who won after Ada?"

``prepare --layout jsonl`` or ``csv`` reads questions on tables of your own, see
`data.readers.table_jsonl`.

Programs have superlatives, neighbours, groups, differences and nested conditions, see
`hardem_jax.programs.solutions.types`. The queries of `experiments.wikisql` have none of these.
"""

import dataclasses
from typing import Literal

from hardem_jax.cli.builds import BuildCommand
from hardem_jax.cli.command import run_command
from hardem_jax.errors import require
from hardem_jax.programs.builds import TablePrograms, WikiTablePrograms
from hardem_jax.programs.commands import Compare, Evaluate, Predict, Train
from hardem_jax.programs.solutions.rules import ProgramRules


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(BuildCommand):
    """Find every program whose result is the answer.

    The build lies in a folder below ``out`` that is named after its options and the contents of its
    files. Running the same command again finds it there; other options or files make another build.

    Attributes:
        layout: of the files in ``folder``.
        rules: what counts as a program.
        number: number of the random split, 1 to 5.
        tagged: read the numbers and dates of the answers from the release's ``.tagged`` files, as
            its evaluator does.
    """

    LAYOUTS = {
        "wikitablequestions": WikiTablePrograms,
        "jsonl": TablePrograms,
        "csv": TablePrograms,
    }

    layout: Literal["wikitablequestions", "jsonl", "csv"] = "wikitablequestions"
    rules: ProgramRules = ProgramRules()
    number: int = 1
    tagged: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "number", at_least=1, at_most=5)


COMMANDS = {
    "prepare": Prepare,
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "predict": Predict,
}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.wikitablequestions")
