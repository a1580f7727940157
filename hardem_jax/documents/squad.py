"""Reader for the SQuAD layout (Rajpurkar et al., 2016), also used by Quoref and many others.

    {"data": [{"title", "paragraphs": [{"context", "qas": [
        {"id", "question", "answers": [{"text", "answer_start"}, ...]}, ...]}, ...]}, ...]}

The layout does not define what several answers to one question mean. In SQuAD they come from
several annotators and any one is correct. In Quoref (Dasigi et al., 2019) one annotator marked
several spans that together form the answer: an argument, for the files do not show it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from hardem_jax.data.exclusions import (
    EMPTY_DOCUMENT,
    EMPTY_QUESTION,
    IMPOSSIBLE,
    MISPLACED_MENTION,
    NO_ANSWER,
    NO_ID,
    SEVERAL_SPANS,
    ExclusionCounts,
)
from hardem_jax.data.json_fields import distinct, get_field, get_id, get_objects, lacks
from hardem_jax.data.json_stream import PathLike, iter_json_items
from hardem_jax.data.rows import USUAL, Columns, as_row, column_of, raw_rows, row_id
from hardem_jax.documents.examples import UNKNOWN, Document, ReadingExample
from hardem_jax.documents.mentions import alias_forms
from hardem_jax.errors import InputError, require

AnswersAre = Literal["alternatives", "all required"]


@dataclass(frozen=True)
class _Rules:
    """Options that apply to every question of a file; the choices are in lower case."""

    skips: ExclusionCounts
    answers_are: AnswersAre
    require_answers: bool
    keep_several: bool
    choices: Collection[str]

    def __post_init__(self) -> None:
        require(self)
        object.__setattr__(self, "choices", frozenset(map(str.lower, self.choices)))


def read_squad_layout(
    file: PathLike,
    *,
    skips: ExclusionCounts,
    answers_are: AnswersAre = "alternatives",
    require_answers: bool = True,
    keep_several: bool = False,
    choices: Collection[str] = (),
) -> Iterator[ReadingExample]:
    """Streams the questions of a file in SQuAD's layout, each with its paragraph.

    `golds` are the answer texts, `aliases` the distinct ones, `true_mention` the first annotated
    answer. The document's id is "title#k", k counting the paragraphs of that title from 0. One
    article is in memory at a time. Rows instead of articles are read as by `read_squad_rows`.

    Args:
        file: the JSON file, optionally with `.gz`.
        skips: counts what is left out: no question id, empty question, empty document (each of
            its questions), marked impossible (SQuAD 2.0), no answer given, several answer spans
            required. Warning, with the question kept and `true_mention` None: `answer_start` does
            not point to the answer's text. It may be missing.
        answers_are: "alternatives" (SQuAD): any one answer is correct. "all required" (Quoref): a
            question with several distinct answer texts needs all of them, so no single span can
            answer it and it is left out, unless `keep_several`.
        require_answers: True leaves out questions without an answer. False, for prediction,
            yields them with `aliases=()` and `golds=()`.
        keep_several: keep the questions that need several answers, for a metric that gives partial
            credit, `hardem_jax.documents.metrics.quoref`.
        choices: answers that need no place in the paragraph, such as "yes" and "no", see
            `hardem_jax.documents.windows.WindowConfig`. With "unknown" among them, questions
            marked impossible, or answered "unknown", are kept: that is their alias, and their gold
            is "". What SQuAD 2.0 gives as ``plausible_answers`` is never read.

    Raises:
        InputError: the file is missing or not in this layout, or a value has the wrong type.
    """
    rules = _Rules(skips, answers_are, require_answers, keep_several, choices)
    paragraph_counts: Counter[str] = Counter()
    for index, article in iter_json_items(file, "data"):
        place = f"{file}: item {index} of 'data'"
        if "paragraphs" not in article and "question" in article:
            yield from _row_example(article, index, place, rules)
            continue
        title = get_field(article, "title", str, place) or f"article {index}"
        paragraphs = get_objects(article, "paragraphs", place, required=True)
        for number, paragraph in enumerate(paragraphs):
            at = f"{place}, paragraph {number}"
            text = get_field(paragraph, "context", str, at) or ""
            document = Document(f"{title}#{paragraph_counts[title]}", text)
            paragraph_counts[title] += 1
            for count, record in enumerate(get_objects(paragraph, "qas", at, required=True)):
                yield from _example(record, document, f"{at}, question {count}", rules)


# Fields of `Columns`, and what Hugging Face calls them.
_ROLES = {"id": "id", "question": "question", "text": "context", "answer": "answers"}


def read_squad_rows(
    file: PathLike,
    *,
    skips: ExclusionCounts,
    columns: Columns = USUAL,
    answers_are: AnswersAre = "alternatives",
    require_answers: bool = True,
    keep_several: bool = False,
    choices: Collection[str] = (),
) -> Iterator[ReadingExample]:
    """Streams the questions of a file with one row for each, see `hardem_jax.data.rows`.

    A row has a text, or is as in Hugging Face's data sets, where it may have annotated places:

        {"id", "title", "context", "question", "answers": {"text": [...], "answer_start": [...]}}

    Otherwise as `read_squad_layout`; a document's id is the title and the number of the row, from
    0. With "unknown" among the choices, a question without answers is impossible to answer.

    Args:
        columns: what its columns are called.
        file, skips, answers_are, require_answers, keep_several, choices: as there.

    Example:
        >>> import json, pathlib, tempfile
        >>> row = {"id": "q1", "title": "Italy", "context": "It was Rome.", "question": "Which?",
        ...     "answers": {"text": ["Rome"], "answer_start": [7]}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "dev.jsonl")
        ...     _ = file.write_text(json.dumps(row))
        ...     (example,) = read_squad_rows(file, skips=ExclusionCounts())
        >>> example.golds, example.true_mention
        (('Rome',), (0, 7, 11))
    """
    rules = _Rules(skips, answers_are, require_answers, keep_several, choices)
    for number, raw in enumerate(raw_rows(file)):
        values = {name: None if x != x else x for name, x in raw.values.items()}  # pandas' NaN
        for role, name in _ROLES.items():
            if getattr(columns, role):
                named = column_of(raw.values, role, columns, raw.place, required=False)
                values[name] = values.get(named)
        if isinstance(values.get("answers"), dict) and "context" in values:
            if not isinstance(values.get("id"), (list, dict, bool)):
                values["id"] = row_id(raw, columns)
            yield from _row_example(values, number, raw.place, rules)
            continue
        row = as_row(raw, columns, "text", with_answers=require_answers)
        row["answers"] = [{"text": text} for text in row["answers"]]
        row["is_impossible"] = None if raw.is_csv else values.get("is_impossible")
        if UNKNOWN in rules.choices and require_answers and not row["answers"]:
            row["is_impossible"] = True
        yield from _example(row, Document(f"#{number}", row["text"]), raw.place, rules)


def _row_example(
    row: dict[str, Any], index: int, place: str, rules: _Rules
) -> Iterator[ReadingExample]:
    """The question of a row, if it can be used."""
    if not {"question", "context"} <= row.keys():
        raise lacks(row, "'question' and 'context'", place)
    title = get_field(row, "title", str, place) or ""
    document = Document(f"{title}#{index}", get_field(row, "context", str, place) or "")
    found = get_field(row, "answers", dict, place) or {}
    texts, starts = (get_field(found, n, list, place) or [] for n in ("text", "answer_start"))
    if starts and len(starts) != len(texts):
        raise InputError(
            f"{place}: expected {len(texts)} under 'answer_start', found {len(starts)}"
        )
    pairs = itertools.zip_longest(texts, starts)
    row = row | {"answers": [{"text": text, "answer_start": start} for text, start in pairs]}
    given = any(str(text or "").strip() for text in texts)
    unmarked = row.get("is_impossible") is None
    if UNKNOWN in rules.choices and rules.require_answers and not given and unmarked:
        row |= {"is_impossible": True}
    yield from _example(row, document, place, rules)


def _example(
    record: dict[str, Any], document: Document, place: str, rules: _Rules
) -> Iterator[ReadingExample]:
    """The question, if it can be used."""
    skips = rules.skips
    question_id = get_id(record, "id", place)
    if question_id is None:
        return skips.add(NO_ID, place)
    place = f"{place} ({question_id})"
    question = get_field(record, "question", str, place) or ""
    answers = _answers(record, place)
    golds = tuple(text for text, _ in answers)
    aliases = distinct(golds)
    if not question.strip():
        return skips.add(EMPTY_QUESTION, question_id)
    if not document.text.strip():
        return skips.add(EMPTY_DOCUMENT, question_id)
    impossible = get_field(record, "is_impossible", bool, place)
    if UNKNOWN in rules.choices:
        # CoQA marks such a question by its answer; elsewhere "unknown" may be an answer.
        marked = impossible is None and {text.strip().lower() for text in golds} == {UNKNOWN}
        if impossible or marked:
            yield ReadingExample(question_id, question, (document,), (UNKNOWN,), ("",))
            return
    elif impossible:
        return skips.add(IMPOSSIBLE, question_id)
    if rules.require_answers and not aliases:
        return skips.add(NO_ANSWER, question_id)
    if rules.answers_are == "all required" and not rules.keep_several and len(aliases) > 1:
        return skips.add(SEVERAL_SPANS, question_id)
    mention = _first_mention(answers, document.text)
    if mention is None and any(start is not None for _, start in answers[:1]):
        offered = set(map(alias_forms, rules.choices))
        if any(alias_forms(text) not in offered for text in golds):
            skips.warn(MISPLACED_MENTION, question_id)
    yield ReadingExample(question_id, question, (document,), aliases, golds, mention)


def _answers(record: dict[str, Any], place: str) -> list[tuple[str, int | None]]:
    """Returns (text, start) for every answer with a text."""
    pairs = [
        (get_field(x, "text", str, place) or "", get_field(x, "answer_start", int, place))
        for x in get_objects(record, "answers", place)
    ]
    return [(text, start) for text, start in pairs if text.strip()]


def _first_mention(
    answers: list[tuple[str, int | None]], context: str
) -> tuple[int, int, int] | None:
    for text, start in answers[:1]:
        # A negative start would count from the end and could even match there.
        if start is not None and start >= 0 and context.startswith(text, start):
            return 0, start, start + len(text)
    return None
