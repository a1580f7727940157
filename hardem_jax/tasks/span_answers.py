"""Answers of a span reader: the most likely spans of each window, and of all windows of a question.

The paper chooses a window by its selector and takes the most likely span of it. Spans can also be
weighed against each other across the windows of a document or of the whole question, which is
what a reader learns that was trained so (`hardem_jax.tasks.config.LatentConfig`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from hardem_jax.data.prepared.windows import Window
from hardem_jax.tasks.config import SpanInference


@dataclasses.dataclass(frozen=True)
class WindowReading:
    """What the reader says about one window.

    Attributes:
        log_prob_answerable: log P(the window holds the answer).
        texts: the most likely spans, best first, each text once.
        log_probs: their log P(z | window).
        spans: their ``(document, start character, exclusive end)``.
        log_partitions: logarithms of the window's sums over start and over end scores, by
            which spans of different windows can be compared.
        best_solution: index of the most likely mention of Z; -1 if Z is empty.
        true_solution: index of the annotated mention in Z; -1 if unknown.
        solutions: log P(z | window) of the mentions of Z, in its order.
    """

    log_prob_answerable: float
    texts: tuple[str, ...]
    log_probs: tuple[float, ...]
    spans: tuple[tuple[int, int, int], ...]
    log_partitions: tuple[float, float]
    best_solution: int
    true_solution: int = -1
    solutions: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Answer:
    """One candidate answer to a question.

    Attributes:
        text: of the answer.
        span: its ``(document, start character, exclusive end)``.
        probability: of the span, see `SpanInference.scope`.
        runners_up: the next answers, best first; empty unless they were asked for.
    """

    text: str
    span: tuple[int, int, int]
    probability: float
    runners_up: tuple[Answer, ...] = ()


@dataclasses.dataclass
class _Group:
    """Windows that share one softmax: the selector's best score, their sums, their spans."""

    answerable: float = -np.inf
    log_partitions: tuple[float, float] = (-np.inf, -np.inf)
    spans: dict[str, tuple[float, tuple[int, int, int]]] = dataclasses.field(default_factory=dict)


class AnswerPool:
    """The most likely answers to one question, from readings in any order.

    Args:
        config: what is compared with what.
        keep: answers needed; None for all. With a number, memory does not grow
            with the windows of a question (with its documents, where these are chosen).

    Example:
        >>> pool = AnswerPool(SpanInference(scope="question"))
        >>> for text, size in (("Oslo", 0.0), ("Rome", np.log(3.0))):
        ...     pool.add(WindowReading(0.0, (text,), (0.0,), ((0, 0, 4),), (size, 0.0), -1))
        >>> [(answer.text, round(answer.probability, 3)) for answer in pool.answers()]
        [('Rome', 0.375), ('Oslo', 0.125)]
    """

    def __init__(self, config: SpanInference, keep: int | None = None):
        self._config, self._keep = config, keep
        self._groups: dict[int, _Group] = {}
        self._count = 0

    def add(self, reading: WindowReading) -> None:
        """Adds a window; one without any span is ignored."""
        if not reading.spans:
            return
        self._count += 1
        scope = self._config.scope
        key = {"window": self._count, "document": reading.spans[0][0], "question": 0}[scope]
        group = self._groups.setdefault(key, _Group())
        group.answerable = max(group.answerable, reading.log_prob_answerable)
        start, end = map(np.logaddexp, group.log_partitions, reading.log_partitions)
        group.log_partitions = float(start), float(end)
        size = sum(reading.log_partitions)
        for text, log_prob, span in zip(
            reading.texts, reading.log_probs, reading.spans, strict=True
        ):
            if text not in group.spans or log_prob + size > group.spans[text][0]:
                group.spans[text] = log_prob + size, span
        self._prune(group)

    def answers(self) -> list[Answer]:
        """The answers, best first, each text once."""
        ranked = []
        for group in self._groups.values():
            total = sum(group.log_partitions)
            for text, (score, span) in group.spans.items():
                rank, log_prob = self._rank(group, score - total)
                ranked.append((rank, Answer(text, span, float(np.exp(log_prob)))))
        ranked.sort(key=lambda pair: pair[0], reverse=True)
        found: dict[str, Answer] = {}
        for _, answer in ranked:
            found.setdefault(answer.text, answer)
        return list(found.values())[: self._keep]

    def _rank(self, group: _Group, log_prob: float) -> tuple[tuple[float, ...], float]:
        """What a span is ordered by, and its log-probability."""
        if self._config.scope == "question":
            return (log_prob,), log_prob
        joint = group.answerable + log_prob
        # The selector decides between groups, span scores only within one.
        return ((joint,) if self._config.joint else (group.answerable, log_prob)), joint

    def _prune(self, group: _Group) -> None:
        """Forget what can no longer be among the answers that are kept."""
        if self._keep is None:
            return
        best = sorted(group.spans.items(), key=lambda item: item[1][0], reverse=True)
        group.spans = dict(best[: self._keep])
        # Texts may repeat from window to window, so that only the very best one is safe to choose.
        if self._config.scope == "window" and self._keep == 1 and len(self._groups) > 1:
            key = max(self._groups, key=lambda key: self._best(self._groups[key]))
            self._groups = {key: self._groups[key]}

    def _best(self, group: _Group) -> tuple[float, ...]:
        log_prob = max(score for score, _ in group.spans.values()) - sum(group.log_partitions)
        return self._rank(group, log_prob)[0]


def window_reading(window: Window, out: Mapping[str, np.ndarray]) -> WindowReading:
    """What the reader says about a window, from its row of `SpanTask.decode`."""
    texts: dict[str, tuple[float, tuple[int, int, int]]] = {}
    for (first, last), log_prob in zip(out["spans"], out["log_probs"], strict=True):
        if np.isfinite(log_prob):
            start = window.offsets[first - window.context_start, 0]
            end = window.offsets[last - window.context_start, 1]
            span = (window.document, window.text_start + int(start), window.text_start + int(end))
            # Ordered best first, so that the most likely of equal texts stays.
            texts.setdefault(window.text[start:end], (float(log_prob), span))
    return WindowReading(
        log_prob_answerable=float(out["answerable"]),
        texts=tuple(texts),
        log_probs=tuple(log_prob for log_prob, _ in texts.values()),
        spans=tuple(span for _, span in texts.values()),
        log_partitions=(float(out["log_partitions"][0]), float(out["log_partitions"][1])),
        best_solution=int(out["best_solution"]) if len(window.solutions) else -1,
        true_solution=window.true_solution,
        solutions=tuple(map(float, out["solutions"][: len(window.solutions)])),
    )
