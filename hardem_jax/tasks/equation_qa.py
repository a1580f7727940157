"""Discrete reasoning (Min et al., 2019, section 4.2): from batches to answers.

question -> batch -> model -> P(z | x) over equations -> log P(z) of all of Z -> objective
at test:  batch -> model -> the likeliest equation of Z_tot -> its value -> text
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import Batch, BatchConfig, Pad
from hardem_jax.data.prepared.equations import NumericQuestion
from hardem_jax.distributions.equation import (
    AbilityDistribution,
    EquationDistribution,
    TagDistribution,
)
from hardem_jax.metrics import drop
from hardem_jax.solutions.equations.enumeration import (
    MINUS,
    PERCENT,
    PLUS,
    EquationRules,
    execute_equation,
    format_number,
)
from hardem_jax.tasks.equation_config import InferenceConfig
from hardem_jax.tasks.shared import (
    SPARSITY_THRESHOLDS,
    Progress,
    make_loss,
    names_by_size,
    percentages,
    read_rows,
    size_group,
)

__all__ = ["EquationQA", "EquationReading", "InferenceConfig", "evaluate", "make_loss"]

Array = jax.Array
Distribution = TagDistribution | EquationDistribution | AbilityDistribution
#: Groups of |Z|, see `tasks.shared.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8, 16)
#: All scores that `evaluate` can return.
METRIC_NAMES = frozenset(
    [
        *("em", "f1", "top in Z", "true z", *names_by_size("em", SIZE_BOUNDS)),
        *(f"P<{threshold:g}" for threshold in SPARSITY_THRESHOLDS),
    ]
)


@dataclasses.dataclass(frozen=True)
class EquationReading:
    """What the model says about one question.

    Attributes:
        equations: ``[K, 4]`` int32, the likeliest of Z_tot, best first; none if it is empty.
        log_probs: ``[K]`` float32, their log P(z | x).
        tags: ``[N]`` int32, the likeliest tag of every number.
        count: the likeliest count if the model likes counting better than equations, else -1.
        solutions: ``[Z]`` float32, log P(z | x) of Z, in its order.
        true_solution: index of the true equation in Z, -1 if unknown.
    """

    equations: np.ndarray
    log_probs: np.ndarray
    tags: np.ndarray
    count: int
    solutions: np.ndarray
    true_solution: int


class EquationQA:
    """A model ready to answer: compiled once per bucket, for any parameters of its shape.

    Args:
        graphdef: of the model.
        config: how answers are read off.
        rules: Z_tot.
        batches: buckets to pad to; its batch size is not used. A longer input adds a bucket.
        pad: makes batches of the model's inputs.
        place: puts a batch of numpy arrays on the devices.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        config: InferenceConfig,
        *,
        rules: EquationRules,
        batches: BatchConfig,
        pad: Pad,
        place: Callable[[Batch], Mapping[str, Array]] = lambda batch: batch,
    ):
        self.config = config
        self.rules = rules

        @jax.jit
        def read(params: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
            found: Distribution = nnx.merge(graphdef, params)(batch)
            pairs, lone = rules.table(batch["kinds"]), rules.lone(batch["kinds"])
            equations, log_probs = found.top(config.top, pairs=pairs, lone=lone)
            return {
                "equations": equations,
                "log_probs": log_probs,
                **_decode_tags(found),
                "solutions": found.log_prob(batch["solutions"]),
            }

        self._rows = functools.partial(
            read_rows,
            read,
            batches=dataclasses.replace(batches, batch_size=config.batch_size),
            pad=pad,
            place=place,
        )

    def read(
        self, params: Any, inputs: Sequence, sizes: np.ndarray
    ) -> Iterator[tuple[int, EquationReading]]:
        """Yields ``(index, EquationReading)`` for every input, grouped by length.

        Args:
            params: of the model.
            inputs: what ``pad`` takes, by index.
            sizes: ``[N, 2]`` int, tokens and solutions of each.
        """
        for index, out, entries in self._rows(params, inputs, sizes):
            possible = np.isfinite(out["log_probs"])
            yield (
                index,
                EquationReading(
                    equations=out["equations"][possible],
                    log_probs=out["log_probs"][possible],
                    tags=out["tags"],
                    count=int(out["count"]),
                    solutions=out["solutions"][entries["solutions_where"]],
                    true_solution=int(entries["true_solution"]),
                ),
            )

    def answer(self, question: NumericQuestion, reading: EquationReading) -> str | None:
        """The answer to a question as text.

        None if there is no equation at all, or its value is too large for float64.
        """
        if self.config.decoding == "tags":
            counted = reading.count >= 0
            value = reading.count if counted else _sum_of_tags(question.values, reading.tags)
        elif len(reading.equations):
            [value] = execute_equation(reading.equations[:1], question.table, self.rules)
        else:
            return None
        return format_number(value, self.rules.digits) if np.isfinite(value) else None


def evaluate(
    task: EquationQA,
    params: Any,
    questions: Sequence[NumericQuestion],
    inputs: Sequence,
    sizes: np.ndarray,
    *,
    left_out: int = 0,
    repeated: Mapping[str, int] | None = None,
    progress: Progress = iter,
) -> tuple[dict[str, float], list[str | None]]:
    """Scores of a split, and the answer to each question, in order.

    Args:
        task: a model and how to read it.
        params: of the model.
        questions: with their golds.
        inputs: of the model, one for each question.
        sizes: ``[N, 2]`` int, tokens and solutions of each.
        left_out: questions of the data set that are not in ``questions``; each counts 0.
        repeated: id -> how often the data set repeats a question; ``em`` and ``f1`` count each.
        progress: wraps the iterator over questions.

    Returns:
        ``em`` and ``f1`` in percent of all questions, those left out and those without an answer
        counting 0. Of the questions read, ``em |Z|=...`` by size of Z, and ``top in Z``, percent
        of those with a Z where the most likely equation is in it (EM counts a right value from
        outside Z too). ``P<0.001`` and ``P<0.0001``, percent of all equations of all Z with less
        probability (the paper's sparsity). Where the true equation is known, ``true z``, percent
        of questions with several in Z where the most likely of them is the true one.
    """
    answers: list[str | None] = [None] * len(questions)
    groups = defaultdict(list)
    for name in ("em", "f1"):
        groups[name] += [0.0] * left_out
    for index, reading in progress(task.read(params, inputs, sizes)):
        question = questions[index]
        answer = answers[index] = task.answer(question, reading)
        right = 0.0 if answer is None else drop.exact_match(answer, question.golds)
        times = 1 + (repeated or {}).get(question.id, 0)
        groups["em"] += times * [right]
        groups["f1"] += times * [0.0 if answer is None else drop.f1(answer, question.golds)]
        groups[f"em |Z|={size_group(len(question.equations), SIZE_BOUNDS)}"].append(right)
        if len(question.equations):
            found = [(question.equations == best).all(axis=1) for best in reading.equations[:1]]
            groups["top in Z"].append(np.any(found))
        for threshold in SPARSITY_THRESHOLDS:
            groups[f"P<{threshold:g}"].extend(reading.solutions < np.log(threshold))
        if reading.true_solution >= 0 and len(reading.solutions) > 1:
            groups["true z"].append(int(np.argmax(reading.solutions)) == reading.true_solution)
    return percentages(groups, measure="em", bounds=SIZE_BOUNDS), answers


def _decode_tags(found: Distribution) -> dict[str, Array]:
    """The most likely tag of every number, ``[B, N]``, and ``[B]``, the count or -1."""
    if not isinstance(found, AbilityDistribution):
        tags = found.argmax_tags()
        return {"tags": tags, "count": jnp.full(len(tags), -1)}
    counts = found.ability[:, 1] > found.ability[:, 0]
    count = jnp.where(counts, jnp.argmax(found.counts, axis=-1), -1)
    return {"tags": found.signs.argmax_tags(), "count": count}


def _sum_of_tags(values: np.ndarray, tags: np.ndarray) -> float:
    tags = tags[: len(values)]
    factor = np.select([tags == PLUS, tags == MINUS, tags == PERCENT], [1.0, -1.0, 0.01], 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sum(factor * values))
