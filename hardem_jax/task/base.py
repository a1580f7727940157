"""What a task is: its questions, its models, its loss and its scores.

    training:  data -> Model.inputs -> Model.pad -> batch -> Task.loss -> objective
    at test:   ... batch -> Task.decode -> Task.reading -> Task.score

`start.start` makes the first line ready for the training loop, `trained.BatchReader` is the second,
and `trained.Trained` is one with the parameters that a run folder holds.
"""

import abc
import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax import losses
from hardem_jax.data.batching.padding import BatchConfig, Inputs, Pad
from hardem_jax.data.batching.plans import Plan, TrainingPlan
from hardem_jax.encoders.base import token_metrics
from hardem_jax.errors import InputError
from hardem_jax.objectives import Objective
from hardem_jax.task.run_config import RunConfig
from hardem_jax.training.run_progress import Mean
from hardem_jax.training.state import MEMORY
from hardem_jax.training.step import LossFn

Array = jax.Array
#: What is remembered of an input: the index in its Z of the most likely z when it was last seen.
BEST_Z = "best_z"
#: It was not seen yet.
NOT_SEEN = -1
#: The most likely z was in another window of its group.
ELSEWHERE = -2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Questions:
    """Questions with their Z, to train on or to answer. Tasks add what their models read.

    Attributes:
        questions: by index, in the order of the source.
        left_out: id -> reason, for every other question of the data set; each counts 0.
        scored: whether the golds are known, so that answers can be scored.
        place: the folder they come from, for messages.
        meta: what determined them, as JSON values; a run is not continued on other data.
    """

    questions: Sequence[Any]
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scored: bool = True
    place: str = ""
    meta: Any = None

    @property
    def count(self) -> int:
        """Questions as the official metric counts them, without those left out."""
        return len(self.questions)

    def scored_ids(self) -> list[str]:
        """The id of each score of `Task.by_question`."""
        return [*(question.id for question in self.questions), *self.left_out]

    def set_sizes(self) -> Sequence[int] | None:
        """|Z| of each question; None if it is not known."""
        return None

    def scored_sizes(self) -> list[int | None]:
        """|Z| of the question of each score of `Task.by_question`; None where scores by |Z| leave
        it out: it was not read, or is repeated."""
        sizes = self.set_sizes() or [None] * len(self.questions)
        found = {q.id: size for q, size in zip(self.questions, sizes, strict=True)}
        return [found.pop(id, None) for id in self.scored_ids()]

    def first(self, count: int | None) -> Self:
        """The first ``count`` questions, none of them left out; all, unchanged, if None."""
        if count is None:
            return self
        return self.select(range(min(count, len(self.questions))))

    def select(self, indices: Sequence[int]) -> Self:
        """The questions at these indices, none of them left out."""
        questions = [self.questions[index] for index in indices]
        return dataclasses.replace(self, questions=questions, left_out={})


@dataclasses.dataclass(frozen=True)
class Model(abc.ABC):
    """A module, and the way from questions to its batches.

    Attributes:
        graphdef: of an `nnx.Module` whose call on a batch gives a distribution over solutions.
        params: its values; shapes where a checkpoint holds the values.
    """

    graphdef: nnx.GraphDef
    params: Any

    @classmethod
    @abc.abstractmethod
    def start(cls, config: Any, data: Any, *, seed: int) -> Self:
        """A new model.

        Args:
            config: of the model.
            data: the `Questions` it will be trained on.
            seed: of the initial parameters.

        Raises:
            InputError: the model cannot express the data's Z, or a file that it needs is at fault.
        """

    @classmethod
    @abc.abstractmethod
    def restore(cls, config: Any, run: RunConfig) -> Self:
        """A run's model with shapes for parameters, from what `save` wrote and returned."""

    @abc.abstractmethod
    def inputs(self, data: Any) -> Inputs:
        """The questions as inputs, by index."""

    @abc.abstractmethod
    def pad(self, inputs: Any, num_solutions: int) -> Pad:
        """Makes batches of these inputs with room for ``num_solutions`` solutions."""

    @abc.abstractmethod
    def save(self, run_dir: Path) -> dict[str, Any]:
        """Writes the files that `restore` needs; returns what it needs of ``config.json``."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the longest input that the module reads; None if there is no limit."""
        return None

    def check_lengths(self, buckets: Sequence[int]) -> None:
        """Raises `InputError` if inputs may be longer than the module reads.

        Args:
            buckets: of the batches; they limit inputs that the model does not cut.
        """
        del buckets

    def check_inputs(self, inputs: Inputs, place: str) -> None:
        """Raises `InputError` if an input, from ``place``, is longer than the module reads."""
        longest, limit = int(inputs.sizes[:, 0].max(initial=0)), self.max_tokens
        if limit is not None and longest > limit:
            raise InputError(
                f"{place}: expected inputs of at most {limit} tokens, the positions of the "
                f"encoder, found one of {longest}"
            )


