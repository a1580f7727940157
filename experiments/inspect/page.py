"""One HTML file with everything in it.

Data are JSON in ``<script type="application/json">``, one for the list of questions, one for those
left out and one for each question, document and table, so that the page parses what it shows and no
more. The page itself is a template of Jinja2, which escapes what it is given, and a script that
writes data as text, never as HTML. Its policy allows this script alone, and no address at all.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib.resources
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from experiments.inspect.drawings import Drawer, Drawing, Text
from experiments.inspect.sources import RunViews, Said, Source
from hardem_jax.analysis.views import View
from hardem_jax.notebook.marks import segments
from hardem_jax.notebook.page import visible
from hardem_jax.notebook.queries import cell_text
from hardem_jax.solutions.sql.types import Table, column_names


@dataclasses.dataclass
class Parts:
    """Texts and tables that questions share, each kept once.

    Attributes:
        kept: content of each, by number.
    """

    kept: list[Any] = dataclasses.field(default_factory=list)
    _numbers: dict[Any, int] = dataclasses.field(default_factory=dict)

    def number(self, key: Any, content: Any) -> int:
        """The number of a part; ``content`` is kept if ``key`` is new."""
        if key not in self._numbers:
            self._numbers[key] = len(self.kept)
            self.kept.append(content)
        return self._numbers[key]


def record(
    source: Source, runs: Sequence[RunViews], *, most: int, left_out: int = 2000
) -> dict[str, Any]:
    """Everything that the page shows, as plain values.

    Args:
        source: the questions.
        runs: what models say of them; none for Z only.
        most: solutions of each question.
        left_out: questions to list that the split lacks, with the reason.

    Returns:
        "about" the page, "list" with a row for each question, "questions", "left" out and shared
        "parts".
    """
    drawer, parts = source.drawer(), Parts()
    rows, questions = [], []
    for index, question in enumerate(source.questions):
        said = [{step: at[index] for step, at in run.said.items() if index in at} for run in runs]
        outcomes = [_last(own) for own in said]
        answer = visible(drawer.answer(index))
        size = drawer.size(index)
        rows.append([visible(question.id), visible(question.question), answer, size, outcomes])
        questions.append(_question(drawer, index, said, parts, most))
    why = Counter(source.left_out.values())
    listed = list(itertools.islice(source.left_out.items(), left_out))
    about = {
        "title": visible(source.title),
        "answers": source.data.scored or any(answer for _, _, answer, _, _ in rows),
        "leftOut": [
            [visible(reason), count, reason in source.counted] for reason, count in why.items()
        ],
        "listed": len(listed),
        "runs": [
            {
                "name": visible(name),
                "moments": [[step, which] for step, which in run.moments.items()],
            }
            for name, run in zip(_names(runs), runs, strict=True)
        ],
    }
    numbers = {reason: number for number, reason in enumerate(why)}
    left = [
        [visible(id), numbers[reason], visible(source.asked.get(id, ""))] for id, reason in listed
    ]
    return {
        **{"about": about, "list": rows, "questions": questions},
        **{"left": left, "parts": parts.kept},
    }


def page(content: dict[str, Any]) -> str:
    """The HTML file of a `record`."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file), autoescape=True, undefined=jinja2.StrictUndefined
    )
    # ASCII only: control, bidirectional and unpaired characters are escapes in the file.
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": True,
        "separators": (",", ":"),
        "allow_nan": False,
    }
    script, style = _file("page.js"), _file("page.css")
    return environment.get_template("page.html.j2").render(
        **content, script=script, style=style, script_hash=_digest(script)
    )


def _names(runs: Sequence[RunViews]) -> list[str]:
    """Names that tell runs apart: the objective, and as much of the folder as that takes."""
    names = [run.name for run in runs]
    for count in range(1, max((len(run.folder.parts) for run in runs), default=0) + 1):
        if len(set(names)) == len(names):
            break
        names = [
            f"{run.name} ({Path(*run.folder.parts[-count:])})" if names.count(name) > 1 else name
            for name, run in zip(names, runs, strict=True)
        ]
    return names


def _last(said: dict[int, Said]) -> int | None:
    """1 if the run's last answer that was scored is right, 0 if wrong; None without any."""
    scored = [one.correct for _, one in sorted(said.items()) if one.correct is not None]
    return int(scored[-1]) if scored else None


