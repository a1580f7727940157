"""Train, evaluate and predict for discrete reasoning; `experiments.drop` adds ``prepare``.

A run folder holds ``config.json`` (every flag, and the shape of the model), the files of
the model's vocabulary, ``metrics.jsonl`` and the checkpoints ``best`` and ``last``.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import numpy as np
from rich.console import Console
from rich.table import Table
from tyro.conf import subcommand

from experiments.cli import flags
from experiments.equation_models import EquationModel, TaggerConfig
from experiments.equation_text import describe, left_out, mentions
from experiments.naqanet_model import NAQANetModelConfig
from experiments.reader import fields_of, has_begun, read_run_config
from hardem_jax.data.batches import BatchConfig, TrainingPlan, training_batches
from hardem_jax.data.drop import NumericExample
from hardem_jax.data.equations import NumericQuestion, PreparedQuestions, numeric_question
from hardem_jax.data.reading import read_text
from hardem_jax.data.records import write_json
from hardem_jax.errors import InputError
from hardem_jax.objectives import MML, FirstOnly, HardEM
from hardem_jax.solutions.equations import EquationRules, execute_equation, format_number
from hardem_jax.solutions.numbers import NumberConfig
from hardem_jax.tasks.equation_qa import EquationQA, InferenceConfig, evaluate, make_loss
from hardem_jax.training.checkpoint import load_params
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig

_Tagger = Annotated[TaggerConfig, subcommand("tagger")]
_NAQANet = Annotated[NAQANetModelConfig, subcommand("naqanet")]
MODELS = {config.__name__: config for config in (TaggerConfig, NAQANetModelConfig)}


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        data: prepared training split.
        dev: prepared split to evaluate on, made with the same rules.
        out: folder of the run.
        model: the model.
        objective: which equations are trusted.
        optimizer: AdamW and its schedule.
        batches: shapes of the batches; there are no negatives here.
        loop: steps, evaluations, checkpoints.
        inference: how answers are read off.
        num_devices: devices to use; None for all.
        dev_questions: evaluate on the first so many questions only; None for all.
    """

    data: Path
    dev: Path
    out: Path
    model: _Tagger | _NAQANet = TaggerConfig()
    objective: HardEM | MML | FirstOnly = HardEM()
    optimizer: OptimizerConfig = OptimizerConfig()
    batches: BatchConfig = BatchConfig(
        batch_size=14, buckets=(128, 192, 256, 320, 384, 448, 512), negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em")
    inference: InferenceConfig = InferenceConfig()
    num_devices: int | None = None
    dev_questions: int | None = None

    def run(self) -> None:
        mesh = data_mesh(self.num_devices)
        split, dev = PreparedQuestions(self.data), PreparedQuestions(self.dev)
        if (split.rules, split.numbers) != (dev.rules, dev.numbers):
            raise InputError(f"{self.dev}: prepared with other rules than {self.data}")
        questions = list(split.questions)
        if not questions:
            raise InputError(f"{self.data}: expected questions with a solution, found none")
        dev_questions = list(dev.questions)[: self.dev_questions]
        if not dev_questions:
            raise InputError(f"{self.dev}: expected questions to evaluate on, found none")
        model = self.model.start(questions, rules=split.rules, seed=self.loop.seed)
        inputs, dev_inputs = model.inputs(questions), model.inputs(dev_questions)
        if not has_begun(self.out):  # a run that goes on keeps what it was started with
            save_run(self.out, self, model, split)
        usable = [inputs[i] for i in np.flatnonzero(inputs.sizes[:, 1])]
        sizes = inputs.sizes[inputs.sizes[:, 1] > 0]
        plan = TrainingPlan(
            sizes[:, 0],
            np.zeros(0, np.int32),
            self.batches,
            num_steps=self.loop.num_steps,
            seed=self.loop.seed,
        )
        batches = training_batches(
            usable,
            [],
            plan,
            pad=model.pad([inputs], self.batches.num_solutions(sizes)),
            shard=(jax.process_index(), jax.process_count()),
        )
        task = EquationQA(
            model.graphdef,
            self.inference,
            rules=split.rules,
            batches=self.batches,
            pad=model.pad([dev_inputs], self.batches.num_solutions(dev_inputs.sizes)),
            place=lambda batch: place_batch(batch, mesh),
        )
        print(
            f"{len(usable)} questions ({len(questions) - len(usable)} more whose equations were "
            f"all cut); {plan.steps_per_epoch} steps per epoch; {len(dev_questions)} questions to "
            f"evaluate on; {self.objective}"
        )
        result = train(
            loss_fn=make_loss(model.graphdef, self.objective),
            params=model.params,
            optimizer=self.optimizer,
            batches=iter(batches),
            evaluate=lambda params: evaluate(
                task, params, dev_questions, dev_inputs, dev_inputs.sizes
            )[0],
            config=self.loop,
            directory=self.out,
            mesh=mesh,
            fingerprint={
                "data": json.dumps(split.meta, sort_keys=True),
                "dev": json.dumps(dev.meta, sort_keys=True),
                **{name: str(getattr(self, name)) for name in ("model", "objective", "batches")},
                **{name: str(getattr(self, name)) for name in ("inference", "dev_questions")},
            },
        )
        print(f"best {self.loop.monitor} {result.best_metric} at step {result.best_step}")


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a trained model with the official metric.

    Attributes:
        run_dir: folder of the run.
        data: prepared split.
        checkpoint: "best" or "last".
        predictions: write the answers here, as one JSON list in the order of the questions.
        batch_size: questions read at once.
        decoding: another way to read answers off than that of the run.
    """

    run_dir: Path
    data: Path
    checkpoint: Literal["best", "last"] = "best"
    predictions: Path | None = None
    batch_size: int = 32
    decoding: Literal["equation", "tags"] | None = None

    def run(self) -> None:
        split = PreparedQuestions(self.data)
        trained = TrainedEquationModel(self.run_dir, self.checkpoint)
        if (split.rules, split.numbers) != (trained.rules, trained.numbers):
            raise InputError(f"{self.data}: prepared with other rules than {self.run_dir}")
        questions = list(split.questions)
        if not questions:
            raise InputError(f"{self.data}: expected questions, found none")
        task, inputs = trained.ready(questions, self.batch_size, decoding=self.decoding)
        scores, answers = evaluate(task, trained.params, questions, inputs, inputs.sizes)
        table = Table(title=f"{self.data.name}: {len(questions)} questions")
        table.add_column("metric")
        table.add_column("%", justify="right")
        for name, value in scores.items():
            table.add_row(name, f"{value:.1f}")
        Console().print(table)
        write_json(self.run_dir / f"scores-{self.data.name}.json", scores)
        if self.predictions is not None:
            rows = [
                {"id": question.id, "question": question.question, "answer": answer}
                for question, answer in zip(questions, answers, strict=True)
            ]
            write_json(self.predictions, rows)


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained model a question about a passage of your own.

    Attributes:
        run_dir: folder of the run.
        passage: text file.
        question: the question.
        checkpoint: "best" or "last".
    """

    run_dir: Path
    passage: Path
    question: str
    checkpoint: Literal["best", "last"] = "best"

    def run(self) -> None:
        if not self.question.strip():
            raise InputError("--question: expected a question, found nothing but blanks")
        text = read_text(self.passage)
        if not text.strip():
            raise InputError(f"{self.passage}: expected text, found an empty document")
        trained = TrainedEquationModel(self.run_dir, self.checkpoint)
        example = NumericExample("question", str(self.passage), text, self.question, None, ())
        question = numeric_question(example, trained.numbers, trained.rules)
        task, inputs = trained.ready([question], batch_size=1)
        notes = list(left_out(question, inputs[0].kinds, trained.numbers))
        [(_, reading)] = task.read(trained.params, inputs, inputs.sizes)
        if not len(reading.equations):
            problem = f"{self.passage}: expected numbers to calculate with, found none"
            raise InputError("; ".join([problem, *notes]))
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        values = execute_equation(reading.equations, question.table, trained.rules)
        for rank, (equation, value) in enumerate(zip(reading.equations, values, strict=True)):
            probability = np.exp(reading.log_probs[rank])
            answer = "too large"
            if np.isfinite(value):
                answer = format_number(value, trained.rules.digits)
            formula = describe(equation, question, trained.rules)
            line = f"{probability:6.1%}  {answer} = {formula}"
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            for sentence in mentions(equation, question) if rank == 0 else ():
                console.print(f"        {sentence}", markup=False)


class TrainedEquationModel:
    """What a run folder holds, ready to answer.

    Attributes:
        rules, numbers: those of the run's data.
        params: of the chosen checkpoint.

    Raises:
        InputError: if the folder holds no such run.
    """

    def __init__(self, run_dir: Path, checkpoint: str):
        config = read_run_config(run_dir)
        if "equation_model" not in config:
            raise InputError(f"{run_dir}: expected a run of experiments.drop, found another")
        given = config["flags"]
        model_config = MODELS[given["model"]["type"]](**fields_of(given["model"]))
        self._model: EquationModel = model_config.restore(run_dir, config["equation_model"])
        self._inference = InferenceConfig(**fields_of(given["inference"]))
        self._batches = BatchConfig(**fields_of(given["batches"]))
        self.rules = EquationRules(**config["rules"])
        self.numbers = NumberConfig(**config["numbers"])
        self.params = load_params(run_dir / checkpoint, self._model.params)

    def ready(
        self, questions: Sequence[NumericQuestion], batch_size: int, *, decoding: str | None = None
    ) -> tuple[EquationQA, Any]:
        """The task and the inputs for these questions."""
        inputs = self._model.inputs(questions)
        changes: dict[str, Any] = {"batch_size": batch_size}
        if decoding is not None:
            changes["decoding"] = decoding
        task = EquationQA(
            self._model.graphdef,
            dataclasses.replace(self._inference, **changes),
            rules=self.rules,
            batches=self._batches,
            pad=self._model.pad([inputs], self._batches.num_solutions(inputs.sizes)),
        )
        return task, inputs


def save_run(run_dir: Path, config: Train, model: EquationModel, split: PreparedQuestions) -> None:
    """Write what `TrainedEquationModel` needs beside the checkpoints."""
    run_dir.mkdir(parents=True, exist_ok=True)
    content = {
        "flags": flags(config),
        "equation_model": model.save(run_dir),
        "rules": split.meta["rules"],
        "numbers": split.meta["numbers"],
    }
    write_json(run_dir / "config.json", content)
