"""Reader for NQ-open: `NQ-open.{train,dev,test}.jsonl` (Lee et al., 2019; Min et al., 2019).

    {"question": "who wrote the iliad", "answer": ["Homer"]}

one object per line. The official files have no question ids, so the line number serves as one. Some
copies of the data contain lists as strings ("[Lord 's, 'pub']"), in Python's notation without the
double quotes of answers with an apostrophe; `split_answers` parses them.

    who wrote the iliad<TAB>['Homer']

are the same questions as DPR has them (Karpukhin et al., 2020), in files named `.csv` or `.tsv`.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_fields import check_kind, get_field, get_id, get_strings
from hardem_jax.data.json_stream import PathLike, iter_json_lines, long_csv_fields, read_text
from hardem_jax.documents.examples import OpenQuestion
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.open_questions import IdCheck, find_defect

# Warning of `ExclusionCounts`, for questions kept:
ANSWERS_AS_TEXT = "list of answers written as one string"


def read_nq_open(
    path: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a file, in order.

    A question's id is its ``id``, or the file's stem and the line number: ``NQ-open.dev#12``. Files
    named ``.csv`` and ``.tsv`` are DPR's. ``require_answers=False``, for prediction, keeps
    questions without an answer, and also reads Pyserini's topics in ``.tsv``.
    """
    check, stem = IdCheck(skips), file_stem(path)
    separated = Path(path).name.removesuffix(".gz").endswith((".csv", ".tsv"))
    records = _separated(path, require_answers) if separated else iter_json_lines(path)
    for number, record in records:
        place = f"{path}: line {number}"
        if missing := [key for key in ("question", "answer") if key not in record]:
            # Files for prediction may lack answers, but never questions.
            if require_answers or "question" in missing:
                raise InputError(
                    f"{place}: expected 'question' and 'answer', found no {missing[0]!r}"
                )
        question = get_field(record, "question", str, place) or ""
        id = get_id(record, "id", place) or f"{stem}#{number}"
        answers = _answers(record, place, id, skips)
        if reason := find_defect(question, answers, require_answers=require_answers):
            skips.add(reason, id)
        else:
            check(id)
            yield OpenQuestion(id, question, answers)


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
            yield number, {"question": fields[0], "answer": _python_list(fields[1], place)}
        elif require_answers:
            raise InputError(
                f"{place}: expected a question and a list of answers, as in DPR's files, found "
                f"{fields[1]!r}; topics (id and question, as Pyserini's) have no answers and are "
                "read with --no-answers"
            )
        else:
            yield number, {"id": fields[0], "question": fields[1]}


def _python_list(text: str, place: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"{place}: expected a list of answers, found {text!r}") from error


def split_answers(text: str) -> tuple[str, ...]:
    """Splits a list that was written as one string and lost its double quotes.

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
    items: list[str] = []
    waiting = ""
    for piece in inner[1:-1].split(", "):
        piece = waiting + piece
        waiting = ""
        if items and _is_open(items[-1]) and piece[:1] != "'" and piece[-1:] == "'":
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


def _is_open(item: str) -> bool:
    return item.startswith("'") and not _is_quoted(item)


def _answers(
    record: dict[str, Any], place: str, id: str, skips: ExclusionCounts
) -> tuple[str, ...]:
    answer = record.get("answer")
    if not isinstance(answer, str):
        return get_strings(record, "answer", place)
    skips.warn(ANSWERS_AS_TEXT, id)
    return split_answers(check_kind(answer, str, f"{place}: expected 'answer' to be"))


def file_stem(path: PathLike) -> str:
    """A file's name without `.gz`, `.jsonl`, `.json`, `.csv` and `.tsv`."""
    name = Path(path).name
    for suffix in (".gz", ".jsonl", ".json", ".csv", ".tsv"):
        name = name.removesuffix(suffix)
    return name
