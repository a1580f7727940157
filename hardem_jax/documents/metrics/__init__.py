"""Scores of a split of questions with documents: its official metric, whole and by |Z|."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardem_jax.metrics import COUNTS
from hardem_jax.task.base import size_group

if TYPE_CHECKING:
    from hardem_jax.documents.prepared import Question

#: Groups of |Z|, see `task.base.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8)


def metric_module(metric: str) -> Any:
    """The module of an official metric, which no other data set needs."""
    return importlib.import_module(f"hardem_jax.documents.metrics.{metric}")


def official(
    metric: str, texts: Mapping[str, Any], golds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """The metric's scores without its counts, in percent; of texts, or sequences of them."""
    found = metric_module(metric).score(texts, golds)
    return {name: value for name, value in found.items() if name not in COUNTS}


def official_by_question(
    metric: str, texts: Mapping[str, Any], golds: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """The scores of `official` of each question; without those that only some questions have."""
    scores = defaultdict(list)
    for id, own in golds.items():
        text = {id: texts[id]} if id in texts else {}
        for name, value in official(metric, text, {id: own}).items():
            scores[name].append(value)
    every = {name: values for name, values in scores.items() if len(values) == len(golds)}
    return {name: np.array(values, np.float64) for name, values in every.items()}


def by_set_size(
    texts: Mapping[str, Any], questions: Sequence[Question], metric: str
) -> dict[str, float]:
    """The metric's first score by |Z|, in ascending order."""
    groups = defaultdict(dict)
    for question in sorted(questions, key=lambda question: question.num_solutions):
        group = size_group(question.num_solutions, SIZE_BOUNDS)
        groups[group][question.id] = question.golds
    scores = {}
    for group, golds in groups.items():
        own = {example_id: text for example_id, text in texts.items() if example_id in golds}
        name, value = next(iter(metric_module(metric).score(own, golds).items()))
        scores[f"{name} |Z|={group}"] = value
    return scores
