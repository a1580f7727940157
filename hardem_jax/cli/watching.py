"""Questions that are watched in training: their predictions and P(z) over Z at each evaluation.

``train`` writes ``watched/<step>.json`` into the run's folder, a list of
`hardem_jax.show.record.View`, and ``compare`` draws ``watched-<id>.html``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardem_jax.data.files import write_text
from hardem_jax.errors import InputError
from hardem_jax.show.html import as_html, document
from hardem_jax.show.record import View, record_of_views

if TYPE_CHECKING:
    from hardem_jax.task.base import Questions
    from hardem_jax.task.start import Start

#: Characters of an id in the name of a file.
_LONGEST_NAME = 100
#: From task, questions, their inputs and the readings of these to what is recorded.
Views = Callable[[Any, Any, Any, Sequence[tuple[int, Any]]], list[View]]


def observer(
    run: Start, ids: Sequence[str], views: Views, run_dir: Path
) -> Callable[[int, Any], None]:
    """What `training.loop.train` calls with step and parameters."""
    data = watched(run.dev, ids)

    def observe(step: int, params: Any) -> None:
        from hardem_jax.training.distributed import is_primary

        inputs, readings = run.read(params, data)
        if is_primary():
            seen = views(run.task, data, inputs, readings)
            (run_dir / "watched").mkdir(exist_ok=True)
            records = [dataclasses.asdict(view) for view in seen]
            records = [{k: v for k, v in record.items() if k != "spans"} for record in records]
            text = json.dumps(records, ensure_ascii=False)
            write_text(run_dir / "watched" / f"{step}.json", text + "\n")

    return observe


def watched(data: Questions, ids: Sequence[str]) -> Questions:
    """The questions with these ids, in this order."""
    places = {question.id: place for place, question in enumerate(data.questions)}
    for id in ids:
        if id not in places:
            known = ", ".join([*places][:3])
            raise InputError(f"--watched: expected ids of questions ({known}, ...), found {id!r}")
    return data.select([places[id] for id in ids])


def draw_watched(runs: Mapping[str, Path], ids: Sequence[str], out: Path) -> None:
    """Draws ``watched-<id>.html`` for each question that any run recorded."""
    recorded = {title: recorded_views(run_dir) for title, run_dir in runs.items()}
    for id in ids:
        panels = {title: views[id] for title, views in recorded.items() if id in views}
        if panels:
            record = record_of_views(panels)
            page = document(record.title, as_html(record))
            write_text(out / f"watched-{_file_name(id)}.html", page)
        else:
            print(f"--watched {id}: recorded by none of the runs, which began without it")


def _file_name(id: str) -> str:
    """An id as part of a file's name; what is cut or replaced is told apart by a digest."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", id)[:_LONGEST_NAME]
    return name if name == id else f"{name}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"


def recorded_views(run_dir: Path) -> dict[str, dict[int, View]]:
    """Question id -> training step -> view, in the order of the steps, of a run's folder."""
    by_id: dict[str, dict[int, View]] = {}
    for file in sorted((run_dir / "watched").glob("*.json"), key=lambda file: int(file.stem)):
        for record in json.loads(file.read_text("utf-8")):
            by_id.setdefault(record["id"], {})[int(file.stem)] = View(**record)
    return by_id