def _question(
    drawer: Drawer, index: int, said: Sequence[dict[int, Said]], parts: Parts, most: int
) -> dict[str, Any]:
    views = [one.view for steps in said for one in steps.values()]
    texts = drawer.texts(index)
    places = {id(view): _places(view, texts) for view in views}
    chosen = _chosen(places, views, len(texts), most)
    drawing = drawer.draw(index, chosen)
    true = next((v.true for v in views if v.true >= 0), -1)
    found: dict[str, Any] = {
        "z": [
            [number, visible(text), place]
            for number, (text, place) in zip(chosen, drawing.solutions, strict=True)
        ],
        "texts": [_text(text, parts) for text in drawing.texts],
        "all": len(texts),
        "runs": [
            {str(step): _said(one, places[id(one.view)], chosen) for step, one in steps.items()}
            for steps in said
        ],
    }
    if true >= 0:
        view = next(v for v in views if v.true >= 0)
        number = {at: z for z, at in places[id(view)].items()}.get(true)
        found["true"] = chosen.index(number) if number in chosen else -1
    if drawing.table is not None:
        found["table"] = parts.number(("table", drawing.table.id), _table(drawing.table))
        found |= _cells(drawing)
    return found


def _places(view: View, texts: Sequence[str]) -> dict[int, int]:
    """Index in Z -> index in the view, which lacks what its model could not read."""
    if len(view.solutions) == len(texts):
        return {z: z for z in range(len(texts))}
    free: dict[str, deque[int]] = defaultdict(deque)
    for place, text in enumerate(view.solutions):
        free[text].append(place)
    return {z: free[text].popleft() for z, text in enumerate(texts) if free[text]}


def _chosen(
    places: dict[int, dict[int, int]], views: Sequence[View], count: int, most: int
) -> list[int]:
    """The solutions to show, in the order of Z: the most likely at any moment, and the true one."""
    if count <= most or not views:
        return list(range(min(count, most)))
    best = [0.0] * count
    for view in views:
        for z, at in places[id(view)].items():
            # The prediction and the true one are shown, whatever their probability is.
            wanted = 2.0 if at in (view.true, view.predicted) else view.probabilities[at]
            best[z] = max(best[z], wanted)
    return sorted(sorted(range(count), key=lambda z: -best[z])[:most])


def _said(said: Said, places: dict[int, int], chosen: Sequence[int]) -> dict[str, Any]:
    view = said.view
    probabilities = [_short(view.probabilities[places[z]]) if z in places else None for z in chosen]
    numbers = [number for number, z in enumerate(chosen) if places.get(z, -2) == view.predicted]
    found: dict[str, Any] = {
        "p": probabilities,
        "sum": _short(sum(view.probabilities)),
        "prediction": visible(view.prediction),
        "chance": _short(view.probability),
        "z": numbers[0] if numbers and view.predicted >= 0 else -1,
    }
    if said.correct is not None:
        found |= {"answer": visible(said.answer or ""), "correct": int(said.correct)}
    return found


def _short(value: float) -> float:
    """A number with the digits that a page shows."""
    return float(f"{value:.3g}")


def _text(text: Text, parts: Parts) -> dict[str, Any]:
    """A text in segments: how many characters, and the solutions that cover them."""
    found: list[Any] = []
    for start, end, over in segments(len(text.text), text.marks):
        marks = [text.marks[index] for index in over]
        numbers = sorted({z for mark in marks for z in mark.solutions})
        looks = {mark.look for mark in marks} - {"solution"}
        if looks and not numbers:
            found.append([end - start, min(looks)])
        else:
            found.append([end - start, numbers] if numbers else [end - start])
    shared = parts.number(("text", text.text), visible(text.text))
    return {"label": text.label, "text": shared, "segments": found}


def _table(table: Table) -> dict[str, Any]:
    return {
        "header": [visible(name) for name in table.header],
        "names": [visible(name) for name in column_names(table.header)],
        "real": [kind == "real" for kind in table.types],
        "rows": [[None if c is None else visible(cell_text(c)) for c in row] for row in table.rows],
    }


def _cells(drawing: Drawing) -> dict[str, Any]:
    """Of each solution the column, the compared columns and the number of its set of rows.

    A compared column stands alone where its rows are those of the result.
    """
    sets = Parts()
    cells = []
    for one in drawing.cells:
        compared = [
            column if rows == one.rows else [column, sets.number(rows, rows)]
            for column, rows in one.compared
        ]
        cells.append([one.select, compared, sets.number(one.rows, one.rows)])
    return {"cells": cells, "rowSets": sets.kept}


def _file(name: str) -> str:
    return importlib.resources.files("experiments.inspect").joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    """What a policy names a script by."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
