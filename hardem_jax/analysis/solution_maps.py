"""What a model makes of single questions while it is trained: P(z) over Z, as pictures.

Min et al. (2019) show the most likely solution and P(z) over Z after 1,000 to 32,000 steps for two
questions of DROP.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

from hardem_jax.analysis.views import View

matplotlib.use("Agg")  # renders to files without a display
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.colors import Normalize  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

#: Longest text of a solution in a picture, characters.
WIDTH = 64


def solution_maps(
    panels: Mapping[str, Mapping[int, View]], *, file: Path, most: int = 8, outside: int = 6
) -> None:
    """Draws P(z) over Z at several training steps, with the prediction of each step framed.

    Rows are the solutions of Z that are likely at some step, the most likely on average first; the
    true one is in bold. Below a line are predictions that are not in Z.

    Args:
        panels: title -> training step -> view, all of one question.
        file: PNG to write.
        most: solutions of Z to show, besides the true one and predictions.
        outside: predictions outside Z to show, the most frequent ones.

    Example:
        >>> import tempfile
        >>> view = View("q", "Who?", "Ann", ["Ann (1)", "Ann (2)"], [0.2, 0.7], 1, "Bo", 0.8, -1)
        >>> file = Path(tempfile.mkdtemp()) / "map.png"
        >>> solution_maps({"MML": {100: view}}, file=file)
        >>> file.is_file()
        True
    """
    views = [view for steps in panels.values() for view in steps.values()]
    inside, others = _rows(views, most=most, outside=outside)
    shown = views[0]
    labels = [shown.solutions[z] for z in inside] + others
    columns = [len(steps) for steps in panels.values()]
    figure, grid = plt.subplots(
        1,
        len(panels),
        figsize=(5.2 + 0.55 * sum(columns), 1.7 + 0.32 * len(labels)),
        squeeze=False,
        sharey=True,
        width_ratios=columns,
        layout="constrained",
    )
    for panel, (title, steps) in zip(grid[0], panels.items(), strict=True):
        _draw(panel, steps, inside, others)
        panel.set_title(title, fontsize=10)
    first: Axes = grid[0][0]
    # Texts of data: dollars in them are no formulas.
    texts = [_short(text) for text in labels]
    first.set_yticks(range(len(labels)), texts, fontsize=8, parse_math=False)
    for z, tick in zip(inside, first.get_yticklabels(), strict=False):
        tick.set_fontweight("bold" if z == shown.true else "normal")
    first.set_ylim(len(labels) - 0.5, -0.5)
    answer = f" ({shown.answer})" if shown.answer else ""
    asked = "\n".join(textwrap.wrap(f"{shown.question}{answer}", 90))
    figure.suptitle(asked, fontsize=10, parse_math=False)
    true = "bold: the true one; " if shown.true >= 0 else ""
    figure.supxlabel(
        f"training step (P in %; {true}frame: the prediction; below the line: not in Z)",
        fontsize=8,
    )
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _rows(views: Sequence[View], *, most: int, outside: int) -> tuple[list[int], list[str]]:
    """Indices in Z and texts outside it that get a row."""
    count = len(views[0].solutions)
    means = [sum(view.probabilities[z] for view in views) / len(views) for z in range(count)]
    ranked = sorted(range(count), key=lambda z: -means[z])
    wanted = {*ranked[:most], *(view.predicted for view in views), views[0].true}
    texts = Counter(v.prediction for v in views if v.predicted < 0 and v.prediction)
    return [z for z in ranked if z in wanted], [text for text, _ in texts.most_common(outside)]


def _draw(
    panel: Axes, steps: Mapping[int, View], inside: Sequence[int], others: Sequence[str]
) -> None:
    colours, norm = plt.get_cmap("Blues"), Normalize(0, 1.25)
    for column, view in enumerate(steps.values()):
        cells = [view.probabilities[z] for z in inside]
        framed = inside.index(view.predicted) if view.predicted in inside else None
        if framed is None and view.prediction in others:
            framed = len(inside) + others.index(view.prediction)
        shown = dict(enumerate(cells))
        if framed is not None and framed >= len(inside):
            shown[framed] = view.probability  # known at this step only
        for row, value in shown.items():
            box = Rectangle((column - 0.5, row - 0.5), 1, 1, fc=colours(norm(value)), ec="white")
            panel.add_patch(box)
            colour = "white" if value > 0.6 else "#222222"
            text = f"{100 * value:.0f}" if value >= 0.005 else "<1"
            panel.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        if framed is not None:
            box = Rectangle((column - 0.46, framed - 0.44), 0.92, 0.88, fill=False, lw=1.4)
            panel.add_patch(box)
    if others:
        panel.axhline(len(inside) - 0.5, color="#666666", lw=0.8)
    panel.set_xlim(-0.5, len(steps) - 0.5)
    panel.set_xticks(range(len(steps)), [f"{step:,}" for step in steps], fontsize=8)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
