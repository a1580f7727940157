"""Reading for answers of several spans, as in Quoref: sets of mentions (Segal et al., 2020).

window -> batch -> TaggedReader -> TaggingDistribution -> log P(z) of every tagging -> objective
at test:  windows of a question -> the one that the selector ranks first -> its tagging -> texts

A z marks every text of the answer at one or more of its mentions, and nothing else
(`hardem_jax.span_sets.solutions`). Windows are read one by one, each with a Z of its own.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import Inputs, Pad
from hardem_jax.documents.mentions import alias_forms
from hardem_jax.documents.metrics import by_set_size, metric_module, official, official_by_question
from hardem_jax.documents.prepared import TAGGINGS_FORMAT
from hardem_jax.documents.questions import (
    ReadingQuestions,
    WindowModel,
    check_tokenizer,
    golds_by_id,
    selector_loss_sum,
)
from hardem_jax.documents.windows import Window, WindowConfig
from hardem_jax.encoders.base import Encoder, token_metrics
from hardem_jax.objectives import Objective
from hardem_jax.span_sets.config import TaggedReaderConfig, TaggingInference
from hardem_jax.span_sets.distribution import marked_spans
from hardem_jax.span_sets.inputs import pad_taggings, tokens_of
from hardem_jax.span_sets.model import TaggedReader, TaggedReading
from hardem_jax.task.base import LossFn, ShownAnswer, Task, keys_of_part, visit_metrics, z_metrics
from hardem_jax.task.run_config import RunConfig

Array = jax.Array


class TaggingQuestions(ReadingQuestions):
    """Questions whose answers consist of several texts, with the windows of their documents."""

    FORMAT: ClassVar[str] = TAGGINGS_FORMAT


@dataclasses.dataclass(frozen=True)
class TaggedModel(WindowModel):
    """A reader of several spans on a pretrained encoder, see `TaggedReaderConfig`."""

    config: TaggedReaderConfig

    @staticmethod
    def module(config: TaggedReaderConfig, encoder: Encoder, *, seed: int) -> TaggedReader:
        return TaggedReader(encoder, rngs=nnx.Rngs(seed), num_tags=3 if config.tags == "bio" else 2)

    def pad(self, inputs: Any, num_solutions: int) -> Pad:
        del inputs
        return lambda rows, num_tokens: pad_taggings(
            rows,
            num_tokens,
            num_taggings=min(num_solutions, self.config.max_taggings),
            max_mentions=self.config.max_mentions,
            pad_id=self.tokenizer.pad_id,
        )


@dataclasses.dataclass(frozen=True)
class TaggedAnswer:
    """What the reader marks in one window.

    Attributes:
        log_prob_answerable: log P(the window holds the answer).
        texts: of its spans, in the order of the document, each once but for case, punctuation and
            articles; at least one, unless the window has no words.
        spans: ``(document, start character, exclusive end)`` of every span, also of the same text.
        log_prob: log P(z | window) of the tagging.
        solutions: log P(z | window) of the taggings of Z, in its order.
    """

    log_prob_answerable: float
    texts: tuple[str, ...]
    spans: tuple[tuple[int, int, int], ...]
    log_prob: float
    solutions: tuple[float, ...] = ()

    @property
    def probability(self) -> float:
        """P(the window holds the answer) * P(z | window)."""
        return float(np.exp(self.log_prob_answerable + self.log_prob))


@dataclasses.dataclass(frozen=True)
class TaggingTask(Task[TaggingQuestions, TaggedAnswer, dict[str, TaggedAnswer]]):
    """Answers are sets of spans of a document.

    Attributes:
        inference: how answers are read off.
        windows: how a document is cut to ask about it; prepared data are cut already.
    """

    NAME = "taggings"
    UNIT = "windows"
    QUESTIONS = TaggingQuestions
    MODELS = {TaggedReaderConfig: TaggedModel}
    PACKS = True
    SHARES = {
        **{f"{name} one": "questions with one text" for name in ("em", "f1")},
        **{f"{name} several": "questions with several texts" for name in ("em", "f1")},
        "num spans": "questions read",
        "selector": "windows",
    }

    inference: TaggingInference
    windows: WindowConfig = WindowConfig()

    @classmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        own = run.flags("inference", TaggingInference)
        return cls(dataclasses.replace(own, **inference), run.section("windows", WindowConfig))

    def save(self, data: TaggingQuestions) -> dict[str, Any]:
        return {"windows": data.window_sizes}

    def check(self, data: TaggingQuestions, model: TaggedModel, other: str) -> None:
        check_tokenizer(data, model.tokenizer, other)

    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Any) -> LossFn:
        del plan
        return make_tagging_loss(graphdef, objective)

    def decode(self, found: TaggedReading, batch: Mapping[str, Array]) -> dict[str, Array]:
        tags = found.taggings.mode(empty=False)
        own = jnp.take_along_axis(found.taggings.tags, tags[..., None], axis=-1)[..., 0]
        return {
            "answerable": jax.nn.log_softmax(found.selector_logits)[:, 1],
            "tags": tags,
            "log_prob": jnp.sum(own, axis=-1, where=batch["words_where"]),
            "solutions": found.taggings.log_prob(batch["mentions"], batch["solutions"]),
        }

    def reading(
        self,
        inputs: Sequence[Window],
        index: int,
        out: Mapping[str, Any],
        entries: Mapping[str, Any],
    ) -> TaggedAnswer:
        window = inputs[index]
        words = entries["words"][entries["words_where"]]
        spans = [tokens_of(window, words, *span) for span in marked_spans(out["tags"])]
        marked = [window.span_text(*span) for span in spans]
        texts = {alias_forms(text) or text: text for text in marked}
        return TaggedAnswer(
            log_prob_answerable=float(out["answerable"]),
            texts=tuple(texts.values()),
            spans=tuple(window.place(*span) for span in spans),
            log_prob=float(out["log_prob"]),
            solutions=tuple(map(float, out["solutions"][entries["solutions_where"]])),
        )

    def answers(self, readings: Iterable[TaggedAnswer]) -> list[TaggedAnswer]:
        """One of each window, as the selector ranks them; the same spans once."""
        some = [reading for reading in readings if reading.texts]
        found: dict[tuple[tuple[int, int, int], ...], TaggedAnswer] = {}
        for reading in sorted(some, key=lambda reading: -reading.log_prob_answerable):
            found.setdefault(reading.spans, reading)
        return list(found.values())

    def answer(self, readings: Iterable[TaggedAnswer]) -> TaggedAnswer | None:
        """That of the window which the selector ranks first; None without any."""
        return next(iter(self.answers(readings)), None)

    def score(
        self, data: TaggingQuestions, readings: Iterator[tuple[int, TaggedAnswer]]
    ) -> tuple[dict[str, float], dict[str, TaggedAnswer]]:
        """Scores of a split, and the answer to each question, by its id.

        Returns:
            The metric's own scores, ``em`` and ``f1``, in percent of all questions, those left out
            counting 0; the same of questions with ``one`` and with ``several`` texts; the first by
            |Z|, of the questions read. ``num spans``, percent of the questions read whose answer
            has as many texts as the gold. ``selector``, percent of windows whose selector is
            correct. No scores if the golds are not known.
        """
        by_question = defaultdict(list)
        hits = []
        for index, reading in sorted(readings, key=lambda pair: pair[0]):
            by_question[int(data.places[index, 0])].append(reading)
            likely = reading.log_prob_answerable > np.log(0.5)
            hits.append(likely == (data.windows.sizes[index, 1] > 0))
        best = {data.questions[n].id: self.answer(found) for n, found in by_question.items()}
        answers = {id: answer for id, answer in best.items() if answer is not None}
        if not data.scored:
            return {}, answers
        texts = {id: answer.texts for id, answer in answers.items()}
        golds = golds_by_id(data)
        scores = official(data.metric, texts, golds)
        for name, group in _by_count(golds).items():
            own = {id: found for id, found in texts.items() if id in group}
            scores |= {f"{n} {name}": x for n, x in official(data.metric, own, group).items()}
        scores |= by_set_size(texts, data.questions, data.metric)
        counts = [len(texts.get(q.id, ())) == _num_texts(q.golds) for q in data.questions]
        shares = {"num spans": counts, "selector": hits}
        scores |= {name: 100 * float(np.mean(own)) for name, own in shares.items() if own}
        return scores, answers

    def by_question(
        self, data: TaggingQuestions, answers: dict[str, TaggedAnswer]
    ) -> dict[str, np.ndarray]:
        texts = {id: answer.texts for id, answer in answers.items()}
        return official_by_question(data.metric, texts, golds_by_id(data))

    def metric_names(self, data: TaggingQuestions) -> set[str]:
        scores, _ = self.score(data, iter(()))
        return {*scores, "selector"}

    def describe(self, data: TaggingQuestions, inputs: Inputs) -> str:
        with_z = int((inputs.sizes[:, 1] > 0).sum())
        several = sum(_num_texts(question.golds) > 1 for question in data.questions)
        return (
            f"{len(data.questions)} questions, {several} of them with several texts, {with_z} "
            f"windows with and {len(inputs) - with_z} without all of them"
        )

    def shown(self, data: TaggingQuestions, answers: dict[str, TaggedAnswer]) -> list[ShownAnswer]:
        rows = []
        for question in data.questions:
            texts = answers[question.id].texts if question.id in answers else ()
            exact = metric_module(data.metric).exact_match(texts, question.golds) > 0
            gold = ", ".join(dict.fromkeys(question.golds))
            rows.append(ShownAnswer(question.question, gold, ", ".join(texts), exact))
        return rows


def make_tagging_loss(graphdef: nnx.GraphDef, objective: Objective) -> LossFn:
    """The loss of a training batch as a function of the reader's parameters.

    A window with a Z costs the objective over its taggings, and every window the selector's
    cross-entropy; their sum is divided by the number of windows with a Z.

    Args:
        graphdef: of a `TaggedReader`, from `nnx.split`.
        objective: decides which taggings are trusted.

    Returns:
        See `hardem_jax.task.base.make_loss`.
    """

    def loss(params: Any, batch: Mapping[str, Any], *, step: Array, key: Array, dropout_key: Array):
        key, dropout_key = keys_of_part(objective, key, dropout_key)
        reading = nnx.merge(graphdef, params)(batch, rngs=nnx.Rngs(dropout=dropout_key))
        log_probs = reading.taggings.log_prob(batch["mentions"], batch["solutions"])
        # IO tags have no tagging for mentions that touch: what no tagging marks is no solution.
        where = batch["solutions_where"] & (log_probs != -jnp.inf)
        tag_loss, metrics = objective(log_probs, step=step, key=key, where=where)
        metrics |= z_metrics(log_probs, where)
        selector_loss = selector_loss_sum(reading.selector_logits, batch["holds"], batch)
        selector_loss /= jnp.maximum(metrics["items"], 1)
        metrics |= {
            "tag_loss": tag_loss,
            "selector_loss": selector_loss,
            **token_metrics(batch),
            **visit_metrics(log_probs, where, memory=batch.get("memory")),
        }
        return tag_loss + selector_loss, metrics

    return loss


def _num_texts(golds: Sequence[str]) -> int:
    """How many different texts an answer consists of, but for case, punctuation and articles."""
    return len({alias_forms(gold) or gold for gold in golds})


def _by_count(golds: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Sequence[str]]]:
    """The questions whose answers have one and several texts, by name; none is empty."""
    groups: dict[str, dict[str, Sequence[str]]] = {}
    for id, own in golds.items():
        if own:
            groups.setdefault("several" if _num_texts(own) > 1 else "one", {})[id] = own
    return groups


TASK = TaggingTask
