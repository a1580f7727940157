"""Train, evaluate and predict for discrete reasoning; `experiments.drop` adds ``prepare``.

What all tasks share is in `experiments.runs`.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jax.sharding import Mesh
from rich.console import Console
from tyro.conf import subcommand

from experiments.compare import CompareCommand, ShownAnswer
from experiments.devices import on_mesh, placing, whole_rows
from experiments.equation_models import EquationModel, Normalize, TaggerConfig
from experiments.equation_text import describe, left_out, mentions
from experiments.naqanet_model import NAQANetModelConfig
from experiments.runs import (
    EvaluateCommand,
    RunConfig,
    Scored,
    Setting,
    TaskRun,
    TrainCommand,
)
from hardem_jax.analysis.release_2019 import ReleasedMML
from hardem_jax.data.batches import BatchConfig
from hardem_jax.data.drop import OUTSIDE_DROP_NUM, NumericExample
from hardem_jax.data.equations import NumericQuestion, PreparedQuestions, numeric_question
from hardem_jax.data.reading import read_text
from hardem_jax.data.records import json_text
from hardem_jax.errors import InputError, printable
from hardem_jax.metrics import drop
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.solutions.equations import EquationRules, execute_equation, format_number
from hardem_jax.solutions.numbers import NumberConfig
from hardem_jax.tasks.equation_qa import (
    METRIC_NAMES,
    EquationQA,
    InferenceConfig,
    evaluate,
    make_loss,
)
from hardem_jax.training.checkpoint import load_params
from hardem_jax.training.fingerprint import may_change
from hardem_jax.training.loop import LoopConfig

_Tagger = Annotated[TaggerConfig, subcommand("tagger")]
_NAQANet = Annotated[NAQANetModelConfig, subcommand("naqanet")]
MODELS = (TaggerConfig, NAQANetModelConfig)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EquationSetting(Setting):
    """Everything about a run but its objective.

    Attributes:
        data: prepared training split.
        dev: prepared split to evaluate on, made with the same rules.
        batches: shapes of the batches; there are no negatives here.
    """

    data: Path = may_change("identified by contents")
    dev: Path = may_change("identified by contents")
    model: _Tagger | _NAQANet = TaggerConfig()
    batches: BatchConfig = BatchConfig(
        batch_size=14, buckets=(128, 192, 256, 320, 384, 448, 512), negatives=0
    )
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em")
    inference: InferenceConfig = InferenceConfig()

    def start(self, objective: Objective, mesh: Mesh) -> TaskRun:
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
        usable = [inputs[i] for i in np.flatnonzero(inputs.sizes[:, 1])]
        sizes = inputs.sizes[inputs.sizes[:, 1] > 0]
        training = self.training_data(
            usable, sizes, model.pad([inputs], self.batches.num_solutions(sizes)), mesh
        )
        task = EquationQA(
            model.graphdef,
            self.inference_on(mesh),
            rules=split.rules,
            batches=self.batches,
            pad=model.pad([dev_inputs], self.batches.num_solutions(dev_inputs.sizes)),
            place=placing(mesh),
        )

        left_out = len(left_out_of_drop_num(dev)) if self.dev_questions is None else 0

        def score(params: Any) -> dict[str, float]:
            return evaluate(
                task,
                params,
                dev_questions,
                dev_inputs,
                dev_inputs.sizes,
                left_out=left_out,
                repeated=dev.repeated,
            )[0]

        def save(run_dir: Path) -> dict[str, Any]:
            content = {name: split.meta[name] for name in ("rules", "numbers")}
            return {"equation_model": model.save(run_dir), **content}

        return TaskRun(
            loss_fn=make_loss(model.graphdef, objective),
            params=model.params,
            training=training,
            evaluate=score,
            metric_names=METRIC_NAMES,
            data={
                "data": json.dumps(split.meta, sort_keys=True),
                "dev": json.dumps(dev.meta, sort_keys=True),
            },
            about=(
                f"{len(usable)} questions ({len(questions) - len(usable)} more whose equations "
                f"were all cut); {training.plan.steps_per_epoch} steps per epoch; "
                f"{len(dev_questions)} questions to evaluate on"
            ),
            save=save,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(EquationSetting, TrainCommand):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which equations are trusted.
    """

    objective: HardEM | MML | FirstOnly | ReleasedMML = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(EquationSetting, CompareCommand):
    """Train First-only, MML and hard EM, and tabulate them."""

    TRAIN = Train
    CURVES = {"loss": "training loss over Z", "em": "exact match (%)"}

    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="em", patience=None)

    def answers(self, run_dir: Path, count: int) -> list[ShownAnswer]:
        questions = list(PreparedQuestions(self.dev).questions)[:count]
        trained = TrainedEquationModel(run_dir, "last")
        task, inputs = trained.ready(questions, self.inference.batch_size)
        _, answers = evaluate(task, trained.params, questions, inputs, inputs.sizes)
        return [
            ShownAnswer(
                question=question.question,
                gold=question.golds[0]["number"],
                answer=answer or "",
                right=answer is not None and drop.exact_match(answer, question.golds) > 0,
            )
            for question, answer in zip(questions, answers, strict=True)
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained model with the official metric.

    Attributes:
        predictions: write the answers here, as one JSON list in the order of the questions.
        decoding: another way to read answers off than that of the run.
        normalize: what P(z | x) adds up to 1 over, if not that of the run. Answers do not depend
            on it, the shares of improbable solutions do.
    """

    predictions: Path | None = None
    decoding: Literal["equation", "tags"] | None = None
    normalize: Normalize | None = None

    def score(self, mesh: Mesh) -> Scored:
        split = PreparedQuestions(self.data)
        trained = TrainedEquationModel(
            self.run_dir, self.checkpoint, mesh, normalize=self.normalize
        )
        if (split.rules, split.numbers) != (trained.rules, trained.numbers):
            raise InputError(f"{self.data}: prepared with other rules than {self.run_dir}")
        questions = list(split.questions)
        if not questions:
            raise InputError(f"{self.data}: expected questions, found none")
        task, inputs = trained.ready(questions, self.batch_size, decoding=self.decoding)
        left_out = left_out_of_drop_num(split)
        scores, answers = evaluate(
            task,
            trained.params,
            questions,
            inputs,
            inputs.sizes,
            left_out=len(left_out),
            repeated=split.repeated,
            progress=self.progress(len(questions), "questions"),
        )
        rows = [
            {"id": question.id, "question": question.question, "answer": answer}
            for question, answer in zip(questions, answers, strict=True)
        ]
        count = len(questions) + sum(split.repeated.values())
        return Scored(count, left_out, scores, json_text(rows))


def left_out_of_drop_num(split: PreparedQuestions) -> dict[str, str]:
    """Id and reason of the questions of DROP_num, those about numbers, that the split lacks."""
    return {id: why for id, why in split.left_out.items() if why not in OUTSIDE_DROP_NUM}


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
            print(f"note: {printable(note)}", file=sys.stderr)
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        values = execute_equation(reading.equations, question.table, trained.rules)
        for rank, (equation, value) in enumerate(zip(reading.equations, values, strict=True)):
            probability = np.exp(reading.log_probs[rank])
            answer = "too large"
            if np.isfinite(value):
                answer = format_number(value, trained.rules.digits)
            formula = describe(equation, question, trained.rules)
            line = printable(f"{probability:6.1%}  {answer} = {formula}")
            console.print(line, style="bold" if rank == 0 else None, markup=False)
            for sentence in mentions(equation, question) if rank == 0 else ():
                console.print(f"        {printable(sentence)}", markup=False)


class TrainedEquationModel:
    """What a run folder holds, ready to answer.

    Args:
        run_dir: the folder.
        checkpoint: "best" or "last".
        mesh: devices to compute on; None for the first.
        normalize: other than the run's; None for the run's.

    Attributes:
        rules, numbers: those of the run's data.
        params: of the chosen checkpoint.

    Raises:
        InputError: if the folder holds no such run.
    """

    def __init__(
        self,
        run_dir: Path,
        checkpoint: str,
        mesh: Mesh | None = None,
        *,
        normalize: Normalize | None = None,
    ):
        config = RunConfig(run_dir, "equation_model")
        model = config.flags("model", *MODELS)
        if normalize is not None:
            model = dataclasses.replace(model, normalize=normalize)
        self._inference = config.flags("inference", InferenceConfig)
        self._batches = config.flags("batches", BatchConfig)
        self.rules = config.section("rules", EquationRules)
        self.numbers = config.section("numbers", NumberConfig)
        self._model: EquationModel = model.restore(run_dir, config, rules=self.rules)
        self._mesh = mesh
        self.params = load_params(run_dir / checkpoint, on_mesh(self._model.params, mesh))

    def ready(
        self, questions: Sequence[NumericQuestion], batch_size: int, *, decoding: str | None = None
    ) -> tuple[EquationQA, Any]:
        """The task and the inputs for these questions."""
        inputs = self._model.inputs(questions)
        changes: dict[str, Any] = {"batch_size": whole_rows(batch_size, self._mesh)}
        if decoding is not None:
            changes["decoding"] = decoding
        task = EquationQA(
            self._model.graphdef,
            dataclasses.replace(self._inference, **changes),
            rules=self.rules,
            batches=self._batches,
            pad=self._model.pad([inputs], self._batches.num_solutions(inputs.sizes)),
            place=placing(self._mesh),
        )
        return task, inputs
