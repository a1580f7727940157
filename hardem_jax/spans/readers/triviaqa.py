"""Reader for TriviaQA in its official layout (Joshi et al., 2017; Min et al., 2019, section 4.1).

    qa/wikipedia-train.json    {"Data": [question, ...], "Domain": ..., "Version": ...}
    evidence/wikipedia/*.txt   files of `EntityPages`
    evidence/web/**/*.txt      files of `SearchResults`

The list that names a file determines its folder, also in the web files (which list both kinds)
and the unfiltered files. `Domain` determines what is scored: a question with all of its documents
("Wikipedia"), or each document of a question separately (any other domain), under the key
``QuestionId--Filename``. `VerifiedEval` restricts a file to the questions that people have checked
(`QuestionPartOfVerifiedEval`), and in the domain "Web" to the documents that they found to hold the
answer (`DocPartOfVerifiedEval`), as the released evaluator does.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ijson

from hardem_jax.data.exclusions import (
    EMPTY_DOCUMENT,
    EMPTY_QUESTION,
    MISSING_EVIDENCE,
    NO_ANSWER,
    NO_DOCUMENT,
    NO_ID,
    ExclusionCounts,
)
from hardem_jax.data.json_fields import (
    check_kind,
    distinct,
    get_field,
    get_id,
    get_objects,
    get_strings,
)
from hardem_jax.data.json_stream import PathLike, iter_json_items, json_events, read_text
from hardem_jax.documents.examples import Document, OpenQuestion, ReadingExample
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.open_questions import QuestionCheck

_FOLDERS = {"EntityPages": "wikipedia", "SearchResults": "web"}
_ABOUT = {"Domain": str, "VerifiedEval": bool}  # of a whole file


def read_triviaqa(
    qa_file: PathLike,
    evidence_dir: PathLike,
    *,
    skips: ExclusionCounts,
    require_answers: bool = True,
) -> Iterator[ReadingExample]:
    """Streams the examples of a TriviaQA file, as defined by the official evaluator.

    In the Wikipedia domain (and in a file without `Domain`) an example is a question with all of
    its documents, and its id is the question's. In any other domain an example is a question
    with one document, and its id is ``QuestionId--Filename``. `Domain` comes after the questions,
    so the file is streamed twice. What is not part of a verified file is passed over.

    `golds` are those of the official evaluator, `NormalizedAliases` and `HumanAnswers`,
    unchanged (the metric normalises them), starting with `NormalizedValue`, which is the one to
    display; `aliases` are the distinct ones. Aliases are lower-cased and without punctuation, so
    the search for mentions must compare normalised words (`hardem_jax.documents.mentions` does).
    A document's id is its path relative to `evidence_dir`.

    Args:
        qa_file: `qa/*.json`, optionally with `.gz`.
        evidence_dir: the folder that contains `wikipedia/` or `web/` or both.
        skips: counts what is left out, by the example's id: no id, empty question, no answer
            given, no document left; if examples have one document, also evidence file missing
            and empty document. Warnings, with the question kept: each evidence file that is
            missing, not named, or empty.
        require_answers: True leaves out questions without an answer. False, for prediction on
            the test files, yields them with `aliases=()` and `golds=()`.

    Raises:
        InputError: the question file is missing or not in this layout, a value has the wrong
            type, `evidence_dir` contains neither folder, a file name points outside the evidence
            folder, or an evidence file is not UTF-8 (names the byte).

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
    about = _about(qa_file)
    one_document = about.get("Domain", "Wikipedia") != "Wikipedia"
    verified = about.get("VerifiedEval", False)
    for index, record in iter_json_items(qa_file, "Data"):
        place = f"{qa_file}: item {index} of 'Data'"
        if verified and not get_field(record, "QuestionPartOfVerifiedEval", bool, place):
            continue
        if verified and about.get("Domain") == "Web":
            record = _verified_pages(record, place)
        yield from _examples(record, place, evidence, skips, require_answers, one_document)


