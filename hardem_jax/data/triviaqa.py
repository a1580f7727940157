"""Reader for TriviaQA in its official layout (Joshi et al., 2017; Min et al., 2019, section 4.1).

    qa/wikipedia-train.json    {"Data": [question, ...], "Domain": ..., "Version": ...}
    evidence/wikipedia/*.txt   files of `EntityPages`
    evidence/web/**/*.txt      files of `SearchResults`

The list that names a file decides its folder, in the Wikipedia files, the web files
(which list both kinds) and the unfiltered files alike. `Domain` stands after `Data`,
where a stream meets it too late, and is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.data.examples import (
    EMPTY_DOCUMENT,
    EMPTY_QUESTION,
    MISSING_EVIDENCE,
    NO_ANSWER,
    NO_DOCUMENT,
    NO_ID,
    Document,
    ExclusionCounts,
    ReadingExample,
)
from hardem_jax.data.fields import (
    check_kind,
    distinct,
    get_field,
    get_id,
    get_strings,
)
from hardem_jax.data.open_questions import IdCheck, OpenQuestion, defect_of
from hardem_jax.data.reading import PathLike, iter_json_items, read_text
from hardem_jax.errors import InputError

_FOLDERS = {"EntityPages": "wikipedia", "SearchResults": "web"}


def read_triviaqa(
    qa_file: PathLike,
    evidence_dir: PathLike,
    *,
    skips: ExclusionCounts,
    require_answers: bool = True,
) -> Iterator[ReadingExample]:
    """Streams the questions of a TriviaQA file, each with all of its evidence documents.

    `golds` are those of the official evaluator, `NormalizedAliases` and `HumanAnswers`, as
    they stand (the metric normalises them); `aliases` are the distinct ones of them.
    Aliases are lower-cased and free of punctuation, so the search for mentions has to
    compare normalised words (`hardem_jax.solutions.spans` does).
    A document's id is its path below `evidence_dir`.

    Args:
        qa_file: `qa/*.json`, or the same with `.gz`.
        evidence_dir: the folder that holds `wikipedia/` or `web/` or both.
        skips: counts what is left out. Left out, with the question's id: no id, empty
            question, no answer given, no document left. Warned of, with the question kept:
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
    for index, record in iter_json_items(qa_file, "Data"):
        place = f"{qa_file}: item {index} of 'Data'"
        example = _example(record, place, evidence, skips, require_answers)
        if example is not None:
            yield example


def read_triviaqa_questions(
    qa_file: PathLike, *, skips: ExclusionCounts, require_answers: bool = True
) -> Iterator[OpenQuestion]:
    """Streams the questions of a TriviaQA file without evidence, for TriviaQA-open.

    Answers are the `golds` of `read_triviaqa`. Evidence files are not looked for.

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
        >>> data = {"Question": "Which city?", "QuestionId": "q1", "Answer": {
        ...     "NormalizedAliases": ["rome"]}, "EntityPages": [{"Filename": "Rome.txt"}]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "qa.json").write_text(json.dumps({"Data": [data]}))
        ...     list(read_triviaqa_questions(Path(folder, "qa.json"), skips=ExclusionCounts()))
        [OpenQuestion(id='q1', question='Which city?', answers=('rome',))]
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
        golds = _golds(record, place)
        if reason := defect_of(question, golds, require_answers=require_answers):
            skips.add(reason, question_id)
            continue
        check(question_id)
        yield OpenQuestion(question_id, question, golds)


def _example(
    record: dict[str, Any],
    place: str,
    evidence: Path,
    skips: ExclusionCounts,
    require_answers: bool,
) -> ReadingExample | None:
    question_id = get_id(record, "QuestionId", place)
    if question_id is None:
        return skips.add(NO_ID, place)
    place = f"{place} ({question_id})"
    question = get_field(record, "Question", str, place) or ""
    golds = _golds(record, place)
    aliases = distinct(golds)
    if not question.strip():
        return skips.add(EMPTY_QUESTION, question_id)
    if require_answers and not aliases:
        return skips.add(NO_ANSWER, question_id)
    documents = tuple(_documents(record, place, question_id, evidence, skips))
    if not documents:
        return skips.add(NO_DOCUMENT, question_id)
    return ReadingExample(question_id, question, documents, aliases, golds)


def _golds(record: dict[str, Any], place: str) -> tuple[str, ...]:
    answer = get_field(record, "Answer", dict, place) or {}
    normalized = get_strings(answer, "NormalizedAliases", place)
    return normalized + get_strings(answer, "HumanAnswers", place)


def _documents(
    record: dict[str, Any], place: str, question_id: str, evidence: Path, skips: ExclusionCounts
) -> Iterator[Document]:
    seen = set()
    for key, folder in _FOLDERS.items():
        for page in get_field(record, key, list, place) or []:
            page = check_kind(page, dict, f"{place}: expected each element of {key!r} to be")
            name = get_field(page, "Filename", str, place) or ""
            document_id = f"{folder}/{name}"
            path = _inside(evidence / folder, name, place)
            # The unfiltered files list search results without a file name as well.
            if not os.path.isfile(path):
                skips.warn(MISSING_EVIDENCE, f"{question_id}: {document_id}")
                continue
            if document_id in seen:  # the same page found twice adds no evidence
                continue
            seen.add(document_id)
            text = read_text(path)
            if text.strip():
                yield Document(document_id, text)
            else:
                skips.warn(EMPTY_DOCUMENT, f"{question_id}: {document_id}")


def _inside(folder: Path, name: str, place: str) -> Path:
    """`folder / name`, provided that `name` does not lead out of `folder`."""
    if Path(name).anchor or ".." in Path(name).parts:
        raise InputError(f"{place}: expected a 'Filename' below {folder}, found {name!r}")
    return folder / name
