"""Questions on tables, from answers only: ``python -m experiments.wikisql --help``.

WikiSQL (Zhong et al., 2017), from the official files. They hold queries and no answers, so each
query is executed once and dropped; what is built holds questions, tables, answers and Z::

    python -m experiments.wikisql prepare --folder data --out built/wikisql
    python -m experiments.wikisql train --data built/wikisql --dev built/wikisql \
        --out runs/wikisql --model.encoder bert-base-uncased objective:hard-em
    python -m experiments.wikisql evaluate --run-dir runs/wikisql --data built/wikisql --gold data
    python -m experiments.wikisql predict --run-dir runs/wikisql --table mine.csv \
        --question "Who scored most?"

``prepare --supervised --splits train`` makes the annotated query all of Z: the upper bound.

``convert`` turns a parser that the authors of SQLova trained (Hwang et al., 2019) into a run, for
``evaluate`` and ``predict``::

    python -m experiments.wikisql convert --folder sqlova --encoder bert-large-uncased \
        --out runs/sqlova

WikiTableQuestions (Pasupat and Liang, 2015) has no queries at all; ``--layout wikitablequestions``
reads its files, and ``--layout jsonl`` or ``csv`` those of your own, which
`hardem_jax.tables.jsonl` describes.
"""

import dataclasses
from typing import Literal

from hardem_jax.cli.builds import BuildCommand, prepare
from hardem_jax.cli.command import run_command
from hardem_jax.queries import commands as queries
from hardem_jax.queries.builds import TableQuestions, WikiSQL, WikiTableQuestions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build(BuildCommand):
    """Find every query that executes to the answer.

    Attributes:
        layout: of the files in ``folder``; ``supervised`` is for wikisql only, ``number`` and
            ``tagged`` are for wikitablequestions.
    """

    LAYOUTS = {
        "wikisql": WikiSQL,
        "wikitablequestions": WikiTableQuestions,
        "jsonl": TableQuestions,
        "csv": TableQuestions,
    }

    layout: Literal["wikisql", "wikitablequestions", "jsonl", "csv"] = "wikisql"

    def run(self) -> None:
        super().run()
        if self.layout == "wikisql":
            print("(the paper, WikiSQL: mean 346.1, median 5)")


COMMANDS = queries.COMMANDS | {"prepare": prepare(Build)}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.wikisql")