@dataclasses.dataclass(frozen=True)
class ShownAnswer:
    """A model's answer as people read it, and whether the metric accepts it."""

    question: str
    gold: str
    answer: str
    correct: bool


D = TypeVar("D", bound=Questions)
R = TypeVar("R")
A = TypeVar("A")


class Task(abc.ABC, Generic[D, R, A]):
    """What is specific to a task: D its questions, R what is read off an input, A its answers.

    Implementations are frozen dataclasses of the options that do not belong to a model.

    Attributes:
        NAME: of the task in ``config.json`` and in messages.
        UNIT: what inputs are called in messages.
        QUESTIONS: the type of D.
        MODELS: type of a configuration -> the model it configures.
        SHARES: score -> what it is a share of, if not of all questions; those by |Z| need no entry.
        PACKS: whether ``inference`` has ``packed_tokens``, the length of the rows that inputs are
            packed into; None pads them.
        WHOLE_Z: whether evaluation reads all solutions of an input, whatever ``max_solutions`` of
            the batches allows in training.
        inference: how answers are read off; has a ``batch_size``.
    """

    NAME: ClassVar[str]
    UNIT: ClassVar[str] = "questions"
    QUESTIONS: ClassVar[type[Questions]]
    MODELS: ClassVar[Mapping[type, type[Model]]]
    SHARES: ClassVar[Mapping[str, str]] = {}
    PACKS: ClassVar[bool] = False
    WHOLE_Z: ClassVar[bool] = False
    inference: Any

    @classmethod
    @abc.abstractmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        """Restores a run's task. Keyword arguments override fields of the run's ``inference``."""

    @abc.abstractmethod
    def save(self, data: D) -> dict[str, Any]:
        """What `restore` needs of ``config.json`` beyond the flags."""

    @abc.abstractmethod
    def check(self, data: D, model: Any, other: str) -> None:
        """Raises `InputError` if the data were prepared in another way than those of ``other``."""

    def packed_tokens(self) -> int | None:
        """Length of the rows that inputs are packed into to be read; None if they are padded."""
        return self.inference.packed_tokens if self.PACKS else None

    def plan(self, data: D, inputs: Inputs, batches: BatchConfig, **options: Any) -> Plan:
        """Which inputs make up which step; ``options`` as for `TrainingPlan`."""
        del data
        return TrainingPlan(inputs.sizes, batches, **options)

    @abc.abstractmethod
    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        """The loss of a batch of the plan, see `make_loss`."""

    @abc.abstractmethod
    def decode(self, found: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """What to read off the distribution of a batch; traced, one row per row of the batch."""

    @abc.abstractmethod
    def reading(
        self, inputs: Any, index: int, out: Mapping[str, Any], entries: Mapping[str, Any]
    ) -> R:
        """What the model says about an input, from its rows of `decode` and of the batch."""

    @abc.abstractmethod
    def score(self, data: D, readings: Iterator[tuple[int, R]]) -> tuple[dict[str, float], A]:
        """Scores of a split in percent, and the answers to its questions.

        Args:
            data: the split.
            readings: index of an input and its reading, of all inputs, in any order.
        """

    @abc.abstractmethod
    def by_question(self, data: D, answers: A) -> dict[str, np.ndarray]:
        """The official scores of every question, to compare runs on the same questions.

        Args:
            data: the split.
            answers: to its questions, from `score`.

        Returns:
            Name -> ``[N]`` float64 in percent, whose mean is what `score` gives under that name.
            Scores are in the order of the questions, each as often as the official metric counts
            it; then those left out, 0 each. See `Questions.scored_ids`.
        """

    @abc.abstractmethod
    def metric_names(self, data: D) -> Collection[str]:
        """The names of all scores that `score` may return for these questions."""

    @abc.abstractmethod
    def describe(self, data: D, inputs: Any) -> str:
        """One line that says how many questions there are and what became of them as inputs."""

    @abc.abstractmethod
    def shown(self, data: D, answers: A) -> list[ShownAnswer]:
        """The answers for people, in the order of the questions."""


def make_loss(graphdef: nnx.GraphDef, objective: Objective, **log_prob: Any) -> LossFn:
    """The loss of a training batch as a function of the model's parameters.

    Args:
        graphdef: of a model whose call gives a distribution over solutions, from `nnx.split`.
        objective: decides which solutions are trusted.
        **log_prob: options of the distribution's ``log_prob``.

    Returns:
        ``loss(params, batch, *, step, key, dropout_key) -> (loss, metrics)``, both of float32
        scalars: the objective draws from ``key``, dropout from ``dropout_key``. In addition to the
        model's inputs, a batch has ``solutions`` and ``solutions_where``, ``[B, Z]`` bool. Among
        the metrics are those of `z_metrics` and `visit_metrics`.
    """

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        key, dropout_key = keys_of_part(objective, key, dropout_key)
        distribution = nnx.merge(graphdef, params)(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = batch["solutions_where"]
        log_probs = distribution.log_prob(batch["solutions"], **log_prob)
        value, metrics = objective(log_probs, step=step, key=key, where=where)
        metrics |= z_metrics(log_probs, where)
        metrics |= visit_metrics(
            log_probs, where, true_solution=batch.get("true_solution"), memory=batch.get("memory")
        )
        if "where" in batch:  # the encoder reads tokens
            metrics |= token_metrics(batch)
        return value, metrics

    return loss


def z_metrics(log_probs: Array, where: Array) -> dict[str, Array]:
    """What every training step reports about Z: means over its questions (or windows, or groups).

    Args:
        log_probs: ``[B, Z]``, log P of the solutions.
        where: ``[B, Z]`` bool, real solutions.

    Returns:
        ``items``, the number of rows with a solution, over which the loss is the mean; ``z_size``,
        their solutions; ``z_entropy``, the entropy of their posteriors in nats
        (`losses.posterior_entropy`).

    Example:
        >>> where = jnp.array([[True, True], [True, False], [False, False]])
        >>> found = z_metrics(jnp.zeros((3, 2)), where)
        >>> {name: round(float(value), 3) for name, value in found.items()}
        {'items': 2.0, 'z_size': 1.5, 'z_entropy': 0.347}
    """
    items = jnp.sum(jnp.any(where, axis=-1), dtype=jnp.float32)
    entropy = losses.posterior_entropy(jax.lax.stop_gradient(log_probs), where=where)
    return {
        "items": items,
        "z_size": jnp.sum(where, dtype=jnp.float32) / jnp.maximum(items, 1),
        "z_entropy": jnp.sum(entropy) / jnp.maximum(items, 1),
    }


def keys_of_part(objective: Objective, key: Array, dropout_key: Array) -> tuple[Array, Array]:
    """The keys that an objective and dropout draw from in a micro-batch.

    Whether a step is hard is one draw for the whole batch, so its micro-batches share ``key``. An
    objective that draws for each row (`hardem_jax.objectives.EM`) gets a key for each micro-batch;
    otherwise rows at the same position in two of them would draw the same.

    Example:
        >>> from hardem_jax.objectives import EM, HardEM
        >>> key, dropout_key = jax.random.split(jax.random.key(0))
        >>> keys_of_part(HardEM(), key, dropout_key) == (key, dropout_key)
        True
        >>> bool(keys_of_part(EM(), key, dropout_key)[0] == key)
        False
    """
    if not getattr(objective, "draws_rows", False):
        return key, dropout_key
    key, dropout_key = jax.random.split(dropout_key)
    return key, dropout_key


def first_memory(num_inputs: int) -> dict[str, np.ndarray]:
    """What `visit_metrics` remembers of each input before the first step.

    Example:
        >>> first_memory(3)
        {'best_z': array([-1, -1, -1], dtype=int32)}
    """
    return {BEST_Z: np.full(num_inputs, NOT_SEEN, np.int32)}


def visit_metrics(
    log_probs: Array,
    where: Array,
    *,
    true_solution: Array | None = None,
    memory: Mapping[str, Array] | None = None,
) -> dict[str, Any]:
    """Whether the best z changed, and the rank of the true one; no gradient flows through either.

    A row of Z has the solutions of G windows, one after the other; G is 1 but where windows share a
    latent variable.

    Args:
        log_probs: ``[B, G * Z]``, log P of the solutions.
        where: ``[B, G * Z]`` bool, real solutions.
        true_solution: ``[B * G]`` int32, index of the true z among the Z of its window; -1 if it is
            not known or not among them. None reports no rank.
        memory: has ``best_z``, ``[B * G]`` int32, from `first_memory` or the last visit. None, or
            one without it, reports no changes.

    Returns:
        ``z_true_rank``, 1 for the most likely z, the mean over rows whose true z is known; of
        several (windows overlap) the most likely counts. ``z_changed``, the share of rows with
        several solutions, seen before, whose most likely z is not that of the last visit; in a
        group, of the last visit of the window that it is in. Each is a `Mean`, with a count of 0
        where there is no such row, and then missing from the log. ``memory``: the new ``best_z``.

    Example:
        >>> log_probs = jnp.log(jnp.array([[0.2, 0.5], [0.6, 0.3]]))
        >>> found = visit_metrics(
        ...     log_probs, jnp.ones((2, 2), bool), true_solution=jnp.array([0, -1]),
        ...     memory={"best_z": jnp.array([0, -1])})
        >>> float(found["z_true_rank"]), float(found["z_changed"])
        (2.0, 1.0)
        >>> found["memory"]["best_z"].tolist()
        [1, 0]
    """
    log_probs = jax.lax.stop_gradient(log_probs)
    found: dict[str, Any] = {}
    if true_solution is not None:
        found["z_true_rank"] = _true_rank(log_probs, where, true_solution)
    if memory is not None and BEST_Z in memory:
        best = jnp.argmax(jnp.where(where, log_probs, -jnp.inf), axis=-1)
        before = memory[BEST_Z].reshape(len(log_probs), -1)
        window, number = jnp.divmod(best, where.shape[-1] // before.shape[-1])
        last = jnp.take_along_axis(before, window[:, None], axis=-1)[:, 0]
        seen = (jnp.sum(where, axis=-1) > 1) & (last != NOT_SEEN)
        found["z_changed"] = Mean(jnp.sum(seen & (last != number)), jnp.sum(seen))
        is_best = jnp.arange(before.shape[-1])[None] == window[:, None]
        now = jnp.where(is_best, number[:, None], ELSEWHERE)
        now = jnp.where(jnp.any(where, axis=-1, keepdims=True), now, NOT_SEEN)
        found[MEMORY] = {BEST_Z: now.reshape(-1).astype(jnp.int32)}
    return found


def _true_rank(log_probs: Array, where: Array, true_solution: Array) -> Mean:
    windows = true_solution.size // len(log_probs)
    is_true = jax.nn.one_hot(true_solution, where.shape[-1] // windows, dtype=bool)
    is_true = is_true.reshape(where.shape) & where
    best_true = jnp.max(log_probs, axis=-1, where=is_true, initial=-jnp.inf, keepdims=True)
    ranks = 1 + jnp.sum((log_probs > best_true) & where & ~is_true, axis=-1)
    known = jnp.any(is_true, axis=-1)
    return Mean(jnp.sum(ranks, where=known), jnp.sum(known))


#: The paper's measure of sparsity is the share of Z below these probabilities (appendix C).
SPARSITY_THRESHOLDS = (1e-3, 1e-4)


def size_group(size: int, bounds: Sequence[int]) -> str:
    """Which group of |Z| a question is in (the paper's figure 2): "0", "1", "2-4", "5+"."""
    low = 0
    for high in bounds:
        if size <= high:
            return f"{high}" if low >= high else f"{low}-{high}"
        low = high + 1
    return f"{low}+"


def names_by_size(measure: str, bounds: Sequence[int]) -> list[str]:
    """The names of a score by |Z|.

    Example:
        >>> names_by_size("em", (0, 1, 4))
        ['em |Z|=0', 'em |Z|=1', 'em |Z|=2-4', 'em |Z|=5+']
    """
    return [f"{measure} |Z|={size_group(size, bounds)}" for size in (*bounds, max(bounds) + 1)]


def places_by_size(names: Iterable[str], sizes: Sequence[int | None]) -> dict[str, list[int]]:
    """Of which questions the scores by |Z| are means: their places among the sizes.

    Example:
        >>> places_by_size(["em", "em |Z|=0-1", "em |Z|=2+"], [0, 1, None, 7])
        {'em |Z|=0-1': [0, 1], 'em |Z|=2+': [3]}
    """
    found = {}
    for name in names:
        _, by_size, group = name.partition(" |Z|=")
        if by_size:
            low, _, high = group.removesuffix("+").partition("-")
            last = math.inf if group.endswith("+") else int(high or low)
            places = enumerate(sizes)
            found[name] = [n for n, x in places if x is not None and int(low) <= x <= last]
    return found


def of_all_questions(outcomes: Mapping[str, Sequence[Any]], left_out: int) -> dict[str, np.ndarray]:
    """Outcomes, 0 to 1, of the questions read, then 0 for those left out; in percent, ``[N]``."""
    return {
        name: 100 * np.array([*found, *[0] * left_out], np.float64)
        for name, found in outcomes.items()
    }


def percentages(
    groups: Mapping[str, Sequence[Any]],
    by_question: Mapping[str, np.ndarray],
    *,
    measure: str,
    bounds: Sequence[int],
) -> dict[str, float]:
    """Means in percent: official scores, those of ``measure`` by |Z| in ascending order, others.

    Outcomes in ``groups`` are from 0 to 1, scores in ``by_question`` in percent already.
    """
    means = {name: 100 * float(np.mean(outcomes)) for name, outcomes in groups.items() if outcomes}
    means |= {name: float(np.mean(scores)) for name, scores in by_question.items()}
    known = [*by_question, *names_by_size(measure, bounds)]
    others = sorted(means.keys() - {*known}, key=str.lower)
    return {name: means[name] for name in (*known, *others) if name in means}
