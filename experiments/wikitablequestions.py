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
`hardem_jax.tables.jsonl`.

Programs have superlatives, neighbours, groups, differences and nested conditions, see
`hardem_jax.programs.solutions.types`. The queries of `experiments.wikisql` have none of these.
"""

import dataclasses
from typing import Literal

from hardem_jax.cli.builds import BuildCommand, prepare
from hardem_jax.cli.command import run_command
from hardem_jax.programs import commands as programs
from hardem_jax.programs.builds import TablePrograms, WikiTablePrograms


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build(BuildCommand):
    """Find every program whose result is the answer.

    Attributes:
        layout: of the files in ``folder``; ``number`` and ``tagged`` are for wikitablequestions.
    """

    LAYOUTS = {
        "wikitablequestions": WikiTablePrograms,
        "jsonl": TablePrograms,
        "csv": TablePrograms,
    }

    layout: Literal["wikitablequestions", "jsonl", "csv"] = "wikitablequestions"


COMMANDS = programs.COMMANDS | {"prepare": prepare(Build)}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.wikitablequestions")
