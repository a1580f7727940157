"""Readers for passage collections, DPR's TSV, JSON lines or a JSON list, and runs on them.

    id<TAB>text<TAB>title                       after a header; quoted fields may have line breaks
    {"id": ..., "title": ..., "text": ...}      one per line; `contents` (Pyserini) for `text`,
                                                which may have the title in its first line

A file without these columns is an error. A bad row in an otherwise good file is counted, and
reading continues with the next line, even after a quotation mark that is never closed.

A run says by id which passages a retriever found for which question, best first:

========  ========================================================================================
TREC      ``question Q0 passage rank score tag`` on each line, as trec_eval reads and Pyserini
          writes it
Pyserini  ``{question: {"contexts": [{"docid": ..., "score": ...}, ...], ...}, ...}``, its runs in
          DPR's format
========  ========================================================================================
"""

from __future__ import annotations

import csv
import math
import re
from collections import deque
from collections.abc import Container, Iterator

from hardem_jax.data.exclusions import EMPTY_DOCUMENT, ExclusionCounts
from hardem_jax.data.json_fields import get_field, get_id, get_objects, lacks
from hardem_jax.data.json_stream import (
    PathLike,
    first_character,
    iter_json_entries,
    iter_json_records,
    iter_lines,
    long_csv_fields,
)
from hardem_jax.documents.examples import Passage
from hardem_jax.errors import InputError

# Reasons of `ExclusionCounts`, for passages left out:
NO_PASSAGE_ID = "no passage id"
BAD_FIELDS = "row with another number of fields"
BAD_QUOTES = "row with a quotation mark out of place or never closed"
REPEATED_ID = "passage id occurs again"

_COLUMNS = ("id", "text", "title")
# Of one row, if a quotation mark was not closed in its first line.
_MOST_LINES = 1000
# With which Pyserini begins the passages of DPR's Wikipedia.
_TITLE_LINE = re.compile(r'"(?P<title>[^\n]*)"\n')

#: Passage ids of a question and their scores, None where the run has none; best first, each once.
Ranking = list[tuple[str, float | None]]


def read_passages(
    path: PathLike, *, skips: ExclusionCounts, only: Container[str] | None = None
) -> Iterator[Passage]:
    """Streams the passages of a file: JSON if named `.jsonl` or `.json`, else TSV, also ``.gz``.
    `skips` counts what is left out: another number of fields than the header, misplaced quotation
    marks, no id, no text, an id seen before. Passages that are not in `only` take no memory."""
    is_json = str(path).removesuffix(".gz").endswith((".jsonl", ".json"))
    rows = _json_rows(path) if is_json else _tsv_rows(path, skips)
    seen: set[str] = set()
    for place, passage in rows:
        if not passage.id:
            skips.add(NO_PASSAGE_ID, place)
        elif only is not None and passage.id not in only:
            continue
        elif not passage.text.strip():
            skips.add(EMPTY_DOCUMENT, passage.id)
        elif passage.id in seen:
            skips.add(REPEATED_ID, passage.id)
        else:
            seen.add(passage.id)
            yield passage


def _json_rows(path: PathLike) -> Iterator[tuple[str, Passage]]:
    for _, place, record in iter_json_records(path):
        key = "text" if "text" in record else "contents"
        if key not in record:
            raise lacks(record, "'text' or 'contents'", place)
        id = get_id(record, "id", place) or get_id(record, "_id", place) or ""
        text = get_field(record, key, str, place) or ""
        title = get_field(record, "title", str, place) or ""
        if key == "contents" and not title and (first := _TITLE_LINE.match(text)):
            title, text = first["title"], text[first.end() :]
        yield place, Passage(id, title, text)


def _tsv_rows(path: PathLike, skips: ExclusionCounts) -> Iterator[tuple[str, Passage]]:
    lines = iter_lines(path)
    waiting: deque[tuple[int, str]] = deque()

    def take() -> tuple[int, str] | None:
        return waiting.popleft() if waiting else next(lines, None)

    def parse(first: str) -> list[str] | None:
        """The fields of the row that begins with a line; None if its quoting is broken, and the
        lines behind it come again."""
        if '"' not in first:
            return first.rstrip("\r\n").split("\t")
        pulled: list[tuple[int, str]] = []

        def row() -> Iterator[str]:
            yield first
            while len(pulled) < _MOST_LINES and (line := take()) is not None:
                pulled.append(line)
                yield line[1]

        try:
            with long_csv_fields():
                return next(csv.reader(row(), delimiter="\t", strict=True))
        except csv.Error:
            waiting.extendleft(reversed(pulled))
            return None

    header = parse((take() or (0, ""))[1]) or []
    if missing := [column for column in _COLUMNS if column not in header]:
        expected = f"expected the columns {', '.join(_COLUMNS)} in the first line"
        raise InputError(f"{path}: {expected}, found none named {missing[0]}")
    places = [header.index(column) for column in _COLUMNS]
    while (line := take()) is not None:
        number, text = line
        if not text.strip("\r\n"):
            continue
        fields = parse(text)
        if fields is None:
            skips.add(BAD_QUOTES, f"line {number}")
        elif len(fields) != len(header):
            skips.add(BAD_FIELDS, f"line {number}")
        else:
            id, passage, title = (fields[column] for column in places)
            yield f"{path}: line {number}", Passage(id.strip(), title, passage)


def read_run(path: PathLike, *, top: int) -> dict[str, Ranking]:
    """The best ``top`` passages of each question of a run, TREC's or Pyserini's. TREC's are ordered
    by score, not rank, as in trec_eval. Ties and Pyserini's passages keep the file's order."""
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
            expected = "expected question, Q0, passage, rank, score and tag"
            raise InputError(f"{place}: {expected}, found {len(fields)} fields")
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
