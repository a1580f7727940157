"""Answers of a span reader: the most likely spans of a window, and of all windows of a question.

The paper chooses a window by its selector and takes the most likely span of it. Spans can also be
weighed against each other across the windows of a document or of the whole question, which is
what a reader learns that was trained so (`hardem_jax.spans.config.LatentConfig`).

Where windows offer the choice "unknown", it competes like any span, and as an answer it is "".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from hardem_jax.documents.windows import Window
from hardem_jax.spans.config import SpanInference


@dataclasses.dataclass(frozen=True)
class WindowReading:
    """What the reader says about one window: log P(it holds the answer), its best spans, its Z.

    ``texts`` are the most likely spans, best first, each text once; ``spans`` their `Window.place`.
    ``log_partitions``, logarithms of the sums over start and over end scores, make spans of
    different windows comparable. ``best_solution`` and the annotated ``true_solution`` are indices
    in Z or -1; ``solutions`` is log P(z | window) of Z, in its order.
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
        span: its ``(document, start character, exclusive end)``; of a choice, which is in no
            document, start and end are below 0.
        probability: of the span, see `SpanInference.scope`.
        no_answer: probability that there is no answer, see `SpanInference.no_answer_threshold`;
            None where "unknown" is no choice.
        runners_up: the next answers, best first; empty unless they were asked for.
    """

    text: str
    span: tuple[int, int, int]
    probability: float
    no_answer: float | None = None
    runners_up: tuple[Answer, ...] = ()

    @property
    def is_choice(self) -> bool:
        """Whether it is one of the choices instead of a part of a document."""
        return self.span[1] < 0


@dataclasses.dataclass
class _Group:
    """Windows that share one softmax: the selector's best score, their sums, their spans."""

    answerable: float = -np.inf
    log_partitions: tuple[float, float] = (-np.inf, -np.inf)
    spans: dict[str, tuple[float, tuple[int, int, int]]] = dataclasses.field(default_factory=dict)


class AnswerPool:
    """The most likely answers to one question, from readings in any order. ``keep`` limits their
    number: of the question, or of each document or window where these are chosen."""

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
        return self._ranked()[: self._keep]

    def best(self) -> Answer | None:
        """The first of the answers, with the others as its runners-up; None without any."""
        first, *others = self.answers() or [None]
        return first and dataclasses.replace(first, runners_up=tuple(others))

    def best_span(self) -> str:
        """The text of the best answer other than that there is none; "" without any."""
        return next((answer.text for answer in self._ranked() if answer.text), "")

    def _ranked(self) -> list[Answer]:
        ranked = []
        for group in self._groups.values():
            total = sum(group.log_partitions)
            for text, (score, span) in group.spans.items():
                rank, log_prob = self._rank(group, score - total)
                ranked.append((rank, Answer(text, span, float(np.exp(log_prob)))))
        ranked.sort(key=lambda pair: pair[0], reverse=True)
        found: dict[str, tuple[tuple[float, ...], Answer]] = {}
        for rank, answer in ranked:
            found.setdefault(answer.text, (rank, answer))
        if "" not in found:
            return [answer for _, answer in found.values()]
        return self._with_threshold(found)

    def _with_threshold(self, found: dict[str, tuple[tuple[float, ...], Answer]]) -> list[Answer]:
        """The answers, of which "" is one, best first."""
        spans = [text for text in found if text]
        chance = 1.0
        if spans:
            # Both are of the same window, or of the same document, wherever that is chosen first.
            odds = found[""][0][-1] - found[spans[0]][0][-1]
            chance = float(np.exp(-np.logaddexp(0.0, -odds)))
        order = list(found)
        if chance > self._config.no_answer_threshold:
            order = ["", *spans]
        elif not order[0]:
            order[:2] = order[1::-1]
        return [dataclasses.replace(found[text][1], no_answer=chance) for text in order]

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
        spans = [item for item in group.spans.items() if item[0]]
        best = sorted(spans, key=lambda item: item[1][0], reverse=True)[: self._keep]
        group.spans = dict([*best, *(item for item in group.spans.items() if not item[0])])
        # Texts may repeat from window to window, so that only the very best one is safe to choose.
        if self._config.scope == "window" and self._keep == 1 and len(self._groups) > 1:
            kept = {self._best(silent=True), self._best(silent=False)}
            self._groups = {k: group for k, group in self._groups.items() if k in kept}

    def _best(self, *, silent: bool) -> int | None:
        """The group with the best span, or where "" is best; None if no group has any."""
        ranks = {}
        for key, group in self._groups.items():
            scores = [score for text, (score, _) in group.spans.items() if silent != bool(text)]
            if scores:
                ranks[key] = self._rank(group, max(scores) - sum(group.log_partitions))[0]
        return max(ranks, key=lambda key: ranks[key], default=None)


def window_reading(window: Window, out: Mapping[str, np.ndarray]) -> WindowReading:
    """What the reader says about a window, from its row of `SpanTask.decode`."""
    texts: dict[str, tuple[float, tuple[int, int, int]]] = {}
    for (first, last), log_prob in zip(out["spans"], out["log_probs"], strict=True):
        if np.isfinite(log_prob):
            # Ordered best first, so that the most likely of equal texts stays.
            place = window.place(first, last)
            texts.setdefault(window.span_text(first, last), (float(log_prob), place))
    if (unknown := window.unknown) is not None:
        texts[""] = float(out["no_answer"]), unknown
        texts = dict(sorted(texts.items(), key=lambda item: item[1][0], reverse=True))
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


def best_thresholds(
    pools: Mapping[str, AnswerPool], golds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """The best scores of SQuAD 2.0 that any `SpanInference.no_answer_threshold` leads to."""
    found = {id: pool.answers() for id, pool in pools.items()}
    chances = {id: answers[0].no_answer for id, answers in found.items() if answers}
    from hardem_jax.documents.metrics import squad2

    return squad2.best_thresholds(
        {id: pool.best_span() for id, pool in pools.items()},
        golds,
        {id: chance for id, chance in chances.items() if chance is not None},
    )
