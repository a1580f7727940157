"""What a split of a build holds: counts, |Z| statistics, and which records are its questions.

``build.json`` has the counts, ``{split}.index.json`` the rest:

============  ====================================================================================
``left_out``  [id, reason] of every question that cannot be used, in the order they were found
``kept``      those of these ids under which there is a question nevertheless
``repeated``  [id, golds] of every question whose id was seen before, of numeric questions
``skipped``   places of the records that are none of the split's questions, ascending
``tables``    table id -> place of the first record that holds the table
============  ====================================================================================

A question that Z cannot hold is left out. So is, among numeric and table questions in "train", one
without a solution: training cannot use it. Their records stay.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from hardem_jax.data.data_sets import DataSet, RecordKind
from hardem_jax.data.exclusions import ExclusionCounts, size_summary

#: The split that is trained on.
TRAIN = "train"


def count(
    kind: RecordKind,
    split: str,
    rows: Sequence[dict[str, Any]],
    skips: ExclusionCounts,
    data_set: DataSet,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts and index of a split, given `Solver.facts` of every record with its "digest".

    "content" is the digest of all digests, options and numbers left out. What drops out here is
    added to ``skips``.
    """
    used, skipped = [], []
    tables: dict[str, int] = {}
    for place, row in enumerate(rows):
        reason, _, note = row.get("defect", "").partition(": ")
        if not reason and not row["found"] and split == TRAIN:
            reason, note = kind.no_solution, row.get("note", "")
        if reason:
            skips.add(reason, row["id"], note)
            skipped.append(place)
            continue
        used.append(row)
        if kind.with_table:
            tables.setdefault(row["table_id"], place)
        if warning := row.get("warning"):
            skips.warn(warning, row["id"])
    sizes = [row["found"] for row in used]
    counts = {
        "questions read": len(used) + skips.total,
        "left out": skips.total,
        "questions": len(used),
        "questions with a solution": sum(size > 0 for size in sizes),
    }
    if kind.with_table:
        cut = [row["found"] - row["kept"] for row in used]
        counts["questions cut by the cap"] = sum(number > 0 for number in cut)
        counts["solutions cut by the cap"] = sum(cut)
        counts["tables"] = len(tables)
    # Not of ids: a question without one has a path in its place.
    determined = [dataclasses.asdict(data_set), skips.as_dict(), [row["digest"] for row in rows]]
    found = {
        "counts": list(counts.items()),  # in this order, for people
        "solutions per question": size_summary(sizes),
        "excluded": skips.as_dict(),
        "warnings": skips.warnings_as_dict(),
        "report": str(skips).splitlines(),
        "content": hashlib.sha256(json.dumps(determined).encode()).hexdigest()[:16],
    }
    ids = {row["id"] for row in used}
    index = {
        "left_out": skips.left_out,
        "kept": sorted({id for id, _ in skips.left_out if id in ids}),
        "skipped": skipped,
        "tables": tables,
    }
    if kind.repetitions:
        index["repeated"] = skips.repetitions
    return found, index
