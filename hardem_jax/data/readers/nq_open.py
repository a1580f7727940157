"""Reader for NQ-open: `NQ-open.{train,dev,test}.jsonl` (Lee et al., 2019; Min et al., 2019).

    {"question": "who wrote the iliad", "answer": ["Homer"]}

one object a line. The files have no question ids, so the line's number makes one. Copies are
around in which answers with an apostrophe turned the list into a string ("[Lord 's, 'pub']"), as
Python writes a list, with the double quotes lost; `split_answers` takes it apart again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.examples import OpenQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_fields import check_kind, get_field, get_strings
from hardem_jax.data.json_stream import PathLike, iter_json_lines
from hardem_jax.data.readers.open_questions import defect_of
from hardem_jax.errors import InputError

# Warning of `ExclusionCounts`, for questions kept:
ANSWERS_AS_TEXT = "list of answers written as one string"


def read_nq_open(
    path: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a file, in its order.

    A question's id is the file's name up to its last endings and the line's number from
    1: ``NQ-open.dev#12``.

    Args:
        path: a ``.jsonl`` file, or the same with ``.gz``.
        skips: counts what is left out, by id: empty question, no word left in the question
            after normalisation, no answer given. Warned of, with the question kept: answers
            that are one string, taken apart by `split_answers`.
        require_answers: True leaves out questions without an answer. False, for
            prediction, yields them with ``answers=()``.

    Raises:
        InputError: the file is missing or not in this layout, or a value has the wrong type.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "NQ-open.dev.jsonl")
        ...     _ = file.write_text('{"question": "who wrote the iliad", "answer": ["Homer"]}')
        ...     list(read_nq_open(file, skips=ExclusionCounts()))
        [OpenQuestion(id='NQ-open.dev#1', question='who wrote the iliad', answers=('Homer',))]
    """
    stem = file_stem(path)
    for number, record in iter_json_lines(path):
        place = f"{path}: line {number}"
        if missing := [key for key in ("question", "answer") if key not in record]:
            # A file for prediction may come without answers, never without questions.
            if require_answers or "question" in missing:
                raise InputError(f"{place}: expected 'question' and 'answer', no {missing[0]!r}")
        question = get_field(record, "question", str, place) or ""
        id = f"{stem}#{number}"
        answers = _answers(record, place, id, skips)
        if reason := defect_of(question, answers, require_answers=require_answers):
            skips.add(reason, id)
        else:
            yield OpenQuestion(id, question, answers)


def split_answers(text: str) -> tuple[str, ...]:
    """The items of a list written as one string, whose double quotes were lost.

    Python writes an item with an apostrophe in double quotes and any other in single
    ones, so that what has no quotes must have an apostrophe. A piece between commas that
    has none of either is therefore a part of its neighbour: of the one before if that
    is without quotes itself, else of the one after. A piece that opens a quote and a later
    one that closes it are one item with a comma inside. A text without brackets is one item.

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
    """A file's name without the endings that say how it is written.

    Example:
        >>> file_stem("data/NQ-open.dev.jsonl.gz")
        'NQ-open.dev'
    """
    name = Path(path).name
    for suffix in (".gz", ".jsonl", ".json"):
        name = name.removesuffix(suffix)
    return name
