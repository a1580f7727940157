"""Reader for the JSONL files of Min et al. (2019): open-domain questions with Z.

One question per line:

    {"id": "q1", "question": "Which city is the University of Washington in?",
     "context": [["It", "is", "in", "Seattle", ",", "Washington"], ["Founded", "in", "1861"]],
     "answers": [[{"text": "Seattle, Washington", "word_start": 3, "word_end": 5}], []],
     "final_answers": ["Seattle", "Seattle, Washington"]}

`answers` has one list for each paragraph of `context`. `word_end` is *inclusive*: 3 to 5 above are
three tokens.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from hardem_jax.data.exclusions import (
    EMPTY_DOCUMENT,
    EMPTY_QUESTION,
    NO_ANSWER,
    NO_DOCUMENT,
    NO_ID,
    ExclusionCounts,
)
from hardem_jax.data.json_fields import check_kind, distinct, get_field, get_id, get_strings
from hardem_jax.data.json_stream import PathLike, iter_json_lines
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.errors import InputError

Mention = tuple[int, int, int]


def read_qa_hard_em(
    file: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[ReadingExample]:
    """Streams the questions of a file in the released layout, with the given mentions.

    A document is a paragraph's tokens joined by spaces, with the id "question id#position". A
    mention must match its text in letters and digits only: case, accents, spacing and punctuation
    differ between texts and tokens in this data, and "&" equals "and". ``require_answers=False``
    keeps questions without an answer, for prediction.
    """
    for number, record in iter_json_lines(file):
        example = _example(record, f"{file}: line {number}", skips, require_answers)
        if example is not None:
            yield example


def _example(
    record: dict[str, Any], place: str, skips: ExclusionCounts, require_answers: bool
) -> ReadingExample | None:
    question_id = get_id(record, "id", place)
    if question_id is None:
        return skips.add(NO_ID, place)
    place = f"{place} ({question_id})"
    question = get_field(record, "question", str, place) or ""
    paragraphs = _paragraphs(record, place)
    golds = get_strings(record, "final_answers", place)
    if not question.strip():
        return skips.add(EMPTY_QUESTION, question_id)
    if not paragraphs:
        return skips.add(NO_DOCUMENT, question_id)
    answers = _answers(record, len(paragraphs), place)
    documents: list[Document] = []
    mentions: list[Mention] = []
    texts = list(golds)
    for k, (tokens, entries) in enumerate(zip(paragraphs, answers, strict=True)):
        where = f"{place}, paragraph {k}"
        spans = [_span(entry, tokens, where) for entry in entries]
        texts += [entry["text"] for entry in entries]
        text = " ".join(tokens)
        if not text.strip():
            skips.warn(EMPTY_DOCUMENT, f"{question_id}: paragraph {k}")
            continue
        mentions += [(len(documents), start, end) for start, end in spans]
        documents.append(Document(f"{question_id}#{k}", text))
    aliases = distinct(texts)
    if require_answers and not aliases:
        return skips.add(NO_ANSWER, question_id)
    if not documents:
        return skips.add(NO_DOCUMENT, question_id)
    return ReadingExample(
        question_id, question, tuple(documents), aliases, golds, mentions=tuple(mentions)
    )


def _paragraphs(record: dict[str, Any], place: str) -> list[list[str]]:
    paragraphs = get_field(record, "context", list, place) or []
    for k, tokens in enumerate(paragraphs):
        check_kind(tokens, list, f"{place}: expected paragraph {k} of 'context' to be")
        for token in tokens:
            check_kind(token, str, f"{place}: expected each token of paragraph {k} to be")
    return paragraphs


def _answers(record: dict[str, Any], paragraphs: int, place: str) -> list[list[dict[str, Any]]]:
    """Returns the answer entries of each paragraph; empty lists if the file gives none."""
    answers = get_field(record, "answers", list, place)
    if answers is None:
        return [[] for _ in range(paragraphs)]
    if len(answers) != paragraphs:
        expected = f"expected {paragraphs} lists under 'answers', one for each paragraph"
        raise InputError(f"{place}: {expected}, found {len(answers)}")
    for k, entries in enumerate(answers):
        check_kind(entries, list, f"{place}: expected element {k} of 'answers' to be")
        for entry in entries:
            check_kind(entry, dict, f"{place}: expected each answer of paragraph {k} to be")
    return answers


def _span(entry: dict[str, Any], tokens: list[str], place: str) -> tuple[int, int]:
    """Returns the checked character span (end exclusive) of an answer in the joined tokens."""
    for key, kind in ("text", str), ("word_start", int), ("word_end", int):
        if get_field(entry, key, kind, place) is None:
            raise InputError(f"{place}: expected an answer with {key!r}, found one without")
    text, first, last = entry["text"], entry["word_start"], entry["word_end"]
    if not 0 <= first <= last < len(tokens):
        expected = f"expected 0 <= word_start <= word_end < {len(tokens)} words"
        raise InputError(f"{place}: {expected} for {text!r}, found {first} and {last}")
    if not _same_text(text, tokens[first : last + 1]):
        found = repr(" ".join(tokens[first : last + 1]))
        if last > first and _same_text(text, tokens[first:last]):
            found += " (word_end must be inclusive)"
        raise InputError(f"{place}: expected {text!r} at words {first} to {last}, found {found}")
    start = sum(map(len, tokens[:first])) + first  # one space after each preceding word
    return start, start + len(" ".join(tokens[first : last + 1]))


def _same_text(text: str, tokens: list[str]) -> bool:
    joined = "".join(tokens)
    if (letters := _letters(text)) or _letters(joined):
        return letters == _letters(joined)
    return "".join(text.split()) == "".join(joined.split())  # "$" has neither letter nor digit


def _letters(text: str) -> str:
    """Returns the letters and digits of `text` without case or accents, with "&" as "and"."""
    folded = unicodedata.normalize("NFKD", text.replace("&", "and").casefold())
    return "".join(character for character in folded if character.isalnum())
