"""Multi-mention reading (Min et al., 2019, section 4.1): from batches to answers.

window -> batch -> SpanReader -> SpanDistribution -> log P(z) of every mention -> objective
at test:  windows of a question -> the one the selector likes best -> its likeliest span -> text
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from hardem_jax.data.batches import Batch, BatchConfig
from hardem_jax.data.prepared import Question
from hardem_jax.data.windows import Window, pad_windows
from hardem_jax.metrics import squad, triviaqa
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import Objective
from hardem_jax.tasks.shared import read_rows, size_group

Array = jax.Array
METRICS = {"squad": squad, "triviaqa": triviaqa}
#: Groups of |Z|, see `tasks.shared.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8)


def make_loss(graphdef: nnx.GraphDef, objective: Objective) -> Callable[..., tuple[Array, dict]]:
    """The loss of a training batch as a function of the reader's parameters.

    An item is a positive window and its negatives: it costs the objective over the mentions
    of the positive plus the selector's cross-entropy on all of its windows. The batch costs
    the mean over items.

    Args:
        graphdef: of a `SpanReader`, from `nnx.split`.
        objective: decides which mentions are trusted.

    Returns:
        ``loss(params, batch, *, step, key) -> (loss, metrics)``, both of float32 scalars.
    """

    def loss(params: Any, batch: Mapping[str, Array], *, step: Array, key: Array):
        dropout_key, objective_key = jax.random.split(key)
        reader: SpanReader = nnx.merge(graphdef, params)
        reading = reader(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = batch["solutions_where"]
        answerable = jnp.any(where, axis=-1)
        num_items = jnp.maximum(jnp.sum(answerable), 1)
        span_loss = objective(
            reading.spans.log_prob(batch["solutions"]), where=where, step=step, key=objective_key
        )
        selector_loss = optax.softmax_cross_entropy_with_integer_labels(
            reading.selector_logits, answerable.astype(jnp.int32)
        )
        selector_loss = jnp.sum(selector_loss, where=batch["row_where"]) / num_items
        metrics = {
            "span_loss": span_loss,
            "selector_loss": selector_loss,
            "hard": objective.is_hard(step=step, key=objective_key).astype(jnp.float32),
            "z_size": jnp.sum(where) / num_items,
        }
        return span_loss + selector_loss, metrics

    return loss


@dataclasses.dataclass(frozen=True)
class InferenceConfig:
    """How answers are read off.

    Attributes:
        max_answer_tokens: longest answer, wordpieces (released code: 10).
        top: spans kept per window.
        batch_size: windows read at once.
        joint: rank by P(window has the answer) * P(span); by default the window is chosen first
            and the span within it, as in the paper.
    """

    max_answer_tokens: int = 10
    top: int = 5
    batch_size: int = 32
    joint: bool = False


@dataclasses.dataclass(frozen=True)
class WindowReading:
    """What the reader says about one window.

    Attributes:
        log_prob_answerable: log P(the window holds the answer).
        texts: the likeliest spans, best first, each text once.
        log_probs: their log P(z | window).
        spans: their ``(document, start character, exclusive end)``.
        best_solution: index of the likeliest mention of Z; -1 if Z is empty.
    """

    log_prob_answerable: float
    texts: tuple[str, ...]
    log_probs: tuple[float, ...]
    spans: tuple[tuple[int, int, int], ...]
    best_solution: int


@dataclasses.dataclass(frozen=True)
class Answer:
    """One candidate answer to a question: its text, its place and its probability."""

    text: str
    span: tuple[int, int, int]
    probability: float


class SpanQA:
    """A reader ready to answer: compiled once per bucket, for any parameters of its shape.

    Args:
        graphdef: of a `SpanReader`.
        config: how answers are read off.
        batches: buckets to pad to; its batch size is not used.
        pad_id: of the tokenizer.
        place: puts a batch of numpy arrays on the devices.
    """

    def __init__(
        self,
        graphdef: nnx.GraphDef,
        config: InferenceConfig,
        *,
        batches: BatchConfig,
        pad_id: int,
        place: Callable[[Batch], Mapping[str, Array]] = lambda batch: batch,
    ):
        self._config = config
        self._batches = dataclasses.replace(batches, batch_size=config.batch_size)
        self._pad_id = pad_id
        self._place = place

        @jax.jit
        def read(params: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
            reader: SpanReader = nnx.merge(graphdef, params)
            reading = reader(batch)
            spans, log_probs = reading.spans.within(batch["context"]).top(
                config.top, max_length=config.max_answer_tokens
            )
            in_z = reading.spans.log_prob(batch["solutions"])
            in_z = jnp.where(batch["solutions_where"], in_z, -jnp.inf)
            return {
                "answerable": jax.nn.log_softmax(reading.selector_logits)[:, 1],
                "spans": spans,
                "log_probs": log_probs,
                "best_solution": jnp.argmax(in_z, axis=-1),
            }

        self._read = read

    def read(self, params: Any, windows: Sequence[Window], sizes: np.ndarray):
        """Yields ``(index, window, WindowReading)`` for every window, grouped by length.

        Args:
            params: of the reader.
            windows: by index.
            sizes: ``[N, 2]`` int, tokens and solutions of each.
        """
        num_solutions = self._batches.num_solutions(sizes)
        pad = functools.partial(pad_windows, num_solutions=num_solutions, pad_id=self._pad_id)
        rows = read_rows(
            self._read, params, windows, sizes, batches=self._batches, pad=pad, place=self._place
        )
        for index, out, _ in rows:
            window = windows[index]
            yield index, window, _window_reading(window, out)

    def answers(self, readings: Iterable[WindowReading]) -> list[Answer]:
        """The answers to one question, best first, each text once."""
        ranked = []
        for reading in readings:
            for text, log_prob, span in zip(
                reading.texts, reading.log_probs, reading.spans, strict=True
            ):
                joint = reading.log_prob_answerable + log_prob
                # The selector alone decides between windows, the span only within one.
                rank = (joint,) if self._config.joint else (reading.log_prob_answerable, log_prob)
                ranked.append((rank, Answer(text, span, float(np.exp(joint)))))
        ranked.sort(key=lambda pair: pair[0], reverse=True)
        seen: dict[str, Answer] = {}
        for _, answer in ranked:
            seen.setdefault(answer.text, answer)
        return list(seen.values())


def evaluate(
    task: SpanQA,
    params: Any,
    windows: Sequence[Window],
    sizes: np.ndarray,
    questions: Mapping[str, Question],
    *,
    metric: str,
) -> tuple[dict[str, float], dict[str, Answer]]:
    """Scores of a split, and the answer to each question.

    Returns:
        ``em`` and ``f1`` in percent of all questions, a question without answer counting 0;
        ``em |Z|=...`` by number of mentions; ``selector``, percent of windows whose selector is
        right; where the true mention is annotated, ``true z``, percent of windows with several
        mentions where the likeliest is the true one, and ``true z, not first``, the same where
        the true mention is not the first.
    """
    by_question = defaultdict(list)
    rights = defaultdict(list)
    for _, window, reading in task.read(params, windows, sizes):
        by_question[window.example_id].append(reading)
        likely = reading.log_prob_answerable > np.log(0.5)
        rights["selector"].append(likely == bool(len(window.solutions)))
        if window.true_solution >= 0 and len(window.solutions) > 1:
            right = reading.best_solution == window.true_solution
            rights["true z"].append(right)
            if window.true_solution > 0:
                rights["true z, not first"].append(right)
    answers = {}
    for example_id, readings in by_question.items():
        ranked = task.answers(readings)
        if ranked:
            answers[example_id] = ranked[0]
    golds = {question.id: question.golds for question in questions.values()}
    texts = {example_id: answer.text for example_id, answer in answers.items()}
    total = METRICS[metric].score(texts, golds)
    scores = {"em": total["em"], "f1": total["f1"]}
    scores |= _by_set_size(texts, questions, metric)
    scores |= {name: 100 * float(np.mean(right)) for name, right in rights.items()}
    return scores, answers


def _by_set_size(
    texts: Mapping[str, str], questions: Mapping[str, Question], metric: str
) -> dict[str, float]:
    """Exact match by |Z|, in ascending order."""
    groups = defaultdict(dict)
    for question in sorted(questions.values(), key=lambda question: question.num_solutions):
        group = size_group(question.num_solutions, SIZE_BOUNDS)
        groups[group][question.id] = question.golds
    scores = {}
    for group, golds in groups.items():
        own = {example_id: text for example_id, text in texts.items() if example_id in golds}
        scores[f"em |Z|={group}"] = METRICS[metric].score(own, golds)["em"]
    return scores


def _window_reading(window: Window, out: Mapping[str, np.ndarray]) -> WindowReading:
    texts: dict[str, tuple[float, tuple[int, int, int]]] = {}
    for (first, last), log_prob in zip(out["spans"], out["log_probs"], strict=True):
        if np.isfinite(log_prob):
            start = window.offsets[first - window.context_start, 0]
            end = window.offsets[last - window.context_start, 1]
            span = (window.document, window.text_start + int(start), window.text_start + int(end))
            # Ordered best first, so that the likeliest of equal texts stays.
            texts.setdefault(window.text[start:end], (float(log_prob), span))
    return WindowReading(
        log_prob_answerable=float(out["answerable"]),
        texts=tuple(texts),
        log_probs=tuple(log_prob for log_prob, _ in texts.values()),
        spans=tuple(span for _, span in texts.values()),
        best_solution=int(out["best_solution"]) if len(window.solutions) else -1,
    )
