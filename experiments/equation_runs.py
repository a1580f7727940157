"""What the commands of `experiments.equation_qa` do: data, model and scores of a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import Mesh

from experiments.compare import ShownAnswer
from experiments.devices import on_mesh, placing, whole_rows
from experiments.equation_models import EquationModel, Tagger
from experiments.model_configs import NAQANetModelConfig, Normalize, TaggerConfig
from experiments.naqanet_model import NAQANetModel
from experiments.runs import RunConfig, Scored, TaskRun
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.data.prepared.equations import NumericQuestion, PreparedQuestions
from hardem_jax.data.readers.drop import OUTSIDE_DROP_NUM
from hardem_jax.errors import InputError
from hardem_jax.metrics import drop
from hardem_jax.objectives import Objective
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.tasks.equation_config import InferenceConfig
from hardem_jax.tasks.equation_qa import METRIC_NAMES, EquationQA, evaluate, make_loss
from hardem_jax.training.checkpoint import load_params

if TYPE_CHECKING:
    from experiments.equation_qa import Compare, EquationSetting, Evaluate

#: Configuration -> the model that it is of.
MODELS: dict[type, type[EquationModel]] = {
    TaggerConfig: Tagger,
    NAQANetModelConfig: NAQANetModel,
}


def start(setting: EquationSetting, objective: Objective, mesh: Mesh) -> TaskRun:
    """See `Setting.start`."""
    split, dev = PreparedQuestions(setting.data), PreparedQuestions(setting.dev)
    if (split.rules, split.numbers) != (dev.rules, dev.numbers):
        raise InputError(f"{setting.dev}: prepared with other rules than {setting.data}")
    questions = list(split.questions)
    if not questions:
        raise InputError(f"{setting.data}: expected questions with a solution, found none")
    dev_questions = list(dev.questions)[: setting.dev_questions]
    if not dev_questions:
        raise InputError(f"{setting.dev}: expected questions to evaluate on, found none")
    model_class = MODELS[type(setting.model)]
    model = model_class.start(setting.model, questions, rules=split.rules, seed=setting.loop.seed)
    inputs: Any = model.inputs(questions)
    dev_inputs: Any = model.inputs(dev_questions)
    usable = [inputs[i] for i in np.flatnonzero(inputs.sizes[:, 1])]
    sizes = inputs.sizes[inputs.sizes[:, 1] > 0]
    training = setting.training_data(
        usable, sizes, model.pad([inputs], setting.batches.num_solutions(sizes)), mesh
    )
    task = EquationQA(
        model.graphdef,
        setting.inference_on(mesh),
        rules=split.rules,
        batches=setting.batches,
        pad=model.pad([dev_inputs], setting.batches.num_solutions(dev_inputs.sizes)),
        place=placing(mesh),
    )

    left_out = len(left_out_of_drop_num(dev)) if setting.dev_questions is None else 0

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


def shown_answers(command: Compare, run_dir: Path, count: int) -> list[ShownAnswer]:
    """See `CompareCommand.answers`."""
    questions = list(PreparedQuestions(command.dev).questions)[:count]
    trained = TrainedEquationModel(run_dir, "last")
    task, inputs = trained.ready(questions, command.inference.batch_size)
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


def score(command: Evaluate, mesh: Mesh) -> Scored:
    """See `EvaluateCommand.score`."""
    split = PreparedQuestions(command.data)
    trained = TrainedEquationModel(
        command.run_dir, command.checkpoint, mesh, normalize=command.normalize
    )
    if (split.rules, split.numbers) != (trained.rules, trained.numbers):
        raise InputError(f"{command.data}: prepared with other rules than {command.run_dir}")
    questions = list(split.questions)
    if not questions:
        raise InputError(f"{command.data}: expected questions, found none")
    task, inputs = trained.ready(questions, command.batch_size, decoding=command.decoding)
    left_out = left_out_of_drop_num(split)
    scores, answers = evaluate(
        task,
        trained.params,
        questions,
        inputs,
        inputs.sizes,
        left_out=len(left_out),
        repeated=split.repeated,
        progress=command.progress(len(questions), "questions"),
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
        self._model = MODELS[type(model)].restore(model, run_dir, config, rules=self.rules)
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
