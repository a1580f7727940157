"""Runs of other retrievers: which passages they found for which question, best first.

========  ========================================================================================
TREC      ``question Q0 passage rank score tag`` on each line, as trec_eval reads and Pyserini
          writes it
Pyserini  ``{question: {"contexts": [{"docid": ..., "score": ...}, ...], ...}, ...}``, its runs in
          DPR's format
========  ========================================================================================

A run has ids only. `read_passages` finds their texts.
"""

from __future__ import annotations

import math

from hardem_jax.data.json_fields import get_id, get_objects
from hardem_jax.data.json_stream import (
    PathLike,
    first_character,
    iter_json_entries,
    iter_lines,
)
from hardem_jax.errors import InputError

#: Passage ids of a question and their scores, None where the run has none; best first, each once.
Ranking = list[tuple[str, float | None]]

_FIELDS = "question, Q0, passage, rank, score and tag"


def read_run(path: PathLike, *, top: int) -> dict[str, Ranking]:
    """The best ``top`` passages of each question of a run, TREC's or Pyserini's.

    TREC's passages are ordered by score, as trec_eval does it; their rank is not read. Equal scores
    and Pyserini's passages keep the order of the file.
    """
    found = _pyserini(path) if first_character(path) == b"{" else _trec(path, top)
    kept = {question: _best(ranking, top) for question, ranking in found.items()}
    if not any(kept.values()):
        raise InputError(f"{path}: expected passages of questions, found none")
    return kept


def _trec(path: PathLike, top: int) -> dict[str, Ranking]:
    found: dict[str, Ranking] = {}
    for number, text in iter_lines(path):
        place, fields = f"{path}: line {number}", text.split()
        if not fields:
            continue
        if len(fields) != 6:
            raise InputError(f"{place}: expected {_FIELDS}, found {len(fields)} fields")
        ranking = found.setdefault(fields[0], [])
        ranking.append((fields[2], _score(fields[4], place)))
        # Runs hold up to a thousand passages of a question.
        if len(ranking) > 4 * top:
            ranking[:] = _best(_by_score(ranking), top)
    return {question: _by_score(ranking) for question, ranking in found.items()}


def _score(text: str, place: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InputError(f"{place}: expected a number as score, found {text!r}")
    return score


def _by_score(ranking: Ranking) -> Ranking:
    return sorted(ranking, key=lambda one: -(one[1] or 0.0))


def _best(ranking: Ranking, top: int) -> Ranking:
    best: dict[str, float | None] = {}
    for id, score in ranking:
        best.setdefault(id, score)
    return list(best.items())[:top]


def _pyserini(path: PathLike) -> dict[str, Ranking]:
    found: dict[str, Ranking] = {}
    for question, record in iter_json_entries(path):
        place = f"{path}: {question!r}"
        ranking = found.setdefault(question, [])
        for entry in get_objects(record, "contexts", place):
            passage, score = get_id(entry, "docid", place), entry.get("score")
            if passage is None:
                raise InputError(f"{place}: expected a passage's id under 'docid', found none")
            ranking.append((passage, None if score is None else _score(str(score), place)))
    return found
