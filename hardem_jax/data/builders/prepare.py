"""Builds turned into prepared splits, which training reads; Z is taken over, not found again.

For reading, `data.prepared.spans.prepare_split` takes the examples of a build as they are. For
numbers and tables, the functions here write what `data.prepared.equations.prepare_questions` and
`data.prepared.queries.prepare_queries` would write of the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardem_jax.data.builders.features import to_query_question, to_table
from hardem_jax.data.builders.read import Build
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.equations import write_questions
from hardem_jax.data.prepared.queries import write_queries
from hardem_jax.data.prepared.query_records import QueryQuestion
from hardem_jax.errors import InputError
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.solutions.sql.enumeration import SqlRules, Table


def source_of(build: Build, split: str) -> dict[str, str]:
    """What a prepared split records as its source: the build, which records its own."""
    return {"build": build.meta["fingerprint"], "data set": build.meta["data set"], "split": split}


def add_left_out(build: Build, split: str, exclusions: ExclusionCounts) -> None:
    """Adds what the build left out of its source files, so that the prepared split knows, too."""
    for id, reason in build.meta["splits"][split]["left_out"]:
        exclusions.add(reason, id)


def prepare_numeric(
    build: Build,
    split: str,
    folder: Path,
    *,
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
    replace: bool = False,
) -> dict[str, Any]:
    """The prepared split of `hardem_jax.data.prepared.equations`.

    Args:
        build: of the kind "numeric".
        split: of the build.
        folder: to be created; it may exist if it is empty.
        exclusions: what drops out is added to it.
        keep_without_solution: True for data to evaluate on.
        replace: whether a complete split of this kind is replaced.

    Returns:
        The content of ``meta.json``.
    """
    _check(build, "numeric")
    examples = build.examples(split)
    add_left_out(build, split, exclusions)
    options = build.meta["options"]
    return write_questions(
        examples,
        folder,
        numbers=NumberConfig(**options["numbers"]),
        rules=EquationRules(**options["rules"]),
        sources=source_of(build, split),
        exclusions=exclusions,
        keep_without_solution=keep_without_solution,
        replace=replace,
        reader={"max_words": options["max_words"]},
    )


def prepare_queries(
    build: Build,
    split: str,
    folder: Path,
    *,
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
    replace: bool = False,
) -> dict[str, Any]:
    """The prepared split of `hardem_jax.data.prepared.queries`; see `prepare_numeric`."""
    _check(build, "queries")
    records = build.records(split)
    add_left_out(build, split, exclusions)
    return write_queries(
        map(_solved, records),
        folder,
        rules=SqlRules(**build.meta["options"]["rules"]),
        sources=source_of(build, split),
        exclusions=exclusions,
        keep_without_solution=keep_without_solution,
        replace=replace,
    )


def _solved(record: dict[str, Any]) -> tuple[str, QueryQuestion | str, Table]:
    question = to_query_question(record)
    return question.id, record["defect"].decode() or question, to_table(record)


def _check(build: Build, kind: str) -> None:
    if build.kind != kind:
        raise InputError(f"{build.folder}: expected records of kind {kind!r}, found {build.kind!r}")