def read_triviaqa_questions(
    qa_file: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a TriviaQA file without evidence, for TriviaQA-open.

    Answers are the `Aliases` in their original spelling, starting with `Value`, and
    `HumanAnswers`, as in DPR and FiD. `NormalizedAliases` replace punctuation by spaces, whereas
    the metric of the open task deletes it: "O'Neill" in a passage would not match the gold
    "o neill". They are used only if a question has no `Aliases`. Evidence files are not needed.

    Args:
        qa_file: as for `read_triviaqa`; TriviaQA-open uses those of the unfiltered release.
        skips: counts what is left out, by question id: no id, empty question, no word left after
            normalisation, no answer given. Warning, with the question kept: a repeated id.
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
    check = QuestionCheck(skips, require_answers=require_answers)
    for index, record in iter_json_items(qa_file, "Data"):
        place = f"{qa_file}: item {index} of 'Data'"
        question_id = get_id(record, "QuestionId", place)
        if question_id is None:
            skips.add(NO_ID, place)
            continue
        place = f"{place} ({question_id})"
        text = get_field(record, "Question", str, place) or ""
        question = check(question_id, text, _answers_as_written(record, place))
        if question is not None:
            yield question


def _about(qa_file: PathLike) -> dict[str, Any]:
    """`Domain` and `VerifiedEval` of a file, as far as it says them; null says nothing."""
    found: dict[str, Any] = {}
    try:
        for key, event, value in json_events(qa_file):
            if key in _ABOUT and event not in ("map_key", "end_map", "end_array"):
                found[key] = {"start_map": {}, "start_array": []}.get(event, value)
    except (ijson.JSONError, UnicodeDecodeError):
        return {}  # reading the questions reports where the file is broken
    return {
        key: check_kind(value, _ABOUT[key], f"{qa_file}: expected {key!r} to be")
        for key, value in found.items()
        if value is not None
    }


def _verified_pages(record: dict[str, Any], place: str) -> dict[str, Any]:
    """The record with those of its pages that hold the answer, as people found."""
    kept = {}
    for key in _FOLDERS:
        pages = get_objects(record, key, place)
        kept[key] = [x for x in pages if get_field(x, "DocPartOfVerifiedEval", bool, place)]
    return record | kept


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
    answer = get_field(record, "Answer", dict, place) or {}
    golds = _normalized(answer, place) + get_strings(answer, "HumanAnswers", place)
    aliases = distinct(golds)
    defect = None
    if not question.strip():
        defect = EMPTY_QUESTION
    elif require_answers and not aliases:
        defect = NO_ANSWER
    documents = []
    for folder, name in _pages(record, place) if one_document or not defect else ():
        key = f"{question_id}--{name}"
        document = defect or _document(evidence / folder, name, place)
        if isinstance(document, Document) and one_document:
            yield ReadingExample(key, question, (document,), aliases, golds)
        elif isinstance(document, Document):
            documents.append(document)
        elif one_document and name:
            skips.add(document, key)
        else:
            # The unfiltered files also list search results without a file name.
            skips.warn(document, f"{question_id}: {folder}/{name}")
    if one_document:
        return
    if defect or not documents:
        skips.add(defect or NO_DOCUMENT, question_id)
    else:
        yield ReadingExample(question_id, question, tuple(documents), aliases, golds)


def _answers_as_written(record: dict[str, Any], place: str) -> tuple[str, ...]:
    answer = get_field(record, "Answer", dict, place) or {}
    aliases = get_strings(answer, "Aliases", place)
    aliases = _with_first(aliases, answer.get("Value")) or _normalized(answer, place)
    return aliases + get_strings(answer, "HumanAnswers", place)


def _normalized(answer: dict[str, Any], place: str) -> tuple[str, ...]:
    aliases = get_strings(answer, "NormalizedAliases", place)
    return _with_first(aliases, answer.get("NormalizedValue"))


def _with_first(strings: tuple[str, ...], first: Any) -> tuple[str, ...]:
    """Moves the string that equals ``first`` to the front, which does not affect scores."""
    if first not in strings:
        return strings
    index = strings.index(first)
    return (first, *strings[:index], *strings[index + 1 :])


def _pages(record: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Yields (folder, file name) of every listed page once; the name may be empty."""
    seen = set()
    for key, folder in _FOLDERS.items():
        for page in get_objects(record, key, place):
            name = get_field(page, "Filename", str, place) or ""
            if (folder, name) not in seen:  # a page listed twice adds no evidence
                seen.add((folder, name))
                yield folder, name


def _document(folder: Path, name: str, place: str) -> Document | str:
    """Returns a page, or the reason why it cannot be used."""
    path = _find(folder, name, place)
    if path is None:
        return MISSING_EVIDENCE
    text = read_text(path)
    return Document(f"{folder.name}/{name}", text) if text.strip() else EMPTY_DOCUMENT


def _find(folder: Path, name: str, place: str) -> Path | None:
    """The file of that name, whose accents a file system may have composed or decomposed."""
    if Path(name).anchor or ".." in Path(name).parts:
        raise InputError(f"{place}: expected a 'Filename' inside {folder}, found {name!r}")
    path = folder / name
    if os.path.isfile(path):
        return path
    if name.isascii():
        return None
    others = (folder / unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    return next((other for other in others if os.path.isfile(other)), None)
