"""Multi-mention reading (Min et al., 2019, section 4.1): spans of documents.

window -> batch -> SpanReader -> SpanDistribution -> log P(z) of every mention -> objective
at test:  windows of a question -> the one that the selector ranks first -> its best span -> text
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.grouped import GroupedPlan
from hardem_jax.data.batching.padding import BatchConfig, Inputs, Pad
from hardem_jax.data.batching.plans import Plan
from hardem_jax.documents.inputs import NO_ANSWER, pad_windows
from hardem_jax.documents.metrics import by_set_size, metric_module, official, official_by_question
from hardem_jax.documents.questions import (
    ReadingQuestions,
    WindowModel,
    check_choices,
    check_tokenizer,
    golds_by_id,
    selector_loss_sum,
)
from hardem_jax.documents.windows import Window, WindowConfig
from hardem_jax.encoders.base import Encoder, token_metrics
from hardem_jax.objectives import Objective
from hardem_jax.spans.answers import (
    Answer,
    AnswerPool,
    WindowReading,
    best_thresholds,
    window_reading,
)
from hardem_jax.spans.config import LatentConfig, ReaderConfig, SpanInference
from hardem_jax.spans.distribution import SpanDistribution
from hardem_jax.spans.model import Reading, SpanReader
from hardem_jax.task.base import (
    NOT_SEEN,
    LossFn,
    ShownAnswer,
    Task,
    keys_of_part,
    visit_metrics,
    z_metrics,
)
from hardem_jax.task.run_config import RunConfig

Array = jax.Array
PER_WINDOW = LatentConfig()


@dataclasses.dataclass(frozen=True)
class SpanModel(WindowModel):
    """A span reader on a pretrained encoder, see `ReaderConfig`."""

    config: ReaderConfig

    @staticmethod
    def module(config: ReaderConfig, encoder: Encoder, *, seed: int) -> SpanReader:
        return SpanReader(encoder, rngs=nnx.Rngs(seed), softmax_over=config.softmax_over)

    def pad(self, inputs: Any, num_solutions: int) -> Pad:
        del inputs
        pad_id = self.tokenizer.pad_id
        return functools.partial(pad_windows, num_solutions=num_solutions, pad_id=pad_id)


@dataclasses.dataclass(frozen=True)
class SpanTask(Task[ReadingQuestions, WindowReading, dict[str, Answer]]):
    """Answers are spans of documents.

    Attributes:
        inference: how answers are read off.
        latent: what the latent variable ranges over in training.
        windows: how a document is cut to ask about it; prepared data are cut already.
    """

    NAME = "spans"
    UNIT = "windows"
    QUESTIONS = ReadingQuestions
    MODELS = {ReaderConfig: SpanModel}
    PACKS = True
    WHOLE_Z = True
    SHARES = {
        "HasAns_exact": "questions with an answer",
        "HasAns_f1": "questions with an answer",
        "NoAns_exact": "questions without an answer",
        "NoAns_f1": "questions without an answer",
        "selector": "windows",
        "first z": "windows with several mentions",
        "true z": "those with a true one",
        "true z, not first": "those whose true one is not the first",
    }

    inference: SpanInference
    latent: LatentConfig = PER_WINDOW
    windows: WindowConfig = WindowConfig()

    @classmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        own = run.flags("inference", SpanInference)
        windows = run.section("windows", WindowConfig)
        return cls(dataclasses.replace(own, **inference), windows=windows)

    def save(self, data: ReadingQuestions) -> dict[str, Any]:
        return {"windows": data.window_sizes}

    def check(self, data: ReadingQuestions, model: SpanModel, other: str) -> None:
        check_tokenizer(data, model.tokenizer, other)
        check_choices(data, self.windows.choices, other)

    def plan(
        self, data: ReadingQuestions, inputs: Inputs, batches: BatchConfig, **options: Any
    ) -> Plan:
        if self.latent.scope == "window":
            return super().plan(data, inputs, batches, **options)
        scope, group_size = self.latent.scope, self.latent.group_size
        return GroupedPlan(
            inputs.sizes, data.places, batches, scope=scope, group_size=group_size, **options
        )

    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        return make_span_loss(graphdef, objective, self.latent, negatives=plan.negatives)

    def decode(self, found: Reading, batch: Mapping[str, Array]) -> dict[str, Array]:
        whole_words = self.inference.whole_words
        num_tokens, longest = batch["context"].shape[1], self.inference.max_answer_tokens
        num_spans = num_tokens * min(longest, num_tokens)
        wanted = max(self.inference.top, self.inference.keep)
        starts, ends = ("word_starts", "word_ends") if whole_words else ("context", "context")
        parts = batch["parts"]
        some = parts != NO_ANSWER
        spans, log_probs = found.spans.restrict_to(batch[starts] & some, batch[ends] & some).top(
            min(wanted, num_spans), max_length=longest, parts=parts
        )
        none = found.spans.restrict_to(batch["word_starts"] & ~some, batch["word_ends"] & ~some)
        in_z = found.spans.log_prob(batch["solutions"])
        in_z = jnp.where(batch["solutions_where"], in_z, -jnp.inf)
        return {
            "answerable": jax.nn.log_softmax(found.selector_logits)[:, 1],
            "spans": spans,
            "log_probs": log_probs,
            "no_answer": none.start.max(axis=-1) + none.end.max(axis=-1),
            "log_partitions": found.spans.log_partitions,
            "best_solution": jnp.argmax(in_z, axis=-1),
            "solutions": in_z,
        }

    def reading(
        self,
        inputs: Sequence[Window],
        index: int,
        out: Mapping[str, Any],
        entries: Mapping[str, Any],
    ) -> WindowReading:
        del entries
        return window_reading(inputs[index], out)

    def answers(self, readings: Iterable[WindowReading]) -> list[Answer]:
        """The answers to one question, best first, each text once."""
        pool = AnswerPool(self.inference)
        for reading in readings:
            pool.add(reading)
        return pool.answers()

    def score(
        self, data: ReadingQuestions, readings: Iterator[tuple[int, WindowReading]]
    ) -> tuple[dict[str, float], dict[str, Answer]]:
        """Scores of a split, and the answer to each question that has one, by its id.

        Returns:
            The metric's own scores (``em`` and ``f1``, or ``rouge_l`` and others) in percent of all
            questions, those left out and those without an answer counting 0. The first of them by
            number of mentions, ``em |Z|=...``, in percent of the questions read. ``selector``,
            percent of windows whose selector is correct. ``first z``, percent of windows with
            several mentions where the most likely is the first (100 for a reader that learned
            First-only). Where the true mention is annotated, ``true z``, the same for the true one,
            and ``true z, not first``, where the true mention is not the first. With a
            ``sweep``, the metric's first score from the first n documents, ``em n=...``, and
            ``recall n=...``, percent of all questions with a mention in one of them. For SQuAD 2.0
            also `hardem_jax.documents.metrics.squad2.best_thresholds`. No scores without golds.
        """
        limits = (None, *self.inference.sweep)
        keep = self.inference.keep
        # What is kept of a question does not grow with its windows.
        pools = defaultdict(lambda: defaultdict(lambda: AnswerPool(self.inference, keep=keep)))
        first_mention: dict[int, int] = {}
        hits = defaultdict(list)
        for index, reading in readings:
            question, document = map(int, data.places[index, :2])
            for limit in limits:
                if limit is None or document < limit:
                    pools[limit][data.questions[question].id].add(reading)
            num_mentions = int(data.windows.sizes[index, 1])
            if num_mentions:
                first_mention[question] = min(first_mention.get(question, document), document)
            likely = reading.log_prob_answerable > np.log(0.5)
            has_answer = bool(num_mentions) and any(data.questions[question].golds)
            hits["selector"].append(likely == has_answer)
            if num_mentions <= 1:
                continue
            hits["first z"].append(reading.best_solution == 0)
            if reading.true_solution >= 0:
                hit = reading.best_solution == reading.true_solution
                hits["true z"].append(hit)
                if reading.true_solution > 0:
                    hits["true z, not first"].append(hit)
        answers = {
            limit: {id: best for id, pool in pools[limit].items() if (best := pool.best())}
            for limit in limits
        }
        if not data.scored:
            return {}, answers[None]
        texts = {limit: {i: a.text for i, a in found.items()} for limit, found in answers.items()}
        golds = golds_by_id(data)
        scores = official(data.metric, texts[None], golds)
        main = next(iter(scores))
        if data.metric == "squad2":
            scores |= best_thresholds(pools[None], golds)
        for limit in self.inference.sweep:
            scores[f"{main} n={limit}"] = official(data.metric, texts[limit], golds)[main]
            within = sum(document < limit for document in first_mention.values())
            scores[f"recall n={limit}"] = 100 * within / len(golds)
        scores |= by_set_size(texts[None], data.questions, data.metric)
        scores |= {name: 100 * float(np.mean(hit)) for name, hit in hits.items()}
        return scores, answers[None]

    def by_question(
        self, data: ReadingQuestions, answers: dict[str, Answer]
    ) -> dict[str, np.ndarray]:
        texts = {id: answer.text for id, answer in answers.items()}
        return official_by_question(data.metric, texts, golds_by_id(data))

    def metric_names(self, data: ReadingQuestions) -> set[str]:
        scores, _ = self.score(data, iter(()))
        return {*scores, "selector", "first z", "true z", "true z, not first"}

    def describe(self, data: ReadingQuestions, inputs: Inputs) -> str:
        num_positives = int((inputs.sizes[:, 1] > 0).sum())
        return (
            f"{len(data.questions)} questions, {num_positives} windows with and "
            f"{len(inputs) - num_positives} without a mention"
        )

    def shown(self, data: ReadingQuestions, answers: dict[str, Answer]) -> list[ShownAnswer]:
        rows = []
        for question in data.questions:
            text = answers[question.id].text if question.id in answers else ""
            exact = metric_module(data.metric).exact_match(text, question.golds)
            rows.append(ShownAnswer(question.question, question.golds[0], text, exact > 0))
        return rows


def make_span_loss(
    graphdef: nnx.GraphDef,
    objective: Objective,
    latent: LatentConfig = PER_WINDOW,
    *,
    negatives: int = 0,
) -> LossFn:
    """The loss of a training batch as a function of the reader's parameters.

    An item costs the objective over its mentions plus the selector's cross-entropy on each of its
    windows. The batch costs the mean over items.

    Args:
        graphdef: of a `SpanReader`, from `nnx.split`.
        objective: decides which mentions are trusted.
        latent: what they are the mentions of. Scope "window" takes rows in any order; the others
            take items of ``group_size + negatives`` rows (`data.batching.grouped`).
        negatives: number of trailing rows per item that only contribute to the selector loss.

    Returns:
        ``loss(params, batch, *, step, key, dropout_key) -> (loss, metrics)``, see
        `task.base.make_loss`; ``items`` counts windows or groups with a mention. Each window
        remembers whether the most likely mention of its group was in it (`visit_metrics`).
    """
    groups = _Groups(latent, negatives)

    def loss(
        params: Any, batch: Mapping[str, Array], *, step: Array, key: Array, dropout_key: Array
    ):
        key, dropout_key = keys_of_part(objective, key, dropout_key)
        reader: SpanReader = nnx.merge(graphdef, params)
        reading = reader(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = groups.of_batch(batch["solutions_where"])
        spans = jax.tree.map(groups.of_batch, reading.spans)
        if latent.rows > 1:
            spans = spans.normalize_over_groups(latent.rows)
        variables = _latent_variables(
            spans, groups.of_batch(batch["solutions"]), where, latent.likelihood
        )
        span_loss, metrics, about = jnp.zeros(()), {}, []
        for log_probs, possible in variables:
            log_probs, possible = groups.merge(log_probs), groups.merge(possible)
            # The same draw for all of them.
            loss_of_one, metrics = objective(
                log_probs, step=step, key=jax.random.clone(key), where=possible
            )
            span_loss += loss_of_one
            about.append(z_metrics(log_probs, possible))
        num_items = about[0]["items"]
        averaged = jnp.maximum(num_items, 1)
        selector_loss = selector_loss_sum(reading.selector_logits, _hold_answer(batch), batch)
        selector_loss /= averaged
        metrics |= {
            "span_loss": span_loss,
            "selector_loss": selector_loss,
            "items": num_items,
            "z_size": jnp.sum(where, dtype=jnp.float32) / averaged,
            "z_entropy": jnp.sum(jnp.stack([entry["z_entropy"] for entry in about])),
            **token_metrics(batch),
            **_mention_metrics(spans, batch, groups),
        }
        return span_loss + selector_loss, metrics

    return loss


@dataclasses.dataclass(frozen=True)
class _Groups:
    """How the windows of a batch make up items: groups of ``latent.rows``, then negatives."""

    latent: LatentConfig
    negatives: int

    def of_batch(self, rows: Array) -> Array:
        """The rows of all groups, one group after the other."""
        if self.latent.scope == "window":
            return rows
        items = rows.reshape(-1, self.latent.rows + self.negatives, *rows.shape[1:])
        return items[:, : self.latent.rows].reshape(-1, *rows.shape[1:])

    def to_batch(self, rows: Array) -> Array:
        """Undoes `of_batch`; negatives get `NOT_SEEN`."""
        if self.latent.scope == "window":
            return rows
        groups = rows.reshape(-1, self.latent.rows)
        return jnp.pad(groups, ((0, 0), (0, self.negatives)), constant_values=NOT_SEEN).reshape(-1)

    def merge(self, of_windows: Array) -> Array:
        """``[R, Z]``, the solutions of windows -> ``[G, rows * Z]``, those of their groups."""
        return of_windows.reshape(-1, self.latent.rows * of_windows.shape[-1])


def _mention_metrics(
    spans: SpanDistribution, batch: Mapping[str, Array], groups: _Groups
) -> dict[str, Any]:
    """`visit_metrics` of mentions, also where starts and ends are latent on their own."""
    log_probs = spans.log_prob(groups.of_batch(batch["solutions"]))
    where = groups.of_batch(batch["solutions_where"])
    known = {name: batch.get(name) for name in ("true_solution", "memory")}
    known = jax.tree.map(groups.of_batch, known)
    found = visit_metrics(groups.merge(log_probs), groups.merge(where), **known)
    if "memory" in found:
        found["memory"] = jax.tree.map(groups.to_batch, found["memory"])
    return found


def _hold_answer(batch: Mapping[str, Array]) -> Array:
    """``[R]`` bool, the windows with an answer: one whose Z says that there is none has none."""
    parts = batch.get("parts", jnp.zeros_like(batch["token_ids"]))
    first = jnp.take_along_axis(parts, batch["solutions"][..., 0], axis=-1)
    return jnp.any(batch["solutions_where"] & (first != NO_ANSWER), axis=-1)


def _latent_variables(
    spans: SpanDistribution, solutions: Array, where: Array, likelihood: str
) -> Iterator[tuple[Array, Array]]:
    """``[R, K]`` log-probabilities and which of them are solutions, for each latent variable."""
    if likelihood == "span":
        yield spans.log_prob(solutions), where
        return
    for side, log_probs in enumerate((spans.start, spans.end)):
        nothing = jnp.zeros(log_probs.shape, bool)
        rows = jnp.arange(len(nothing))[:, None]
        yield log_probs, nothing.at[rows, solutions[..., side]].max(where)


TASK = SpanTask
