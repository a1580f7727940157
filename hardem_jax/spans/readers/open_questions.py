"""Readers of open-domain questions without passages, and what can be used of them.

    {"question": "who wrote the iliad", "answer": ["Homer"]}    NQ-open
    who wrote the iliad<TAB>['Homer']                           DPR

one question per line. NQ-open's official files (Lee et al., 2019) have no ids, so the line number
serves as one. Some copies contain lists as strings ("[Lord 's, 'pub']"), in Python's notation
without the double quotes of answers with an apostrophe; `split_answers` parses them. DPR has the
same questions (Karpukhin et al., 2020) in files named `.csv` or `.tsv`.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.exclusions import EMPTY_QUESTION, NO_ANSWER, ExclusionCounts
from hardem_jax.data.json_fields import get_field, get_id, get_strings
from hardem_jax.data.json_stream import PathLike, iter_json_lines, long_csv_fields, read_text
from hardem_jax.documents.examples import OpenQuestion
from hardem_jax.errors import InputError
from hardem_jax.words import ARTICLES, split_words

# Reason of `ExclusionCounts`, for questions left out:
NO_WORD = "no word left in the question after normalisation"
# and warnings, for questions kept:
REPEATED = "question id occurs again"
ANSWERS_AS_TEXT = "list of answers written as one string"


class QuestionCheck:
    """Makes a question of what a reader found, or counts why it cannot be used. Warns about
    repeated ids, because predictions are keyed by id."""

    def __init__(self, skips: ExclusionCounts, *, require_answers: bool):
        self._skips, self._require_answers = skips, require_answers
        self._seen: set[str] = set()

    def __call__(self, id: str, question: str, answers: tuple[str, ...]) -> OpenQuestion | None:
        if not question.strip():
            return self._skips.add(EMPTY_QUESTION, id)
        if ARTICLES.issuperset(split_words(question).forms):
            return self._skips.add(NO_WORD, id)
        if self._require_answers and not any(answer.strip() for answer in answers):
            return self._skips.add(NO_ANSWER, id)
        if id in self._seen:
            self._skips.warn(REPEATED, id)
        self._seen.add(id)
        return OpenQuestion(id, question, answers)


def read_nq_open(
    path: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a file of NQ-open, or of DPR if named ``.csv`` or ``.tsv``.

    A question's id is its ``id``, or the file's stem and the line number: ``NQ-open.dev#12``.
    ``require_answers=False``, for prediction, needs no answer, and reads Pyserini's ``.tsv``, too.
    """
    check = QuestionCheck(skips, require_answers=require_answers)
    stem = file_stem(path)
    separated = Path(path).name.removesuffix(".gz").endswith((".csv", ".tsv"))
    records = _separated(path, require_answers) if separated else iter_json_lines(path)
    for number, record in records:
        place = f"{path}: line {number}"
        # Files for prediction may lack answers, but never questions.
        for key in ("question", "answer") if require_answers else ("question",):
            if key not in record:
                raise InputError(f"{place}: expected 'question' and 'answer', found no {key!r}")
        text = get_field(record, "question", str, place) or ""
        id = get_id(record, "id", place) or f"{stem}#{number}"
        if isinstance(record.get("answer"), str):
            answers = split_answers(record["answer"])
            if answers != (record["answer"],):
                skips.warn(ANSWERS_AS_TEXT, id)
        else:
            answers = get_strings(record, "answer", place)
        if (question := check(id, text, answers)) is not None:
            yield question


def _separated(path: PathLike, require_answers: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of DPR's questions, and of Pyserini's topics, as those of NQ-open."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        place = f"{path}: line {number}"
        if not line.strip():
            continue
        with long_csv_fields():  # a line at a time: no quotation mark swallows the next
            fields = next(csv.reader([line.removesuffix("\r")], delimiter="\t"))
        if len(fields) != 2:
            expected = "expected a question and its answers, separated by a tab"
            raise InputError(f"{place}: {expected}, found {len(fields)} fields")
        if fields[1].lstrip().startswith("["):
            try:
                answers = ast.literal_eval(fields[1].strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
                expected = "expected a list of answers"
                raise InputError(f"{place}: {expected}, found {fields[1]!r}") from error
            yield number, {"question": fields[0], "answer": answers}
        elif require_answers:
            raise InputError(
                f"{place}: expected a question and a list of answers, as in DPR's files, found "
                f"{fields[1]!r}; topics (id and question, as Pyserini's) have no answers and are "
                "read with --no-answers"
            )
        else:
            yield number, {"id": fields[0], "question": fields[1]}


def split_answers(text: str) -> tuple[str, ...]:
    """Splits a list that was written as one string, in JSON or Python, some without double quotes.

    Python writes items with an apostrophe in double quotes and others in single quotes, so an
    item without quotes must contain an apostrophe. A piece between commas with neither quotes
    nor an apostrophe is therefore part of the item before, if that has no quotes either, else of
    the item after. A piece that opens a quote and a later one that closes it form one item with
    a comma inside. A text without brackets is one item.

    Example:
        >>> split_answers("['pub', 'Cannes , France', Lord 's, Landry 's , Inc.]")
        ('pub', 'Cannes , France', "Lord 's", "Landry 's , Inc.")
    """
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        return (text,)
    for parse in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = parse(inner)
            if all(isinstance(item, str | int | float) for item in found):
                return tuple(map(str, found))
    items: list[str] = []
    waiting = ""
    for piece in inner[1:-1].split(", "):
        piece = waiting + piece
        waiting = ""
        is_open = bool(items) and items[-1].startswith("'") and not _is_quoted(items[-1])
        if is_open and piece[:1] != "'" and piece[-1:] == "'":
            items[-1] += f", {piece}"
        elif "'" in piece:
            items.append(piece)
        elif items and not _is_quoted(items[-1]):
            items[-1] += f", {piece}"
        else:
            waiting = f"{piece}, "
    if waiting:
        items.append(waiting.removesuffix(", "))
    return tuple(item[1:-1] if _is_quoted(item) else item for item in items)


def _is_quoted(item: str) -> bool:
    return len(item) > 1 and item.startswith("'") and item.endswith("'")


def file_stem(path: PathLike) -> str:
    """A file's name without `.gz`, `.jsonl`, `.json`, `.csv` and `.tsv`."""
    return re.sub(r"(\.(jsonl?|csv|tsv))?(\.gz)?$", "", Path(path).name)
