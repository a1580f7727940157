"""Reader for TriviaQA in its official layout (Joshi et al., 2017; Min et al., 2019, section 4.1).

    qa/wikipedia-train.json    {"Data": [question, ...], "Domain": ..., "Version": ...}
    evidence/wikipedia/*.txt   files of `EntityPages`
    evidence/web/**/*.txt      files of `SearchResults`

The list that names a file decides its folder, in the Wikipedia files, the web files
(which list both kinds) and the unfiltered files alike. `Domain` decides what is scored: a
question with all of its documents ("Wikipedia"), or each document of a question on its
own (any other domain), under the key ``QuestionId--Filename``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ijson

from hardem_jax.data.examples import Document, OpenQuestion, ReadingExample
from hardem_jax.data.exclusions import (
    EMPTY_DOCUMENT,
    EMPTY_QUESTION,
    MISSING_EVIDENCE,
    NO_ANSWER,
    NO_DOCUMENT,
    NO_ID,
    ExclusionCounts,
)
from hardem_jax.data.json_fields import check_kind, distinct, get_field, get_id, get_strings
from hardem_jax.data.json_stream import JsonStream, PathLike, iter_json_items, open_bytes, read_text
from hardem_jax.data.readers.open_questions import IdCheck, defect_of
from hardem_jax.errors import InputError

_FOLDERS = {"EntityPages": "wikipedia", "SearchResults": "web"}


def read_triviaqa(
    qa_file: PathLike,
    evidence_dir: PathLike,
    *,
    skips: ExclusionCounts,
    require_answers: bool = True,
) -> Iterator[ReadingExample]:
    """Streams the examples of a TriviaQA file, as the official evaluator tells them apart.

    In the Wikipedia domain (and in a file that names no domain) an example is a question with
    all of its documents, and its id the question's. In any other domain an example is a
    question with one document, and its id ``QuestionId--Filename``. `Domain` follows the
    questions, so the file is streamed twice.

    `golds` are those of the official evaluator, `NormalizedAliases` and `HumanAnswers`, as
    they stand (the metric normalises them), `NormalizedValue` first, which is the one to show;
    `aliases` are the distinct ones of them.
    Aliases are lower-cased and free of punctuation, so the search for mentions has to
    compare normalised words (`hardem_jax.solutions.spans` does).
    A document's id is its path below `evidence_dir`.

    Args:
        qa_file: `qa/*.json`, or the same with `.gz`.
        evidence_dir: the folder that holds `wikipedia/` or `web/` or both.
        skips: counts what is left out. Left out, with the example's id: no id, empty
            question, no answer given, no document left; where an example has one document,
            evidence file missing and empty document. Warned of, with the question kept:
            each evidence file that is missing, not named at all, or empty.
        require_answers: True leaves out questions without an answer. False, for prediction
            on the test files, yields them with `aliases=()` and `golds=()`.

    Raises:
        InputError: the question file is missing or not in this layout, a value has the
            wrong type, `evidence_dir` holds neither folder, a file name leads out of
            the evidence folder, or an evidence file is not UTF-8 (at which byte).

    Example:
        >>> import json, tempfile
        >>> data = {"Question": "Which city?", "QuestionId": "q1", "Answer": {
        ...     "NormalizedAliases": ["rome"]}, "EntityPages": [{"Filename": "Rome.txt"}]}
        >>> skips = ExclusionCounts()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, "wikipedia").mkdir()
        ...     _ = Path(folder, "wikipedia", "Rome.txt").write_text("Rome is old.")
        ...     _ = Path(folder, "qa.json").write_text(json.dumps({"Data": [data]}))
        ...     (example,) = read_triviaqa(Path(folder, "qa.json"), folder, skips=skips)
        >>> example.documents, example.golds
        ((Document(id='wikipedia/Rome.txt', text='Rome is old.'),), ('rome',))
    """
    evidence = Path(evidence_dir)
    if not any(os.path.isdir(evidence / name) for name in _FOLDERS.values()):
        found = "neither" if os.path.isdir(evidence) else "no such folder"
        raise InputError(f"{evidence}: expected a folder with wikipedia/ or web/, found {found}")
    one_document = _has_one_document_each(qa_file)
    for index, record in iter_json_items(qa_file, "Data"):
        place = f"{qa_file}: item {index} of 'Data'"
        yield from _examples(record, place, evidence, skips, require_answers, one_document)


def read_triviaqa_questions(
    qa_file: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a TriviaQA file without evidence, for TriviaQA-open.

    Answers are the `Aliases` as people write them, `Value` first, and `HumanAnswers`, as DPR
    and FiD have them. In `NormalizedAliases` punctuation became spaces, but the metric of the
    open task deletes it: "O'Neill" in a passage would not equal the gold "o neill". They are
    used where a question has no `Aliases`. Evidence files are not looked for.

    Args:
        qa_file: as for `read_triviaqa`; TriviaQA-open takes those of the unfiltered release.
        skips: counts what is left out, by question id: no id, empty question, no word left
            in the question after normalisation, no answer given. Warned of, with the
            question kept: a question id that occurs again.
        require_answers: as for `read_triviaqa`.

    Raises:
        InputError: the file is missing or not in this layout, or a value has the wrong type.

    Example:
        >>> import json, tempfile
        >>> data = {"Question": "Which jockey?", "QuestionId": "q1", "Answer": {
        ...     "Aliases": ["Jonjo O'Neill"], "NormalizedAliases": ["jonjo o neill"]}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "qa.json").write_text(json.dumps({"Data": [data]}))
        ...     list(read_triviaqa_questions(Path(folder, "qa.json"), skips=ExclusionCounts()))
        [OpenQuestion(id='q1', question='Which jockey?', answers=("Jonjo O'Neill",))]
    """
    check = IdCheck(skips)
    for index, record in iter_json_items(qa_file, "Data"):
        place = f"{qa_file}: item {index} of 'Data'"
        question_id = get_id(record, "QuestionId", place)
        if question_id is None:
            skips.add(NO_ID, place)
            continue
        place = f"{place} ({question_id})"
        question = get_field(record, "Question", str, place) or ""
        answers = _answers_as_written(record, place)
        if reason := defect_of(question, answers, require_answers=require_answers):
            skips.add(reason, question_id)
            continue
        check(question_id)
        yield OpenQuestion(question_id, question, answers)


