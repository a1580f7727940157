"""One HTML file with everything in it.

The list, those left out and what models say of each question are JSON in ``<script>``, what
`hardem_jax.show.html` draws of a question is HTML there, so that the page parses what it shows and
no more. Its policy allows its own script alone, and no address at all.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import importlib.resources
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from experiments.inspect.sources import RunViews, Said, Source
from hardem_jax.show import html
from hardem_jax.show.html import visible
from hardem_jax.show.record import Record, View, with_predictions


def record(
    source: Source, runs: Sequence[RunViews], *, most: int, left_out: int = 2000
) -> dict[str, Any]:
    """What the template and the script read, as plain values and HTML."""
    rows, questions, drawings = [], [], []
    for index, question in enumerate(source.questions):
        said = [{step: at[index] for step, at in run.said.items() if index in at} for run in runs]
        outcomes = [_last(own) for own in said]
        found, drawn, drawing = _question(source, index, said, most)
        answer = visible(drawn.answer)
        texts = visible(question.id), visible(question.question), answer
        rows.append([*texts, drawn.size, outcomes])
        questions.append(found)
        drawings.append(drawing)
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
            {"name": visible(name), "moments": [*run.moments.items()]}
            for name, run in zip(_names(runs), runs, strict=True)
        ],
    }
    numbers = {reason: number for number, reason in enumerate(why)}
    left = [
        [visible(id), numbers[reason], visible(source.asked.get(id, ""))] for id, reason in listed
    ]
    return dict(about=about, list=rows, questions=questions, drawings=drawings, left=left)


def page(content: dict[str, Any]) -> str:
    """The HTML file of a `record`."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file), autoescape=True, undefined=jinja2.StrictUndefined
    )
    # ASCII only: control, bidirectional and unpaired characters are escapes in the file.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    script, style = _file("page.js"), html.style_sheet() + _file("page.css")
    # What the policy names the script by.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = environment.get_template("page.html.j2")
    return template.render(**content, script=script, style=style, script_hash=digest)


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
    source: Source, index: int, said: Sequence[dict[int, Said]], most: int
) -> tuple[dict[str, Any], Record, str]:
    """What the script reads of a question, the question, and its HTML."""
    views = [one.view for steps in said for one in steps.values()]
    places: dict[int, dict[int, int]] = {}
    all_lines: Sequence[str] = ()

    def choose(lines: Sequence[str]) -> list[int]:
        nonlocal all_lines
        all_lines = lines
        places.update({id(view): _places(view, lines) for view in views})
        return _chosen(places, views, len(lines), most)

    # Where a prediction outside of Z is -> its number.
    outside: dict[Any, int] = {}
    for view in views:
        if view.predicted < 0 and view.spans:
            outside.setdefault(tuple(view.spans), len(outside))
    drawn = with_predictions(source.record(index, choose), [*outside])
    chosen = [entry.number for entry in drawn.solutions]
    if view := next((view for view in views if view.true >= 0), None):
        number = {at: z for z, at in places[id(view)].items()}.get(view.true)
        drawn = dataclasses.replace(drawn, true=chosen.index(number) if number in chosen else -1)
    drawing, sets = html.content(drawn, shown=most)
    said_of = functools.partial(_said, chosen=chosen, outside=outside, lines=set(all_lines))
    found = {
        "z": chosen,
        "all": len(all_lines),
        "sets": [f"{sum(1 << place for place in places):x}" for places in sets],
        "runs": [
            {str(step): said_of(one, places[id(one.view)]) for step, one in steps.items()}
            for steps in said
        ],
    }
    # ASCII only, as JSON is: what turns the direction of letters is a reference in the file.
    return found, drawn, drawing.encode("ascii", "xmlcharrefreplace").decode()


def _places(view: View, texts: Sequence[str]) -> dict[int, int]:
    """Index in Z -> index in the view, which lacks what its model could not read."""
    if view.places or len(view.solutions) == len(texts):
        return {z: place for place, z in enumerate(view.places or range(len(texts)))}
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


def _said(
    said: Said, places: dict[int, int], *, chosen: Sequence[int], outside: dict, lines: set[str]
) -> dict[str, Any]:
    """What the script reads of a view. Its ``z`` is the place of the prediction among those
    chosen, -2 if it is another one of Z, of which ``lines`` are the texts, and -1 if none."""
    view = said.view
    in_z = view.predicted >= 0 or view.prediction in lines
    probabilities = [_short(view.probabilities[places[z]]) if z in places else None for z in chosen]
    numbers = [number for number, z in enumerate(chosen) if places.get(z, -2) == view.predicted]
    found: dict[str, Any] = {
        "p": probabilities,
        "sum": _short(sum(view.probabilities)),
        "prediction": visible(view.prediction),
        "chance": _short(view.probability),
        "z": numbers[0] if numbers and view.predicted >= 0 else -2 if in_z else -1,
    }
    if (spans := tuple(view.spans)) in outside and view.predicted < 0:
        found["at"] = outside[spans]
    if said.correct is not None:
        found |= {"answer": visible(said.answer or ""), "correct": int(said.correct)}
    return found


def _short(value: float) -> float:
    """A number with the digits that a page shows."""
    return float(f"{value:.3g}")


def _file(name: str) -> str:
    return importlib.resources.files("experiments.inspect").joinpath(name).read_text("utf-8")
