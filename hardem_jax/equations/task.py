"""Discrete reasoning (Min et al., 2019, section 4.2): equations over the numbers of a text.

question -> batch -> model -> P(z | x) over equations -> log P(z) of all of Z -> objective
at test:  batch -> model -> the most likely equation of Z_tot -> its value -> text
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import Inputs
from hardem_jax.data.batching.plans import Plan
from hardem_jax.equations import metrics as drop
from hardem_jax.equations.config import EquationInference, NAQANetModelConfig, TaggerConfig
from hardem_jax.equations.distribution import AbilityDistribution
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.inputs import at_slots
from hardem_jax.equations.models import NAQANetModel, NumericQuestions, TaggerModel
from hardem_jax.equations.solutions.enumeration import execute_equation, format_number
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import MINUS, NONE, PERCENT, PLUS, EquationRules
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.task.base import (
    SPARSITY_THRESHOLDS,
    LossFn,
    ShownAnswer,
    Task,
    make_loss,
    names_by_size,
    of_all_questions,
    percentages,
    size_group,
)
from hardem_jax.task.run_config import RunConfig

Array = jax.Array
#: Groups of |Z|, see `task.base.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8, 16)
#: All scores that a split can have.
METRIC_NAMES = frozenset(
    [
        *("em", "f1", "top in Z", "true z", *names_by_size("em", SIZE_BOUNDS)),
        *(f"P<{threshold:g}" for threshold in SPARSITY_THRESHOLDS),
    ]
)
_SHARES = {"top in Z": "questions with a Z", "true z": "Z of several, one of them true"}
_SHARES |= {f"P<{threshold:g}": "equations in Z" for threshold in SPARSITY_THRESHOLDS}


@dataclasses.dataclass(frozen=True)
class EquationReading:
    """What the model says about one question.

    Attributes:
        equations: ``[K, 4]`` int32, the most likely of Z_tot, best first; none if it is empty.
        log_probs: ``[K]`` float32, their log P(z | x).
        tags: ``[N]`` int32, the most likely tag of every number up to the last one read.
        count: the most likely count if the model likes counting better than equations, else -1.
        solutions: ``[Z]`` float32, log P(z | x) of Z, in its order.
        true_solution: index of the true equation in Z, -1 if unknown.
    """

    equations: np.ndarray
    log_probs: np.ndarray
    tags: np.ndarray
    count: int
    solutions: np.ndarray
    true_solution: int


@dataclasses.dataclass(frozen=True)
class EquationTask(Task[NumericQuestions, EquationReading, list[str | None]]):
    """Answers are the values of equations.

    Attributes:
        inference: how answers are read off.
        rules: Z_tot.
        numbers: what counts as a number.
    """

    NAME = "equations"
    QUESTIONS = NumericQuestions
    MODELS = {TaggerConfig: TaggerModel, NAQANetModelConfig: NAQANetModel}
    SHARES = _SHARES
    PACKS = True

    inference: EquationInference
    rules: EquationRules
    numbers: NumberConfig = NumberConfig()

    def __post_init__(self) -> None:
        if self.inference.decoding == "tags" and self.rules.percent == "factor":
            raise InputError("decoding: expected equation, as percentages multiply, found tags")

    @classmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        return cls(
            dataclasses.replace(run.flags("inference", EquationInference), **inference),
            run.section("rules", EquationRules),
            run.section("numbers", NumberConfig),
        )

    def save(self, data: NumericQuestions) -> dict[str, Any]:
        del data  # whose rules and numbers they are
        return {
            "rules": dataclasses.asdict(self.rules),
            "numbers": dataclasses.asdict(self.numbers),
        }

    def check(self, data: NumericQuestions, model: Any, other: str) -> None:
        del model
        if (data.rules, data.numbers) != (self.rules, self.numbers):
            raise InputError(f"{data.place}: prepared with other rules than {other}")

    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        del plan
        return make_loss(graphdef, objective)

    def decode(self, found: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        pairs, lone = self.rules.table(batch["kinds"]), self.rules.lone(batch["kinds"])
        equations, log_probs = found.top(self.inference.top, pairs=pairs, lone=lone)
        return {
            "equations": equations,
            "log_probs": log_probs,
            **_decode_tags(found),
            "solutions": found.log_prob(batch["solutions"]),
        }

    def reading(
        self, inputs: Any, index: int, out: Mapping[str, Any], entries: Mapping[str, Any]
    ) -> EquationReading:
        read, possible = inputs[index], np.isfinite(out["log_probs"])
        tags = np.full(read.slots.max(initial=-1) + 1, NONE)
        tags[read.slots] = out["tags"][: len(read.slots)]
        return EquationReading(
            equations=at_slots(out["equations"][possible], read.slots),
            log_probs=out["log_probs"][possible],
            tags=tags,
            count=int(out["count"]),
            solutions=out["solutions"][entries["solutions_where"]],
            true_solution=int(entries["true_solution"]),
        )

    def answer(self, question: NumericQuestion, reading: EquationReading) -> str | None:
        """The answer to a question as text.

        None if there is no equation at all, or its value is too large for float64.
        """
        if self.inference.decoding == "tags":
            counted = reading.count >= 0
            value = reading.count if counted else _sum_of_tags(question.values, reading.tags)
        elif len(reading.equations):
            [value] = execute_equation(reading.equations[:1], question.table, self.rules)
        else:
            return None
        return format_number(value, self.rules.digits) if np.isfinite(value) else None

    def score(
        self, data: NumericQuestions, readings: Iterator[tuple[int, EquationReading]]
    ) -> tuple[dict[str, float], list[str | None]]:
        """Scores of a split, and the answer to each question, in order.

        Returns:
            ``em`` and ``f1`` in percent of all questions, those left out and those without an
            answer counting 0. Of the questions read, ``em |Z|=...`` by size of Z, and ``top in Z``,
            percent of those with a Z where the most likely equation is in it (EM counts a correct
            value from outside Z too). ``P<0.001`` and ``P<0.0001``, percent of all equations of all
            Z with less probability (the paper's sparsity). Where the true equation is known,
            ``true z``, percent of questions with several in Z whose most likely is the true one.
        """
        answers: list[str | None] = [None] * len(data.questions)
        groups = defaultdict(list)
        for index, reading in readings:
            question = data.questions[index]
            answer = answers[index] = self.answer(question, reading)
            correct = _score(drop.exact_match, answer, question.golds)
            groups[f"em |Z|={size_group(len(question.equations), SIZE_BOUNDS)}"].append(correct)
            if len(question.equations):
                found = [(question.equations == best).all(axis=1) for best in reading.equations[:1]]
                groups["top in Z"].append(np.any(found))
            for threshold in SPARSITY_THRESHOLDS:
                groups[f"P<{threshold:g}"].extend(reading.solutions < np.log(threshold))
            if reading.true_solution >= 0 and len(reading.solutions) > 1:
                groups["true z"].append(int(np.argmax(reading.solutions)) == reading.true_solution)
        official = self.by_question(data, answers)
        return percentages(groups, official, measure="em", bounds=SIZE_BOUNDS), answers

    def by_question(
        self, data: NumericQuestions, answers: list[str | None]
    ) -> dict[str, np.ndarray]:
        outcomes = defaultdict(list)
        for question, answer in zip(data.questions, answers, strict=True):
            for golds in (question.golds, *data.repeated.get(question.id, ())):
                outcomes["em"].append(_score(drop.exact_match, answer, golds))
                outcomes["f1"].append(_score(drop.f1, answer, golds))
        return of_all_questions(outcomes, len(data.scored_ids()) - data.count)

    def metric_names(self, data: NumericQuestions) -> frozenset[str]:
        del data
        return METRIC_NAMES

    def describe(self, data: NumericQuestions, inputs: Inputs) -> str:
        found = sum(len(question.equations) > 0 for question in data.questions)
        usable = int((inputs.sizes[:, 1] > 0).sum())
        lost = f" ({found - usable} more lost all of theirs to cuts)" if found > usable else ""
        return f"{len(data.questions)} questions, {usable} with a solution{lost}"

    def shown(self, data: NumericQuestions, answers: list[str | None]) -> list[ShownAnswer]:
        return [
            ShownAnswer(
                question=question.question,
                gold=question.golds[0]["number"],
                answer=answer or "",
                correct=_score(drop.exact_match, answer, question.golds) > 0,
            )
            for question, answer in zip(data.questions, answers, strict=True)
        ]


def _score(metric: Callable[..., float], answer: str | None, golds: Sequence[Any]) -> float:
    return 0.0 if answer is None else metric(answer, golds)


def _decode_tags(found: Any) -> dict[str, Array]:
    """The most likely tag of every number, ``[B, N]``, and ``[B]``, the count or -1."""
    if not isinstance(found, AbilityDistribution):
        tags = found.argmax_tags()
        return {"tags": tags, "count": jnp.full(len(tags), -1)}
    counts = found.ability[:, 1] > found.ability[:, 0]
    count = jnp.where(counts, jnp.argmax(found.counts, axis=-1), -1)
    return {"tags": found.signs.argmax_tags(), "count": count}


def _sum_of_tags(values: np.ndarray, tags: np.ndarray) -> float:
    factor = np.select([tags == PLUS, tags == MINUS, tags == PERCENT], [1.0, -1.0, 0.01], 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sum(factor * values[: len(tags)]))


TASK = EquationTask