def _has_one_document_each(qa_file: PathLike) -> bool:
    """Whether each document of a question is scored on its own, as `Domain` says."""
    with open_bytes(qa_file) as stream:
        try:
            domains = list(ijson.items(JsonStream(stream, str(qa_file)), "Domain"))
        except (ijson.JSONError, UnicodeDecodeError):
            return False  # Reading the questions reports where the file is broken.
    for domain in domains:
        check_kind(domain, str, f"{qa_file}: expected 'Domain' to be")
    return bool(domains) and domains[-1] != "Wikipedia"


def _examples(
    record: dict[str, Any],
    place: str,
    evidence: Path,
    skips: ExclusionCounts,
    require_answers: bool,
    one_document: bool,
) -> Iterator[ReadingExample]:
    question_id = get_id(record, "QuestionId", place)
    if question_id is None:
        skips.add(NO_ID, place)
        return
    place = f"{place} ({question_id})"
    question = get_field(record, "Question", str, place) or ""
    golds = _golds(record, place)
    aliases = distinct(golds)
    defect = None
    if not question.strip():
        defect = EMPTY_QUESTION
    elif require_answers and not aliases:
        defect = NO_ANSWER
    documents = []
    for folder, name in _pages(record, place) if one_document or not defect else ():
        key = f"{question_id}--{name}"
        found = defect or _document(evidence / folder, name, place)
        if isinstance(found, Document) and one_document:
            yield ReadingExample(key, question, (found,), aliases, golds)
        elif isinstance(found, Document):
            documents.append(found)
        elif one_document and name:
            skips.add(found, key)
        else:
            # The unfiltered files list search results without a file name as well.
            skips.warn(found, f"{question_id}: {folder}/{name}")
    if one_document:
        return
    if defect or not documents:
        skips.add(defect or NO_DOCUMENT, question_id)
    else:
        yield ReadingExample(question_id, question, tuple(documents), aliases, golds)


def _golds(record: dict[str, Any], place: str) -> tuple[str, ...]:
    answer = get_field(record, "Answer", dict, place) or {}
    return _normalized(answer, place) + get_strings(answer, "HumanAnswers", place)


def _answers_as_written(record: dict[str, Any], place: str) -> tuple[str, ...]:
    answer = get_field(record, "Answer", dict, place) or {}
    aliases = get_strings(answer, "Aliases", place)
    aliases = _with_first(aliases, answer.get("Value")) or _normalized(answer, place)
    return aliases + get_strings(answer, "HumanAnswers", place)


def _normalized(answer: dict[str, Any], place: str) -> tuple[str, ...]:
    aliases = get_strings(answer, "NormalizedAliases", place)
    return _with_first(aliases, answer.get("NormalizedValue"))


def _with_first(strings: tuple[str, ...], first: Any) -> tuple[str, ...]:
    """The strings, the one that equals ``first`` before the others; scores do not change."""
    if first not in strings:
        return strings
    at = strings.index(first)
    return (first, *strings[:at], *strings[at + 1 :])


def _pages(record: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """(folder, file name) of every page listed, each once; the name is empty if there is none."""
    seen = set()
    for key, folder in _FOLDERS.items():
        for page in get_field(record, key, list, place) or []:
            page = check_kind(page, dict, f"{place}: expected each element of {key!r} to be")
            name = get_field(page, "Filename", str, place) or ""
            if (folder, name) not in seen:  # the same page found twice adds no evidence
                seen.add((folder, name))
                yield folder, name


def _document(folder: Path, name: str, place: str) -> Document | str:
    """A page, or why it cannot be used."""
    path = _inside(folder, name, place)
    if not os.path.isfile(path):
        return MISSING_EVIDENCE
    text = read_text(path)
    return Document(f"{folder.name}/{name}", text) if text.strip() else EMPTY_DOCUMENT


def _inside(folder: Path, name: str, place: str) -> Path:
    """`folder / name`, provided that `name` does not lead out of `folder`."""
    if Path(name).anchor or ".." in Path(name).parts:
        raise InputError(f"{place}: expected a 'Filename' below {folder}, found {name!r}")
    return folder / name
