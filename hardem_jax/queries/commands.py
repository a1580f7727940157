"""Questions on tables: ``prepare``, ``train``, ``evaluate`` and so on, and ``convert``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Literal

from hardem_jax.checksums import write_checksums
from hardem_jax.cli.builds import BuildFiles, EvaluateOnBuild, TrainOnBuild, prepare
from hardem_jax.cli.compare import comparison
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text, write_json
from hardem_jax.errors import InputError
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.queries.builds import TableQuestions
from hardem_jax.queries.config import QueryDecoding, QueryInference, SQLovaConfig
from hardem_jax.queries.solutions.types import SqlRules
from hardem_jax.registry import task_type
from hardem_jax.search.objectives import AnySearchObjective
from hardem_jax.settings import to_json
from hardem_jax.tables.commands import PredictOnTable
from hardem_jax.tables.metrics import official_lines
from hardem_jax.training.config import LoopConfig, OptimizerConfig
from hardem_jax.version import __version__

#: Adam as SQLova has it: 1e-3, and 1e-5 for the encoder; no decay, no warmup, no clipping.
OPTIMIZER = OptimizerConfig(
    learning_rate=1e-3,
    warmup_fraction=0.0,
    weight_decay=0.0,
    clip_norm=None,
    eps=1e-8,
    rate_multipliers=(("encoder", 0.01),),
    schedule="constant",
)


Prepare = prepare(BuildFiles, {"": TableQuestions})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainOnBuild):
    """Train a parser, or continue the run in ``out`` where it stopped.

    Attributes:
        gold: folder with the official files of ``gold_split``. Their annotated queries are used for
            scoring only, never for training; None skips these scores.
        gold_split: official name of the split to evaluate on.
        conditions: "sum" over those of a query, a probability, or their "mean" (released code).
        objective: which queries are trusted, or how they are looked for.
    """

    TASK = "queries"

    gold: Path | None = None
    gold_split: str = "dev"
    conditions: Literal["sum", "mean"] = "sum"
    model: SQLovaConfig = SQLovaConfig()
    optimizer: OptimizerConfig = OPTIMIZER
    batches: BatchConfig = BatchConfig(batch_size=10, buckets=(64, 96, 128, 180), negatives=0)
    loop: LoopConfig = LoopConfig(num_steps=20_000, monitor="accuracy")
    inference: QueryInference = QueryInference()
    objective: AnyObjective | AnySearchObjective = HardEM()

    def open_dev(self, count: int | None) -> Any:
        return super().open_dev(count).with_golds(self.gold, self.gold_split)

    def task(self, data: Any, dev: Any) -> Any:
        for build in data, dev:
            if build.rules.shared_columns:
                raise InputError(
                    f"{build.place}: expected no two conditions on a column, which the parser does "
                    "not have, found a build with --rules.shared-columns"
                )
        return task_type(self.TASK)(self.inference, dev.rules, self.conditions)


Compare = comparison(
    Train,
    curves={
        "loss": "training loss over Z",
        "accuracy": "accuracy (%)",
        "hit@1": "hit@1 of the annotated query in Z (%)",
        "hit@5": "hit@5 of the annotated query in Z (%)",
    },
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateOnBuild):
    """Score a trained parser with the official metric.

    Attributes:
        predictions: write queries and results here, as one JSON list in the order of the questions.
        gold: folder with the official files, for the scores that need annotated queries.
        gold_split: official name of the split.
        decoding: how answers are read off, if not as in the run.
    """

    TASK = "queries"
    INFERENCE = ("decoding",)

    gold: Path | None = None
    gold_split: str = "dev"
    decoding: QueryDecoding | None = None

    def open(self) -> Any:
        return super().open().with_golds(self.gold, self.gold_split)

    def predictions_text(self, data: Any, answers: Any) -> str:
        from hardem_jax.queries import task as tasks

        rows = [
            {
                "id": question.id,
                "question": question.question,
                "sql": answer and tasks.official_fields(answer.query),
                "result": answer and answer.result,
            }
            for question, answer in zip(data.questions, answers, strict=True)
        ]
        return json_text(rows)

    def official_text(self, data: Any, answers: Any) -> str:
        """WikiSQL: a JSON object per line, in the order of its file; otherwise as for programs."""
        from hardem_jax.queries import task as tasks

        pairs = list(zip(data.questions, answers, strict=True))
        if any(question.match != "execution" for question, _ in pairs):
            results = [(q.id, answer.result if answer else None) for q, answer in pairs]
            results += ((id, None) for id in data.left_out)
            return official_lines((id, result or ()) for id, result in results)
        lines: dict[str, Any] = dict.fromkeys(data.left_out, {"error": "left out of the split"})
        for question, answer in pairs:
            query = answer and tasks.official_fields(answer.query)
            lines[question.id] = {"query": query} if query else {"error": "no query was found"}
        # The evaluator identifies a question by its line number, with which its id ends.
        numbers = {id: id.rpartition("-")[2] for id in lines}
        if odd := next((id for id, number in numbers.items() if not number.isdecimal()), None):
            raise InputError(f"official: expected ids of WikiSQL, such as dev-7, found {odd!r}")
        ordered = sorted(lines, key=lambda id: int(numbers[id]))
        return "".join(f"{json.dumps(lines[id])}\n" for id in ordered)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict(PredictOnTable):
    """Ask a trained parser questions about a table of your own.

    Prints what the run decodes, best first, with probabilities; queries are statements for SQLite.
    """

    TASK = "queries"


@dataclasses.dataclass(frozen=True)
class Convert:
    """Turn a parser that the authors of SQLova trained (naver/sqlova) into a run; needs torch.

    The run is for ``evaluate`` and ``predict``.

    Attributes:
        folder: holds ``model_best.pt`` and ``model_bert_best.pt``.
        out: folder of the run to write, new or empty.
        encoder: Hugging Face name or folder of the BERT that the parser was trained on; its sizes
            and vocabulary are read.
        rules: the Z_tot in which answers are searched.
        inference: how answers are read off.
    """

    folder: Path
    out: Path
    encoder: str = "bert-base-uncased"
    rules: SqlRules = SqlRules()
    inference: QueryInference = QueryInference()

    def run(self) -> None:
        from hardem_jax.queries import task as tasks
        from hardem_jax.training.checkpoints import RunCheckpoints

        if os.path.isdir(self.out) and os.listdir(self.out):
            raise InputError(f"{self.out}: expected a new or an empty folder, found files in it")
        model_file, bert_file = self.folder / "model_best.pt", self.folder / "model_bert_best.pt"
        for file in (model_file, bert_file):
            if not os.path.isfile(file):
                raise InputError(f"{file}: expected a file that naver/sqlova saved, found none")
        model = tasks.QueryModel.convert(model_file, bert_file, self.encoder)
        limit = model.config.max_tokens
        buckets = (*(size for size in (64, 96, 128) if size < limit), limit)
        used = {
            "model": model.config,
            "inference": self.inference,
            "batches": BatchConfig(batch_size=10, buckets=buckets, negatives=0),
        }
        self.out.mkdir(parents=True, exist_ok=True)
        content = {
            "version": __version__,
            "flags": {name: to_json(config) for name, config in used.items()},
            "task": tasks.QueryTask.NAME,
            "model": model.save(self.out),
            "rules": dataclasses.asdict(self.rules),
        }
        write_json(self.out / "config.json", content)
        write_checksums(self.out)
        with RunCheckpoints(self.out, {}) as checkpoints:
            checkpoints.save_best(model.params, 0, {})
        print(self.out)


# A data set has its own ``prepare``.
_KINDS = (Prepare, Train, Compare, Evaluate, Predict, Convert)
COMMANDS = {kind.__name__.lower(): kind for kind in _KINDS}
