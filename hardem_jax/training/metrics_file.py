"""`metrics.jsonl` of a run: read, and cut back to a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError
from hardem_jax.training.config import METRICS_FILE


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """All records of a run's `metrics.jsonl`, except a last one that was never completed.

    Raises:
        InputError: another line is damaged.
    """
    path = run_dir / METRICS_FILE
    with path.open("rb") as file:
        return [record for record, _ in _records(file, path)]


def truncate_metrics(path: Path, step: int, evaluated: bool = True) -> None:
    """Truncates `metrics.jsonl` to the lines of steps up to `step`.

    Later lines (the last one possibly incomplete) were written by a process that was killed
    after its last checkpoint; the resumed run writes them again.

    Args:
        path: the file; may be missing.
        step: step of the checkpoint.
        evaluated: whether the checkpoint includes the evaluation of this step; if not, that
            line is removed too.

    Raises:
        InputError: a line up to there is damaged.
    """
    if not path.exists():
        return
    keep = 0
    with path.open("r+b") as file:
        for record, size in _records(file, path):
            repeated = not evaluated and record["step"] == step and record["kind"] == "eval"
            if record["step"] > step or repeated:
                break
            keep += size
        file.truncate(keep)


def _records(lines: Iterable[bytes], path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Records with their size in bytes, up to a line that was never completed."""
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            break
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}: line {number}: expected JSON, found {error}") from error
        yield record, len(line)
