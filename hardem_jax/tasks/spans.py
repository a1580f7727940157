"""Multi-mention reading (Min et al., 2019, section 4.1): spans of documents.

window -> batch -> SpanReader -> SpanDistribution -> log P(z) of every mention -> objective
at test:  windows of a question -> the one that the selector ranks first -> its best span -> text
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from hardem_jax.data.batching.grouped import GroupedPlan
from hardem_jax.data.batching.padding import BatchConfig, Inputs, Pad, Subset
from hardem_jax.data.batching.plans import Plan
from hardem_jax.data.inputs.windows import NO_ANSWER, pad_windows
from hardem_jax.data.prepared.spans import FORMAT, PreparedSplit, Question, all_windows
from hardem_jax.data.prepared.windows import Window, WindowConfig
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.errors import InputError
from hardem_jax.models.checkpoints.program import export_reader
from hardem_jax.models.checkpoints.span_reader import save_reader
from hardem_jax.models.encoders.base import Encoder
from hardem_jax.models.encoders.packing import token_metrics
from hardem_jax.models.span_reader import Reading, SpanReader
from hardem_jax.objectives import Objective
from hardem_jax.tasks.base import LossFn, Questions, ShownAnswer, Task, z_metrics
from hardem_jax.tasks.config import LatentConfig, ReaderConfig, SpanInference
from hardem_jax.tasks.encoder import EncoderModel, check_lengths
from hardem_jax.tasks.run_config import RunConfig
from hardem_jax.tasks.span_answers import (
    METRICS,
    Answer,
    AnswerPool,
    WindowReading,
    best_thresholds,
    by_set_size,
    official,
    window_reading,
)
from hardem_jax.tasks.z_visits import NOT_SEEN, visit_metrics

Array = jax.Array
_PER_WINDOW = LatentConfig()
_TOKENIZER, _CHOICES = "another tokenizer", "other choices (--windows.choices)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingQuestions(Questions):
    """Questions with the windows of their documents.

    Attributes:
        windows: of all questions, as the inputs of a reader.
        places: ``[N, 3]`` int32: of each window, its question, its document and its rank among the
            windows of the question, each counted from 0.
        metric: key of `METRICS`.
        tokenizer: that the windows were cut with.
        window_sizes: how they were cut.
    """

    #: Of the prepared splits.
    FORMAT: ClassVar[str] = FORMAT

    questions: Sequence[Question]
    windows: Inputs
    places: np.ndarray
    metric: str
    tokenizer: Tokenizer
    window_sizes: Mapping[str, Any]

    @classmethod
    def open(cls, *folders: Path) -> Self:
        """The questions of prepared splits, one split after the other.

        Raises:
            InputError: a folder holds no prepared split, a file is damaged, or the splits were
                prepared with different tokenizers or choices.
        """
        splits = [PreparedSplit(folder, format=cls.FORMAT) for folder in folders]
        for split in splits[1:]:
            if split.tokenizer.fingerprint != splits[0].tokenizer.fingerprint:
                raise InputError(_prepared_with(_TOKENIZER, str(split.folder), str(folders[0])))
            if choices(split.meta["windows"]) != choices(splits[0].meta["windows"]):
                raise InputError(_prepared_with(_CHOICES, str(split.folder), str(folders[0])))
        windows, places = all_windows(splits)
        metas = [split.meta for split in splits]
        return cls(
            questions=[question for split in splits for question in split.questions.values()],
            left_out={id: why for split in splits for id, why in split.left_out.items()},
            scored=all(split.meta.get("scored", True) for split in splits),
            place=", ".join(map(str, folders)),
            meta=metas if len(metas) > 1 else metas[0],
            windows=windows,
            places=places,
            metric=splits[0].meta["metric"],
            tokenizer=splits[0].tokenizer,
            window_sizes=splits[0].meta["windows"],
        )

    def scored_ids(self) -> list[str]:
        return list(golds_by_id(self))

    def set_sizes(self) -> list[int]:
        return [question.num_solutions for question in self.questions]

    def select(self, indices: Sequence[int]) -> Self:
        numbers = np.full(len(self.questions), -1, np.int32)
        numbers[list(indices)] = np.arange(len(indices))
        chosen = super().select(indices)._where(numbers[self.places[:, 0]] >= 0)
        places = np.column_stack([numbers[chosen.places[:, 0]], chosen.places[:, 1:]])
        return dataclasses.replace(chosen, places=places)

    def from_documents(self, count: int | None) -> Self:
        """With the windows of the first ``count`` documents of each question; all if None."""
        return self if count is None else self._where(self.places[:, 1] < count)

    def _where(self, wanted: np.ndarray) -> Self:
        windows = Subset(self.windows, np.flatnonzero(wanted))
        return dataclasses.replace(self, windows=windows, places=self.places[wanted])


class WindowInputs(tuple[Window, ...]):
    """Windows in memory, as the inputs of a reader."""

    @property
    def sizes(self) -> np.ndarray:
        rows = [(window.num_tokens, len(window.solutions)) for window in self]
        return np.array(rows, np.int32).reshape(-1, 2)


def pad_rows(pad_id: int, num_solutions: int) -> Pad:
    """Pads windows to batches, see `pad_windows`."""
    return lambda rows, num_tokens: pad_windows(
        rows, num_tokens, num_solutions=num_solutions, pad_id=pad_id
    )


@dataclasses.dataclass(frozen=True)
class WindowModel(EncoderModel):
    """A model that reads windows, with the tokenizer that they were cut with."""

    @staticmethod
    def tokenizer_for(config: Any, data: ReadingQuestions) -> Tokenizer:
        del config
        return data.tokenizer

    def inputs(self, data: ReadingQuestions) -> Inputs:
        return data.windows

    def check_lengths(self, buckets: Sequence[int]) -> None:
        check_lengths(self.config, self.encoder, buckets)


@dataclasses.dataclass(frozen=True)
class SpanModel(WindowModel):
    """A span reader on a pretrained encoder, see `ReaderConfig`."""

    config: ReaderConfig

    @staticmethod
    def module(config: ReaderConfig, encoder: Encoder, *, seed: int) -> SpanReader:
        return SpanReader(encoder, rngs=nnx.Rngs(seed), softmax_over=config.softmax_over)

    def pad(self, inputs: Any, num_solutions: int) -> Pad:
        del inputs
        return pad_rows(self.tokenizer.pad_id, num_solutions)

    def export(self, params: Any, folder: Path, details: Mapping[str, Any]) -> None:
        """Writes weights, configuration and tokenizer for Hugging Face transformers.

        Args:
            params: of the model.
            folder: that exists.
            details: see `save_reader`.
        """
        reader: SpanReader = nnx.merge(self.graphdef, params)
        save_reader(reader, folder, details=details)
        self.tokenizer.save_pretrained(
            folder,
            max_tokens=self.encoder.max_tokens,
            token_types=getattr(self.encoder, "type_vocab_size", 1) > 1,
        )

    def export_program(self, params: Any, file: Path) -> None:
        """Writes the reader as a program for jax alone, see `export_reader`."""
        file.write_bytes(export_reader(nnx.merge(self.graphdef, params)))


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

    inference: SpanInference
    latent: LatentConfig = _PER_WINDOW
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
        if choices(data.window_sizes) != self.windows.choices:
            raise InputError(_prepared_with(_CHOICES, data.place, other))

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
        starts, ends = ("word_starts", "word_ends") if whole_words else ("context", "context")
        parts = batch["parts"]
        some = parts != NO_ANSWER
        spans, log_probs = found.spans.restrict_to(batch[starts] & some, batch[ends] & some).top(
            self.inference.top, max_length=self.inference.max_answer_tokens, parts=parts
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
            percent of windows whose selector is correct. Where the true mention is annotated,
            ``true z``, percent of windows with several mentions where the most likely is the true
            one, and ``true z, not first``, the same where the true mention is not the first. With a
            ``sweep``, the metric's first score from the first n documents, ``em n=...``, and
            ``recall n=...``, percent of all questions with a mention in one of them. For SQuAD 2.0
            also what `hardem_jax.metrics.squad2.best_thresholds` finds. No scores if the golds are
            not known.
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
            if reading.true_solution >= 0 and num_mentions > 1:
                hit = reading.best_solution == reading.true_solution
                hits["true z"].append(hit)
                if reading.true_solution > 0:
                    hits["true z, not first"].append(hit)
        answers = {limit: _first_answers(pools[limit]) for limit in limits}
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
        scores = defaultdict(list)
        for id, golds in golds_by_id(data).items():
            text = {id: answers[id].text} if id in answers else {}
            for name, value in official(data.metric, text, {id: golds}).items():
                scores[name].append(value)
        every = [name for name, values in scores.items() if len(values) == len(golds_by_id(data))]
        return {name: np.array(scores[name], np.float64) for name in every}

    def metric_names(self, data: ReadingQuestions) -> set[str]:
        names = list(official(data.metric, {}, golds_by_id(data)))
        if data.metric == "squad2":
            names += best_thresholds({}, golds_by_id(data))
        sweep = self.inference.sweep
        swept = [f"{name} n={limit}" for name in (names[0], "recall") for limit in sweep]
        by_size = by_set_size({}, data.questions, data.metric)
        return {*names, *swept, *by_size, "selector", "true z", "true z, not first"}

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
            exact = METRICS[data.metric].exact_match(text, question.golds)
            rows.append(ShownAnswer(question.question, question.golds[0], text, exact > 0))
        return rows


def make_span_loss(
    graphdef: nnx.GraphDef,
    objective: Objective,
    latent: LatentConfig = _PER_WINDOW,
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
        `tasks.base.make_loss`; ``items`` counts windows or groups with a mention. Each window
        remembers whether the most likely mention of its group was in it (`tasks.z_visits`).
    """

    def of_groups(rows: Array) -> Array:
        """The rows of all groups, one group after the other."""
        if latent.scope == "window":
            return rows
        items = rows.reshape(-1, latent.rows + negatives, *rows.shape[1:])
        return items[:, : latent.rows].reshape(-1, *rows.shape[1:])

    def of_batch(rows: Array) -> Array:
        """Undoes `of_groups`; negatives get `NOT_SEEN`."""
        if latent.scope == "window":
            return rows
        groups = rows.reshape(-1, latent.rows)
        return jnp.pad(groups, ((0, 0), (0, negatives)), constant_values=NOT_SEEN).reshape(-1)

    def mention_metrics(spans: SpanDistribution, batch: Mapping[str, Array]) -> dict[str, Any]:
        """`visit_metrics` of mentions, also where starts and ends are latent on their own."""
        log_probs = spans.log_prob(of_groups(batch["solutions"]))
        shape = (-1, latent.rows * log_probs.shape[-1])
        known = {name: batch.get(name) for name in ("true_solution", "memory")}
        found = visit_metrics(
            log_probs.reshape(shape),
            of_groups(batch["solutions_where"]).reshape(shape),
            **jax.tree.map(of_groups, known),
        )
        return found | jax.tree.map(of_batch, {k: v for k, v in found.items() if k == "memory"})

    def loss(
        params: Any, batch: Mapping[str, Array], *, step: Array, key: Array, dropout_key: Array
    ):
        reader: SpanReader = nnx.merge(graphdef, params)
        reading = reader(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = of_groups(batch["solutions_where"])
        spans = jax.tree.map(of_groups, reading.spans)
        if latent.rows > 1:
            spans = spans.normalize_over_groups(latent.rows)
        variables = _latent_variables(
            spans, of_groups(batch["solutions"]), where, latent.likelihood
        )
        span_loss, metrics, about = jnp.zeros(()), {}, []
        for log_probs, possible in variables:
            shape = (-1, latent.rows * log_probs.shape[-1])
            log_probs, possible = log_probs.reshape(shape), possible.reshape(shape)
            # The same key, hence the same draw, for all of them.
            loss_of_one, metrics = objective(log_probs, step=step, key=key, where=possible)
            span_loss += loss_of_one
            about.append(z_metrics(log_probs, possible))
        num_items = about[0]["items"]
        selector_loss = selector_loss_sum(reading.selector_logits, _hold_answer(batch), batch)
        selector_loss /= num_items
        metrics |= {
            "span_loss": span_loss,
            "selector_loss": selector_loss,
            "items": num_items,
            "z_size": jnp.sum(where) / num_items,
            "z_entropy": jnp.sum(jnp.stack([entry["z_entropy"] for entry in about])),
            **token_metrics(batch),
            **mention_metrics(spans, batch),
        }
        return span_loss + selector_loss, metrics

    return loss


def selector_loss_sum(logits: Array, holds: Array, batch: Mapping[str, Array]) -> Array:
    """Cross-entropy of a selector, summed over the real rows of a batch.

    Args:
        logits: ``[R, 2]``; class 1 says that the window holds the answer.
        holds: ``[R]`` bool, whether it does.
        batch: has ``row_where``.
    """
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, holds.astype(jnp.int32))
    return jnp.sum(losses, where=batch["row_where"])


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


def golds_by_id(data: ReadingQuestions) -> dict[str, Sequence[str]]:
    """The golds of all questions by id; those left out come last and have none."""
    golds: dict[str, Sequence[str]] = {q.id: q.golds for q in data.questions}
    return golds | {id: () for id in data.left_out if id not in golds}


def _first_answers(pools: Mapping[str, AnswerPool]) -> dict[str, Answer]:
    """The best answer to each question that has any, with its runners-up."""
    ranked = {example_id: pool.answers() for example_id, pool in pools.items()}
    return {
        example_id: dataclasses.replace(answers[0], runners_up=tuple(answers[1:]))
        for example_id, answers in ranked.items()
        if answers
    }


def choices(window_sizes: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices that windows offer; splits of earlier versions have none."""
    return tuple(window_sizes.get("choices", ()))


def check_tokenizer(data: ReadingQuestions, tokenizer: Tokenizer, other: str) -> None:
    """Raises `InputError` if data were cut with another tokenizer than this one, of ``other``."""
    if data.tokenizer.fingerprint != tokenizer.fingerprint:
        raise InputError(_prepared_with(_TOKENIZER, data.place, other))


def _prepared_with(other: str, place: str, expected: str) -> str:
    return f"{place}: prepared with {other} than {expected}"
