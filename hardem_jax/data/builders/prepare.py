"""Builds turned into prepared splits, which training reads; Z is taken over, not found again.

For reading, `hardem_jax.data.prepared.prepare_split` takes the examples of a build as they are. For
numbers and tables, the functions here write what `hardem_jax.data.equations.prepare_questions` and
`hardem_jax.data.queries.prepare_queries` would write of the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardem_jax.data.builders.features import to_query_question, to_table
from hardem_jax.data.builders.read import Build
from hardem_jax.data.equations import FORMAT as EQUATIONS_FORMAT
from hardem_jax.data.equations import NO_SOLUTION as NO_EQUATION
from hardem_jax.data.equations import QUESTIONS, NumericQuestion
from hardem_jax.data.examples import ExclusionCounts
from hardem_jax.data.queries import FEWER_CONDITIONS, NOT_ENUMERABLE
from hardem_jax.data.queries import NO_SOLUTION as NO_QUERY
from hardem_jax.data.query_records import SplitWriter
from hardem_jax.data.records import RecordWriter, new_folder, size_summary, write_json
from hardem_jax.errors import InputError


def source_of(build: Build, split: str) -> dict[str, str]:
    """What a prepared split records as its source: the build, which records its own."""
    return {"build": build.meta["fingerprint"], "data set": build.meta["data set"], "split": split}


def prepare_numeric(
    build: Build,
    split: str,
    folder: Path,
    *,
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
) -> dict[str, Any]:
    """The prepared split of `hardem_jax.data.equations`.

    Args:
        build: of the kind "numeric".
        split: of the build.
        folder: to be created; an existing one is replaced if it is a prepared split.
        exclusions: what drops out is added to it.
        keep_without_solution: True for data to evaluate on.

    Returns:
        The content of ``meta.json``.
    """
    _check(build, "numeric")
    sizes: list[int] = []
    questions = build.examples(split)
    with new_folder(folder) as partial:
        writer = RecordWriter(partial / "questions", QUESTIONS)
        for index in range(len(questions)):
            question: NumericQuestion = questions[index]
            if not len(question.equations) and not keep_without_solution:
                exclusions.add(NO_EQUATION, question.id)
                continue
            sizes.append(len(question.equations))
            writer.write(question)
        writer.close()
        options = build.meta["options"]
        meta = {
            "format": EQUATIONS_FORMAT,
            "numbers": options["numbers"],
            "rules": options["rules"],
            "sources": source_of(build, split),
            "reader": {"max_words": options["max_words"]},
            "counts": {
                "examples read": len(questions),
                "questions": len(sizes),
                "questions with a solution": sum(size > 0 for size in sizes),
            },
            "excluded": exclusions.as_dict(),
            "warnings": exclusions.warnings_as_dict(),
            "solutions per question": size_summary(sizes),
        }
        write_json(partial / "meta.json", meta)
    return meta


def prepare_queries(
    build: Build,
    split: str,
    folder: Path,
    *,
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
) -> dict[str, Any]:
    """The prepared split of `hardem_jax.data.queries`; see `prepare_numeric`."""
    _check(build, "queries")
    rules = build.meta["options"]["rules"]
    records = build.records(split)
    with new_folder(folder) as partial:
        writer = SplitWriter(partial)
        for index in range(len(records)):
            record = records[index]
            question = to_query_question(record)
            if defect := record["defect"].decode():
                exclusions.add(NOT_ENUMERABLE, f"{question.id}: {defect}")
                continue
            if not question.num_queries and not keep_without_solution:
                exclusions.add(NO_QUERY, question.id)
                continue
            if question.max_conditions < rules["max_conditions"]:
                exclusions.warn(FEWER_CONDITIONS, question.id)
            writer.write(question, to_table(record))
        meta = {
            "rules": rules,
            "sources": source_of(build, split),
            "reader": {},
            "excluded": exclusions.as_dict(),
            "warnings": exclusions.warnings_as_dict(),
        }
        return writer.close(meta, {"questions read": len(records)})


def _check(build: Build, kind: str) -> None:
    if build.kind != kind:
        raise InputError(f"{build.folder}: expected records of kind {kind!r}, found {build.kind!r}")
