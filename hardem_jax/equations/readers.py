"""Readers of numeric questions: DROP in its official layout, and rows of your own.

DROP (Dua et al., 2019; Min et al., 2019, section 4.2):

    {passage_id: {"passage": ..., "qa_pairs": [
        {"query_id", "question", "answer": ANSWER, "validated_answers": [ANSWER, ...]}, ...]}, ...}

    ANSWER = {"number": "53000", "date": {"day": "", "month": "", "year": ""}, "spans": []}

One of number, date and spans is filled in; blank is "" or []. DROP_num is the questions
whose answer's number is filled in. Further annotators' answers, the
`validated_answers`, count for the official metric only.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from hardem_jax.data.exclusions import (
    EMPTY_DOCUMENT,
    EMPTY_QUESTION,
    NO_ANSWER,
    NO_ID,
    REPEATED_ID,
    SEVERAL_SPANS,
    ExclusionCounts,
    with_help,
)
from hardem_jax.data.json_fields import get_field, get_id, get_objects, get_strings, json_type
from hardem_jax.data.json_stream import PathLike, iter_json_entries
from hardem_jax.data.rows import USUAL, Columns, read_rows
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.solutions.enumeration import format_number
from hardem_jax.equations.solutions.numbers import NumberConfig, find_numbers, parse_number
from hardem_jax.errors import InputError

# Reasons of `ExclusionCounts`, for questions left out:
ONE_SPAN = "answer is a text span"
DATE = "answer is a date"
NOT_A_NUMBER = with_help("answer is not a number", "write digits, such as -1,234.5, without a unit")
TOO_LARGE = "answer too large for float64"
#: Of these, questions that are not about numbers; all others belong to DROP_num and its scores.
OUTSIDE_DROP_NUM = frozenset({ONE_SPAN, SEVERAL_SPANS, DATE})
# and warnings, for questions kept:
CUT = "passage cut to its first words"
NO_NUMBERS = "passage without numbers"
REPEATED = "question id occurs again"

_PARTS_OF_DATE = ("day", "month", "year")


def read_drop(
    file: PathLike,
    *,
    skips: ExclusionCounts,
    max_words: int | None = 400,
    numbers: NumberConfig | None = None,
) -> Iterator[NumericExample]:
    """Streams the questions of a DROP file whose answer is a number.

    One passage is in memory at a time. A number may have thousands commas and a sign.

    Args:
        file: the JSON file, or the same with `.gz`.
        skips: counts what is left out. Left out, with the question's id: no question id, empty
            question, empty document (each question on it); no answer given; answer is a text span,
            several, or a date; answer is not a number, or too large for float64. Warned of, with
            the question kept: passage cut; passage without numbers; question id that occurred
            before (the official files repeat questions, some with the answers of their annotators
            in another order, and the official evaluator counts each).
        max_words: passages are cut after so many words (Min et al., 2019, section 5.2) unless None.
        numbers: what counts as a number in the text, for the warnings.

    Raises:
        InputError: the file is missing or not in this layout, or a value has the wrong type.
    """
    records = ((f"{file}: {id}", id, record) for id, record in iter_json_entries(file))
    return _examples(records, skips, max_words, numbers)


def read_number_rows(
    file: PathLike,
    *,
    skips: ExclusionCounts,
    columns: Columns = USUAL,
    max_words: int | None = None,
    numbers: NumberConfig | None = None,
    digits: int = 5,
) -> Iterator[NumericExample]:
    """Streams the questions of a file with one row for each, see `hardem_jax.data.rows`.

    Of several answers, Z is that of the first, and the official metric takes any. As that compares
    texts, golds are written as a model's answers are, with ``digits`` decimals: 1234.5 for
    "1,234.50". Of rows with the same id, the first is used. ``columns`` says what its columns are
    called; otherwise as `read_drop`.

    Example:
        >>> import pathlib, tempfile
        >>> skips = ExclusionCounts()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "games.csv")
        ...     _ = file.write_text("text,question,number\\nA 41-yard goal.,How long?,41\\n")
        ...     (example,) = read_number_rows(file, skips=skips)
        >>> example.id, example.answer
        ('games-0', 41.0)
    """

    def records() -> Iterator[tuple[str, str, dict[str, Any]]]:
        seen: set[str] = set()
        for place, row in read_rows(file, columns, "text"):
            if row["id"] in seen:  # not one of DROP's, which the official metric counts again
                skips.add(REPEATED_ID, row["id"])
                continue
            seen.add(row["id"])
            first, *others = [{"number": answer} for answer in row["answers"] or [""]]
            pair = {"query_id": row["id"], "question": row["question"]}
            pair |= {"answer": first, "validated_answers": others}
            yield place, row["id"], {"passage": row["text"], "qa_pairs": [pair]}

    def answered(gold: dict[str, Any]) -> dict[str, Any]:
        value = parse_number(gold["number"])
        if value is None or not math.isfinite(value):
            return gold
        return gold | {"number": format_number(value, digits)}

    for example in _examples(records(), skips, max_words, numbers):
        yield dataclasses.replace(example, golds=tuple(map(answered, example.golds)))


def _examples(
    records: Iterable[tuple[str, str, dict[str, Any]]],
    skips: ExclusionCounts,
    max_words: int | None,
    numbers: NumberConfig | None,
) -> Iterator[NumericExample]:
    """The questions of (place, id, record) of passages, as far as they can be used."""
    seen: set[str] = set()
    for place, passage_id, record in records:
        whole = get_field(record, "passage", str, place) or ""
        passage = whole if max_words is None else whole[: cut_after_words(whole, max_words)]
        defects = {CUT} if len(passage) < len(whole) else set()
        if not find_numbers(passage, numbers):
            defects.add(NO_NUMBERS)
        for number, qa in enumerate(get_objects(record, "qa_pairs", place, required=True)):
            example = _example(qa, passage_id, passage, f"{place}, question {number}", skips)
            if example is None:
                continue
            found = defects | ({REPEATED} if example.id in seen else set())
            seen.add(example.id)
            for defect in sorted(found):
                skips.warn(defect, example.id)
            yield example


def cut_after_words(text: str, max_words: int) -> int:
    """The offset after the last of the first `max_words` words, which white space separates.

    Example:
        >>> text = "A 41-yard  field goal."
        >>> text[: cut_after_words(text, 3)], cut_after_words(text, 4) == len(text)
        ('A 41-yard  field', True)
    """
    for count, match in enumerate(re.finditer(r"\S+", text), start=1):
        if count == max_words:
            # White space at the end is no reason to call a text too long.
            return match.end() if text[match.end() :].strip() else len(text)
    return len(text)


def _example(
    record: dict[str, Any], passage_id: str, passage: str, place: str, skips: ExclusionCounts
) -> NumericExample | None:
    question_id = get_id(record, "query_id", place)
    if question_id is None:
        return skips.add(NO_ID, place)
    place = f"{place} ({question_id})"
    question = get_field(record, "question", str, place) or ""
    golds = tuple(_golds(record, place))
    if not question.strip():
        return skips.add(EMPTY_QUESTION, question_id)
    if not passage.strip():
        return skips.add(EMPTY_DOCUMENT, question_id)
    if not golds or not any((golds[0]["number"], *golds[0]["date"].values(), golds[0]["spans"])):
        return skips.add(NO_ANSWER, question_id)
    number = golds[0]["number"]
    if not number:
        spans = golds[0]["spans"]
        reason = (ONE_SPAN if len(spans) == 1 else SEVERAL_SPANS) if spans else DATE
        return skips.add(reason, question_id)
    answer = parse_number(number)
    if answer is None:
        return skips.add(NOT_A_NUMBER, question_id, f"{number!r:.60}")
    if not math.isfinite(answer):
        return skips.add(TOO_LARGE, question_id)
    return NumericExample(question_id, passage_id, passage, question, answer, golds)


def _golds(record: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
    """The answer, if there is one, and the validated answers that are filled in."""
    answer = get_field(record, "answer", dict, place)
    if answer is None:
        return
    yield _gold(answer, f"{place}, answer")
    for other in get_objects(record, "validated_answers", place):
        yield _gold(other, f"{place}, validated answer")


def _gold(answer: dict[str, Any], place: str) -> dict[str, Any]:
    date = get_field(answer, "date", dict, place) or {}
    return {
        "number": _number_text(answer, place),
        "date": {part: get_field(date, part, str, place) or "" for part in _PARTS_OF_DATE},
        "spans": list(get_strings(answer, "spans", place)),
    }


def _number_text(answer: dict[str, Any], place: str) -> str:
    """The number as a string; some files have it as a JSON number."""
    number = answer.get("number")
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        return str(number)
    if number is not None and not isinstance(number, str):
        expected = "expected 'number' to be a string or a number"
        raise InputError(f"{place}: {expected}, found {json_type(number)}")
    return (get_field(answer, "number", str, place) or "").strip()
