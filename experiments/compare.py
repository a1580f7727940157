"""All objectives on the same data, several seeds each: ``python -m experiments.compare --help``.

Every run is a `experiments.span_qa.Train` in a folder of its own below ``out``; a run that
has ended is not repeated, one that was stopped continues. What is reported are the
scores after the last step: choosing the best evaluation would flatter whoever varies most.
The table and ``comparison.json`` hold mean and standard deviation over seeds,
``learning_curves.png`` shows the way there and ``predictions.md`` some answers.
"""

import dataclasses
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.cli import flags, run_command
from experiments.reader import ReaderConfig, TrainedReader
from experiments.span_qa import Subset, Train
from hardem_jax.analysis.plots import learning_curves
from hardem_jax.analysis.release_2019 import ReleasedMML
from hardem_jax.data.batches import BatchConfig
from hardem_jax.data.prepared import PreparedSplit
from hardem_jax.data.records import write_json
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.tasks.span_qa import METRICS, InferenceConfig
from hardem_jax.training.loop import LoopConfig
from hardem_jax.training.optimizer import OptimizerConfig


@dataclasses.dataclass(frozen=True)
class Compare:
    """Train First-only, MML, hard EM and the released MML, and tabulate them.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
        out: folder for all runs.
        seeds: one run of every objective for each.
        tau: annealing steps of hard EM; None for no annealing.
        model: the reader.
        optimizer: AdamW and its schedule.
        batches: shapes of the batches.
        loop: steps, evaluations, checkpoints; its seed is replaced.
        inference: how answers are read off.
        num_devices: devices to use; None for all.
        dev_questions: evaluate on the first so many questions only; None for all.
        train_questions: also score the first so many training questions after training (how
            often the likeliest mention is the annotated one); 0 for none.
        shown: questions in ``predictions.md``, answered by the runs of the first seed;
            0 for no such file.
    """

    data: tuple[Path, ...]
    dev: Path
    out: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    tau: float | None = None
    model: ReaderConfig = ReaderConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    batches: BatchConfig = BatchConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1", patience=None)
    inference: InferenceConfig = InferenceConfig()
    num_devices: int | None = None
    dev_questions: int | None = None
    train_questions: int = 0
    shown: int = 20

    def objectives(self) -> dict[str, Objective]:
        """The rows of the table."""
        return {
            "First-only": FirstOnly(),
            "MML": MML(),
            "Hard EM": HardEM(tau=self.tau),
            "MML as released in 2019": ReleasedMML(),
        }

    def run(self) -> None:
        runs: dict[str, list[dict[str, float]]] = {}
        for seed in self.seeds:
            for name, objective in self.objectives().items():
                runs.setdefault(name, []).append(self._run(name, objective, seed))
                summary = summarize(runs)
                content = {"flags": flags(self), "devices": _devices(), "runs": runs}
                write_json(self.out / "comparison.json", content | {"summary": summary})
        Console(width=200).print(table(summary))
        learning_curves(
            {name: [history(self._folder(name, s)) for s in self.seeds] for name in runs},
            metrics={"span_loss": "training loss over Z", "f1": "F1 (%)", "em": "exact match (%)"},
            file=self.out / "learning_curves.png",
        )
        if self.shown:
            (self.out / "predictions.md").write_text(self._predictions(list(runs)), "utf-8")

    def _folder(self, name: str, seed: int) -> Path:
        return self.out / f"{name.lower().replace(' ', '-')}-{seed}"

    def _predictions(self, names: Sequence[str]) -> str:
        """A Markdown table: questions, golds and the answer of each objective, right ones bold."""
        subset = Subset(PreparedSplit(self.dev), self.shown)
        answers = {}
        for name in names:
            trained = TrainedReader(
                self._folder(name, self.seeds[0]), "last", batch_size=self.inference.batch_size
            )
            _, answers[name] = subset.evaluate(trained.task, trained.params)
        rows = [["question", "gold", *names], ["---"] * (2 + len(names))]
        for question in subset.questions.values():
            row = [question.question, question.golds[0]]
            for name in names:
                text = answers[name][question.id].text if question.id in answers[name] else ""
                golds = {question.id: question.golds}
                right = METRICS[subset.metric].score({question.id: text}, golds)["em"] > 0
                row.append(f"**{text}**" if right else text)
            rows.append([cell.replace("|", "\\|").replace("\n", " ") for cell in row])
        return "".join("| " + " | ".join(row) + " |\n" for row in rows)

    def _run(self, name: str, objective: Any, seed: int) -> dict[str, float]:
        folder = self._folder(name, seed)
        scores_file = folder / "final.json"
        if scores_file.is_file():
            return json.loads(scores_file.read_text("utf-8"))
        began = time.monotonic()
        shared = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for own in ("seeds", "tau", "train_questions", "shown"):
            shared.pop(own)
        shared |= {"out": folder, "loop": dataclasses.replace(self.loop, seed=seed)}
        Train(objective=objective, **shared).run()
        scores = last_evaluation(folder)
        if self.train_questions:
            trained = TrainedReader(folder, "last", batch_size=self.inference.batch_size)
            for split in map(PreparedSplit, self.data):
                subset = Subset(split, self.train_questions)
                on_train, _ = subset.evaluate(trained.task, trained.params)
                scores |= {f"{split.folder.name}: {m}": value for m, value in on_train.items()}
        scores["minutes"] = (time.monotonic() - began) / 60
        write_json(scores_file, scores)
        return scores


def last_evaluation(run_dir: Path) -> dict[str, float]:
    """The metrics of the last evaluation in a run's ``metrics.jsonl``."""
    evaluations = [line for line in history(run_dir) if line["kind"] == "eval"]
    return {name: value for name, value in evaluations[-1].items() if name != "kind"}


def history(run_dir: Path) -> list[dict[str, Any]]:
    """All records of a run's ``metrics.jsonl``."""
    return [
        json.loads(line) for line in (run_dir / "metrics.jsonl").read_text("utf-8").splitlines()
    ]


def summarize(
    runs: dict[str, list[dict[str, float]]],
) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean and standard deviation (n - 1; 0 for a single run) of every metric, by objective.

    Example:
        >>> summarize({"MML": [{"em": 1.0}, {"em": 3.0}]})
        {'MML': {'em': (2.0, 1.4142135623730951)}}
    """
    return {
        name: {
            metric: (
                statistics.fmean(run[metric] for run in rows),
                statistics.stdev(run[metric] for run in rows) if len(rows) > 1 else 0.0,
            )
            for metric in rows[0]
            if all(metric in run for run in rows)
        }
        for name, rows in runs.items()
    }


def table(summary: dict[str, dict[str, tuple[float, float]]]) -> Table:
    """Objectives as columns, metrics as rows: mean and standard deviation."""
    result = Table(title="After the last step, mean and standard deviation over seeds")
    result.add_column("metric")
    for name in summary:
        result.add_column(name, justify="right")
    for metric in next(iter(summary.values())):
        cells = (summary[name].get(metric, (np.nan, np.nan)) for name in summary)
        result.add_row(metric, *(f"{mean:.1f} ± {spread:.1f}" for mean, spread in cells))
    return result


def _devices() -> str:
    return f"{jax.device_count()} x {jax.devices()[0].device_kind}"


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Compare, prog="python -m experiments.compare", argv=argv)


if __name__ == "__main__":
    main()
