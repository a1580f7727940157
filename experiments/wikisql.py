"""Questions on tables, from answers only: ``python -m experiments.wikisql --help``.

WikiSQL (Zhong et al., 2017), from the official files. They hold queries and no answers, so each
query is executed once and dropped; what is built holds questions, tables, answers and Z::

    python -m experiments.wikisql prepare --folder data --out built/wikisql
    python -m experiments.wikisql train --data built/wikisql --dev built/wikisql \
        --out runs/wikisql --model.encoder bert-base-uncased objective:hard-em
    python -m experiments.wikisql evaluate --run-dir runs/wikisql --data built/wikisql --gold data
    python -m experiments.wikisql predict --run-dir runs/wikisql --table mine.csv \
        --question "Who scored most?"

``prepare --supervised --splits train`` makes the annotated query all of Z: the upper bound to
compare with.

``convert`` turns a parser that the authors of SQLova trained (Hwang et al., 2019) into a run, for
``evaluate`` and ``predict``::

    python -m experiments.wikisql convert --folder sqlova --encoder bert-large-uncased \
        --out runs/sqlova

WikiTableQuestions (Pasupat and Liang, 2015) has no queries at all; ``--layout wikitablequestions``
reads its files, and ``--layout jsonl`` or ``csv`` those of your own, which
`data.readers.table_jsonl` describes.
"""

import dataclasses
from typing import Literal

from hardem_jax.cli.builds import BuildCommand
from hardem_jax.cli.command import run_command
from hardem_jax.errors import require
from hardem_jax.queries.builds import TableQuestions, WikiSQL, WikiTableQuestions
from hardem_jax.queries.commands import Compare, Convert, Evaluate, Predict, Train
from hardem_jax.queries.solutions.enumeration import SqlRules


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(BuildCommand):
    """Find every query that executes to the answer.

    The build lies in a folder below ``out`` that is named after its options and the contents of its
    files. Running the same command again finds it there; other options or files make another build.

    Attributes:
        layout: of the files in ``folder``.
        rules: what counts as a query.
        supervised: with WikiSQL, make the annotated query all of Z.
        number: with WikiTableQuestions, the number of the random split, 1 to 5.
        tagged: with WikiTableQuestions, read the numbers and dates of the answers from the
            release's ``.tagged`` files, as its evaluator does.
    """

    LAYOUTS = {
        "wikisql": WikiSQL,
        "wikitablequestions": WikiTableQuestions,
        "jsonl": TableQuestions,
        "csv": TableQuestions,
    }

    layout: Literal["wikisql", "wikitablequestions", "jsonl", "csv"] = "wikisql"
    rules: SqlRules = SqlRules(cap=4096)
    supervised: bool = False
    number: int = 1
    tagged: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "number", at_least=1, at_most=5)

    def run(self) -> None:
        super().run()
        if self.layout == "wikisql":
            print("(the paper, WikiSQL: mean 346.1, median 5)")


COMMANDS = {
    "prepare": Prepare,
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "predict": Predict,
    "convert": Convert,
}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.wikisql")
