"""Reads and writes questions with ranked passages in the layout of DPR and FiD.

    {"id": ..., "question": ..., "answers": [...], "ctxs": [
        {"id": ..., "title": ..., "text": ..., "score": ..., "has_answer": ...}, ...]}

A `.json` file holds a list of such objects, a `.jsonl` file one per line; they are distinguished by
their first character, not by name. `id`, `score` and `has_answer` are optional. Any retriever that
writes this layout can replace `hardem_jax.retrieval`, which also lists, at the end of the file, the
questions that it could not use, with id and reason only:

    {"id": ..., "question": "", "answers": [], "ctxs": [], "left_out": ...}
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hardem_jax.data.exclusions import EMPTY_DOCUMENT, NO_DOCUMENT, ExclusionCounts
from hardem_jax.data.files import make_out, new_file
from hardem_jax.data.json_fields import check_kind, distinct, get_field, get_id, get_strings, lacks
from hardem_jax.data.json_stream import PathLike, is_pyserini_run, iter_json_records
from hardem_jax.documents.examples import Document, OpenQuestion, Passage, ReadingExample
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.open_questions import QuestionCheck, file_stem

# Warning of `ExclusionCounts`, for questions kept:
REPEATED_PASSAGE = "passage listed twice"
# Key of a record that only gives the id of an unusable question and the reason.
_LEFT_OUT = "left_out"


def read_contexts(
    path: PathLike,
    *,
    num_passages: int | None = None,
    skips: ExclusionCounts,
    prepend_title: bool = False,
    require_answers: bool = True,
) -> Iterator[ReadingExample]:
    """Streams questions, each with its first passages as documents, as the retriever ranked them.

    A document's id is the passage's, or ``<question id>#<rank>`` if it has none or that of another
    text. ``prepend_title`` puts the title into a line before the text, so that an answer in it
    counts. ``require_answers=False`` keeps questions without an answer, for prediction.
    """
    for place, record, question in _questions(path, skips, require_answers):
        texts: dict[str, str] = {}  # by id; those of the file need not differ
        seen: set[Document] = set()
        entries = get_field(record, "ctxs", list, place)
        if entries is None:
            raise lacks(record, "a list under 'ctxs'", place)
        for rank, entry in enumerate(entries[:num_passages], start=1):
            where = f"{place}: 'ctxs' {rank}"
            document = _document(entry, f"{question.id}#{rank}", where, prepend_title)
            if not document.text.strip():
                skips.warn(EMPTY_DOCUMENT, f"{question.id}: {document.id}")
            elif document in seen:
                skips.warn(REPEATED_PASSAGE, f"{question.id}: {document.id}")
            else:
                seen.add(document)
                id, number = document.id, rank
                while id in texts:
                    id, number = f"{question.id}#{number}", number + 1
                texts[id] = document.text
        if texts:
            passages, golds = tuple(itertools.starmap(Document, texts.items())), question.answers
            yield ReadingExample(question.id, question.question, passages, distinct(golds), golds)
        else:
            skips.add(NO_DOCUMENT, question.id)


def write_contexts(
    path: PathLike,
    questions: Iterable[tuple[OpenQuestion, Sequence[Passage]]],
    *,
    left_out: ExclusionCounts | None = None,
) -> int:
    """Writes questions with their passages, best first, and returns their number. ``.json`` is
    written as a list, any other name as JSON lines; either with ``.gz``. Questions that the reader
    left out come last, so that scores can cover all questions."""
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    is_list = path.name.removesuffix(".gz").endswith(".json")
    start, between, end = ("[\n", ",", "]\n") if is_list else ("", "", "")
    total = count = 0
    make_out(path.parent)
    with new_file(path) as partial, opened(partial, "wt", encoding="utf-8", newline="\n") as file:
        file.write(start)
        for record in _all_records(questions, left_out):
            file.write((between if total else "") + json.dumps(record, ensure_ascii=False))
            file.write("\n")
            total += 1
            count += _LEFT_OUT not in record
        file.write(end)
    return count


def _all_records(
    questions: Iterable[tuple[OpenQuestion, Sequence[Passage]]], left_out: ExclusionCounts | None
) -> Iterator[dict[str, Any]]:
    for question, passages in questions:
        yield {
            "id": question.id,
            "question": question.question,
            "answers": question.answers,
            "ctxs": [
                {name: x for name, x in dataclasses.asdict(passage).items() if x is not None}
                for passage in passages
            ],
        }
    for id, reason in left_out.left_out if left_out else ():
        yield {"id": id, "question": "", "answers": [], "ctxs": [], _LEFT_OUT: reason}


def _questions(
    path: PathLike, skips: ExclusionCounts, require_answers: bool
) -> Iterator[tuple[str, dict[str, Any], OpenQuestion]]:
    """Yields (place, record, question) for every usable question."""
    if is_pyserini_run(path):
        raise InputError(
            f"{path}: expected questions with passages, as DPR and FiD write them, found a run of "
            "Pyserini; experiments.retrieve join --ranking adds the passages that it names"
        )
    check = QuestionCheck(skips, require_answers=require_answers)
    stem = file_stem(path)
    for number, place, record in iter_json_records(path):
        id = get_id(record, "id", place) or f"{stem}#{number}"
        place = f"{place} ({id})"
        if (reason := get_field(record, _LEFT_OUT, str, place)) is not None:
            skips.add(reason, id)
            continue
        if (text := get_field(record, "question", str, place)) is None:
            raise lacks(record, "a string under 'question'", place)
        question = check(id, text, get_strings(record, "answers", place))
        if question is not None:
            yield place, record, question


def _document(entry: Any, default_id: str, place: str, prepend_title: bool) -> Document:
    check_kind(entry, dict, f"{place}: expected")
    text = get_field(entry, "text", str, place)
    if text is None:
        raise lacks(entry, "a string under 'text'", place)
    title = get_field(entry, "title", str, place) or ""
    if prepend_title and title.strip() and text.strip():
        text = f"{title}\n{text}"
    return Document(get_id(entry, "id", place) or default_id, text)
