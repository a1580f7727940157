"""Plots of learning curves, scores and differences, written as PNG files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # renders to files without a display
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.cm import ScalarMappable  # noqa: E402
from matplotlib.colors import LinearSegmentedColormap, Normalize  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from hardem_jax.analysis.statistics import Difference, Interval  # noqa: E402

#: Colours of the paper's objectives; others get the next free one (Okabe and Ito's palette, safe
#: for colour-blind readers).
COLOURS = {"First-only": "#E69F00", "MML": "#0072B2", "Hard EM": "#D55E00"}
OTHER_COLOURS = ("#666666", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
#: Inches for a line of a legend and for a character of its name.
LINE_WIDTH, CHARACTER_WIDTH = 0.7, 0.085
#: Of a difference, MML ahead in blue and hard EM in vermillion: theirs in `COLOURS`.
DIVERGING = LinearSegmentedColormap.from_list(
    "difference", [COLOURS["Hard EM"], "#ffffff", COLOURS["MML"]]
)
#: Of the colours of differences that may be none.
PALE = 0.35

#: The evaluations of a run, in order: ``step`` and metrics by name.
History = Sequence[Mapping[str, float]]


def learning_curves(
    histories: Mapping[str, Sequence[History]], *, metrics: Mapping[str, str], file: Path
) -> None:
    """Plots each metric (name -> label) against the step: mean over runs, range as a band. Only
    steps that all runs of an objective have are drawn, so one that stopped early ends a curve."""
    recorded = {name for runs in histories.values() for run in runs for r in run for name in r}
    metrics = {name: label for name, label in metrics.items() if name in recorded}
    if not metrics:
        return
    columns = len(metrics) if len(metrics) <= 3 else 2
    rows = -(-len(metrics) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(5 * columns, 4 * rows), squeeze=False, layout="constrained"
    )
    panels = grid.reshape(-1)
    for unused in panels[len(metrics) :]:
        unused.set_visible(False)
    styles = _styles(histories)
    for panel, (metric, label) in zip(panels, metrics.items(), strict=False):
        for index, (name, runs) in enumerate(histories.items()):
            curves = [{r["step"]: r[metric] for r in run if metric in r} for run in runs]
            steps = [step for step in curves[0] if all(step in curve for curve in curves)]
            values = np.array([[curve[step] for step in steps] for curve in curves])
            colour, variant = styles[name]
            # Rings around each other, so that curves of equal scores stay visible.
            size = 3 + 2 * (len(histories) - 1 - index)
            look = {"color": colour, "label": name, "marker": "o", "mfc": "none", "ms": size}
            panel.plot(steps, values.mean(axis=0), ls=LINES[variant % len(LINES)], **look)
            band = values.min(axis=0), values.max(axis=0)
            panel.fill_between(steps, *band, color=colour, alpha=0.15, lw=0)
        panel.set(xlabel="training step", ylabel=label)
        panel.set_xlim(left=0)
        _finish_panel(panel)
    _save(figure, panels[0], file)


def scores_by_group(
    scores: Mapping[str, Sequence[Mapping[str, float]]],
    *,
    groups: Mapping[str, str],
    bounds: Mapping[str, Mapping[str, Interval]],
    labels: tuple[str, str],
    file: Path,
) -> None:
    """Plots bars per objective and group, e.g. accuracy by |Z| (Min et al., 2019, figure 2).

    Bars show the mean over runs; error bars the interval, by objective and metric in ``bounds``,
    or where none is known the range of the runs. ``groups``: metric -> group, in order.
    """
    width = 0.8 / len(scores)
    figure, panel = plt.subplots(
        figsize=(max(5.0, 0.32 * len(scores) * len(groups) + 1.5), 4), layout="constrained"
    )
    styles = _styles(scores)
    for index, (name, runs) in enumerate(scores.items()):
        colour, variant = styles[name]
        values = np.array([[run.get(group, np.nan) for group in groups] for run in runs])
        mean, own = values.mean(axis=0), bounds.get(name, {})
        ranges = zip(groups, values.min(axis=0), values.max(axis=0), strict=True)
        low, high = np.transpose([own[x][1:] if x in own else ends for x, *ends in ranges])
        # An interval without a width may miss the mean by a rounding error.
        errors = np.maximum([mean - low, high - mean], 0)
        panel.bar(
            np.arange(len(groups)) + (index - (len(scores) - 1) / 2) * width,
            mean,
            width,
            yerr=errors if own or len(runs) > 1 else None,
            color=colour,
            alpha=1 / (1 + 0.6 * variant),
            error_kw={"lw": 0.8, "ecolor": "#333333"},
            label=name,
        )
    panel.set(xlabel=labels[0], ylabel=labels[1])
    panel.set_xticks(np.arange(len(groups)), list(groups.values()))
    panel.set_axisbelow(True)
    _finish_panel(panel)
    _save(figure, panel, file)


def difference_maps(
    panels: Mapping[str, Sequence[Sequence[Difference | None]]],
    *,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    label: str,
    file: Path,
) -> None:
    """Draws tables of differences as heat maps, with intervals in the cells. Colours are centred at
    0 and the same in all panels; cells whose interval holds 0 are pale."""
    shape = len(rows[1]), len(columns[1])
    figure, grid = plt.subplots(
        1,
        len(panels),
        figsize=(max(4.2, 1.25 * shape[1] + 0.6) * len(panels) + 1.6, 0.85 * shape[0] + 1.6),
        squeeze=False,
        layout="constrained",
    )
    found = [cell for table in panels.values() for row in table for cell in row if cell]
    # At least a point, so that a table of zeros is white.
    limit = max([1.0, *(abs(cell.mean) for cell in found)])
    norm = Normalize(-limit, limit)
    for panel, (title, table) in zip(grid[0], panels.items(), strict=True):
        colours = np.full((*shape, 4), 1.0)
        for i, row in enumerate(table):
            for j, cell in enumerate(row):
                style = {"ha": "center", "va": "center", "color": "#222222"}
                if cell is None:
                    panel.text(j, i, "no runs", fontsize=9, **style | {"color": "#777777"})
                    continue
                shown = not cell.low <= 0 <= cell.high
                colours[i, j] = DIVERGING(norm(cell.mean))
                if not shown:
                    colours[i, j, :3] = 1 - PALE * (1 - colours[i, j, :3])
                if colours[i, j, :3] @ (0.299, 0.587, 0.114) < 0.45:
                    style["color"] = "#ffffff"
                weight = "bold" if shown else "normal"
                panel.text(j, i - 0.12, f"{cell.mean:+.1f}", fontsize=11, weight=weight, **style)
                panel.text(j, i + 0.22, f"[{cell.low:.1f}, {cell.high:.1f}]", fontsize=8, **style)
        panel.imshow(colours, aspect="auto")
        panel.set_title(title, fontsize=11)
        panel.set(xlabel=columns[0], ylabel=rows[0])
        panel.set_xticks(range(shape[1]), columns[1])
        panel.set_yticks(range(shape[0]), rows[1])
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        # Lines between cells, which many white ones need.
        panel.set_xticks(np.arange(0.5, shape[1] - 1), minor=True)
        panel.set_yticks(np.arange(0.5, shape[0] - 1), minor=True)
        panel.grid(which="minor", color="#bbbbbb", lw=0.6)
        panel.tick_params(which="minor", length=0)
    figure.colorbar(ScalarMappable(norm, DIVERGING), ax=list(grid[0]), label=label)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def interval_curves(
    panels: Mapping[str, Mapping[str, Sequence[Interval | None]]],
    *,
    values: tuple[str, Sequence[str]],
    file: Path,
) -> None:
    """Plots scores with intervals against the values of a setting, which are equally far apart."""
    figure, grid = plt.subplots(
        1, len(panels), figsize=(5 * len(panels), 4), squeeze=False, layout="constrained"
    )
    for panel, (label, curves) in zip(grid[0], panels.items(), strict=True):
        styles = _styles(curves)
        for index, (name, found) in enumerate(curves.items()):
            colour, variant = styles[name]
            # Side by side, so that equal scores do not hide each other.
            shift = 0.06 * (index - (len(curves) - 1) / 2)
            points = [(x + shift, *cell) for x, cell in enumerate(found) if cell is not None]
            x, mean, low, high = np.array(points).reshape(-1, 4).T
            panel.errorbar(
                x,
                mean,
                yerr=[mean - low, high - mean],
                ls=LINES[variant % len(LINES)],
                color=colour,
                marker="o",
                ms=4,
                capsize=2,
                label=name,
            )
        panel.set(xlabel=values[0], ylabel=label)
        panel.set_xticks(range(len(values[1])), values[1])
        panel.set_xlim(-0.4, len(values[1]) - 0.6)
        _finish_panel(panel)
    _save(figure, grid[0][0], file)


def _styles(names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """The colour of each name's objective, and its number among those of this colour, from 0:
    "Hard EM, tau 100" is a variant of hard EM. They differ in dashes or in shade."""
    variants: dict[str, int] = {}
    colours = dict(COLOURS)
    styles = {}
    for name in names:
        title = name.partition(",")[0]
        free = OTHER_COLOURS[(len(colours) - len(COLOURS)) % len(OTHER_COLOURS)]
        colour = colours.setdefault(title, free)
        styles[name] = colour, variants.get(colour, 0)
        variants[colour] = variants.get(colour, 0) + 1
    return styles


def _finish_panel(panel: Axes) -> None:
    # Room for the markers of the highest values, however close they are to each other.
    low, high = (1.05 * bound for bound in panel.dataLim.intervaly)
    panel.set_ylim(min(0, low), max(panel.get_ylim()[1], high))
    panel.grid(color="#dddddd", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, panel: Axes, file: Path) -> None:
    """Saves the figure with one legend, taken from `panel`, above all panels."""
    handles, labels = panel.get_legend_handles_labels()
    name_width = LINE_WIDTH + CHARACTER_WIDTH * max(map(len, labels))
    ncols = min(len(labels), max(1, int(figure.get_figwidth() / name_width)))
    figure.legend(handles, labels, loc="outside upper center", ncols=ncols, frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)
