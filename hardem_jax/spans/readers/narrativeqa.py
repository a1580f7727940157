"""Reader for NarrativeQA summaries in the official layout (Kocisky et al., 2018).

    qaps.csv                             questions, two answers each; `document_id`, `set`
    third_party/wikipedia/summaries.csv  a summary for each document

Both are comma-separated with quoted fields that may contain line breaks. The `*_tokenized` columns
are used, because ROUGE-L compares tokens and they tokenise answers and summaries alike.

The answers are free text that need not occur in the summary, so Z is not a search for mentions:
`add_rouge_mentions` finds the most similar spans (Min et al., 2019, section 4.1).
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.exclusions import EMPTY_DOCUMENT, EMPTY_QUESTION, NO_ANSWER, ExclusionCounts
from hardem_jax.data.json_stream import PathLike, iter_lines, long_csv_fields
from hardem_jax.data.parallel import map_in_order
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.errors import InputError
from hardem_jax.spans.solutions import RougeRules, enumerate_rouge_spans

QUESTIONS = "qaps.csv"
SUMMARIES = "third_party/wikipedia/summaries.csv"

_ANSWERS = ("answer1_tokenized", "answer2_tokenized")
_SETS = ("train", "valid", "test")


def read_narrativeqa(
    folder: PathLike, split: str, *, skips: ExclusionCounts, lower: bool = True
) -> Iterator[ReadingExample]:
    """Streams the questions of a split in file order, each with its summary; Z is unknown. Ids are
    the document's id and the number of the question on that document, from 0. ``lower`` lower-cases
    summaries and questions, as in the paper's released conversion."""
    if split not in _SETS:
        raise InputError(f"split: expected one of {', '.join(_SETS)}, found {split!r}")
    summaries = _read_summaries(Path(folder, SUMMARIES), lower)
    file = Path(folder, QUESTIONS)
    columns = ("document_id", "set", "question_tokenized", *_ANSWERS)
    question_counts: Counter[str] = Counter()
    any_questions = False
    for number, record in _records(file, columns):
        document_id = record["document_id"]
        example_id = f"{document_id}:{question_counts[document_id]}"
        question_counts[document_id] += 1
        if record["set"] != split:
            continue
        any_questions = True
        if document_id not in summaries:
            expected = f"expected a document with a summary in {SUMMARIES}"
            raise InputError(f"{file}: line {number}: {expected}, found {document_id!r}")
        document = summaries[document_id]
        question = record["question_tokenized"].strip()
        answers = (record[name].strip().lower() for name in _ANSWERS)
        golds = tuple(answer for answer in answers if answer)
        if not question:
            skips.add(EMPTY_QUESTION, example_id)
        elif not golds:
            skips.add(NO_ANSWER, example_id)
        elif not document.text.strip():
            skips.add(EMPTY_DOCUMENT, example_id)
        else:
            question = question.lower() if lower else question
            yield ReadingExample(example_id, question, (document,), aliases=(), golds=golds)
    if not any_questions:
        raise InputError(f"{file}: expected questions with {split!r} under 'set', found none")


def add_rouge_mentions(
    examples: Iterable[ReadingExample],
    rules: RougeRules | None = None,
    processes: int | None = None,
) -> Iterator[ReadingExample]:
    """Adds Z as `mentions`: the spans of the whole document with a high ROUGE-L to one of the
    golds. Consecutive examples on the same document share work."""
    rules = rules or RougeRules()
    groups = (list(group) for _, group in itertools.groupby(examples, key=lambda x: x.documents[0]))
    with_mentions = functools.partial(_with_mentions, rules=rules)
    for group in map_in_order(with_mentions, groups, processes=processes, chunk_size=1):
        yield from group


def _with_mentions(group: list[ReadingExample], rules: RougeRules) -> list[ReadingExample]:
    text = group[0].documents[0].text
    solutions = enumerate_rouge_spans(text, [example.golds for example in group], rules)
    mentions = [tuple((0, start, end) for start, end in z.spans.tolist()) for z in solutions]
    return [dataclasses.replace(x, mentions=z) for x, z in zip(group, mentions, strict=True)]


def _read_summaries(file: Path, lower: bool) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    for number, record in _records(file, ("document_id", "set", "summary_tokenized")):
        document_id, text = record["document_id"], record["summary_tokenized"]
        if document_id in documents:
            expected = "expected one summary per document, found a second one"
            raise InputError(f"{file}: line {number}: {expected} for {document_id!r}")
        documents[document_id] = Document(document_id, text.lower() if lower else text)
    return documents


def _records(file: Path, wanted: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (number of the last line from 1, wanted columns) for every record, checked."""
    reader = csv.DictReader((line for _, line in iter_lines(file)), strict=True)
    try:
        columns = reader.fieldnames or []
        if missing := [column for column in wanted if column not in columns]:
            expected = f"expected the columns {', '.join(wanted)} in the first line"
            raise InputError(f"{file}: {expected}, found none named {missing[0]}")
        while True:
            with long_csv_fields():  # for the whole process, so not across a yield
                record: dict[Any, Any] | None = next(reader, None)
            if record is None:
                return
            fields = [x for x in record.values() if isinstance(x, str)] + record.pop(None, [])
            place = f"{file}: line {reader.line_num}"
            if len(fields) != len(columns):
                raise InputError(f"{place}: expected {len(columns)} fields, found {len(fields)}")
            if not record["document_id"].strip():
                raise InputError(f"{place}: expected a 'document_id', found an empty field")
            if record["set"] not in _SETS:
                expected = f"expected 'set' to be one of {', '.join(_SETS)}"
                raise InputError(f"{place}: {expected}, found {record['set']!r}")
            yield reader.line_num, {column: record[column] for column in wanted}
    except csv.Error as error:
        place = f"{file}: line {reader.reader.line_num}"
        raise InputError(f"{place}: expected comma-separated values, found {error}") from error
