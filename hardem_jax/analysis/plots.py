"""Plots of learning curves and scores, written as PNG files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # renders to files without a display
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

#: Colours of the paper's objectives; others get the next free one (Okabe and Ito's palette, safe
#: for colour-blind readers).
COLOURS = {"First-only": "#E69F00", "MML": "#0072B2", "Hard EM": "#D55E00"}
OTHER_COLOURS = ("#666666", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
LINES = ("-", "--", "-.", ":")

#: The evaluations of a run, in order: ``step`` and metrics by name.
History = Sequence[Mapping[str, float]]


def learning_curves(
    histories: Mapping[str, Sequence[History]], *, metrics: Mapping[str, str], file: Path
) -> None:
    """Plots each metric against the training step: the mean over runs, with the range as a band.

    Args:
        histories: objective -> its runs, with records at the same steps; records without a
            metric are skipped in its panel.
        metrics: metric name -> axis label with unit; axes start at 0. Metrics that no record
            has are left out.
        file: PNG to write.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "curves.png"
        >>> runs = {"MML": [[{"step": 1, "em": 10.0}, {"step": 2, "em": 20.0}]]}
        >>> learning_curves(runs, metrics={"em": "exact match (%)"}, file=file)
        >>> file.is_file()
        True
    """
    recorded = {name for runs in histories.values() for run in runs for r in run for name in r}
    metrics = {name: label for name, label in metrics.items() if name in recorded}
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
        for name, runs in histories.items():
            steps = [record["step"] for record in runs[0] if metric in record]
            values = np.array([[r[metric] for r in run if metric in r] for run in runs])
            colour, variant = styles[name]
            dashes = LINES[variant % len(LINES)]
            mean = values.mean(axis=0)
            panel.plot(steps, mean, dashes, color=colour, label=name, marker="o", ms=3)
            if len(runs) > 1:
                low, high = values.min(axis=0), values.max(axis=0)
                panel.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        panel.set(xlabel="training step", ylabel=label)
        panel.set_xlim(left=0)
        _finish_panel(panel)
    _save(figure, panels[0], file)


def scores_by_group(
    scores: Mapping[str, Sequence[Mapping[str, float]]],
    *,
    groups: Mapping[str, str],
    labels: tuple[str, str],
    file: Path,
) -> None:
    """Plots bars per objective and group, e.g. accuracy by |Z| (Min et al., 2019, figure 3).

    Bars show the mean over runs, error bars the range.

    Args:
        scores: objective -> metrics of its runs.
        groups: metric name -> group name, in axis order.
        labels: labels of the horizontal and vertical axis; the latter starts at 0.
        file: PNG to write.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "by-size.png"
        >>> groups = {"em |Z|=1": "1", "em |Z|=2": "2"}
        >>> runs = {"MML": [{"em |Z|=1": 10.0, "em |Z|=2": 20.0}]}
        >>> scores_by_group(runs, groups=groups, labels=("|Z|", "exact match (%)"), file=file)
        >>> file.is_file()
        True
    """
    width = 0.8 / len(scores)
    figure, panel = plt.subplots(
        figsize=(max(5.0, 0.32 * len(scores) * len(groups) + 1.5), 4), layout="constrained"
    )
    styles = _styles(scores)
    for index, (name, runs) in enumerate(scores.items()):
        colour, variant = styles[name]
        values = np.array([[run.get(group, np.nan) for group in groups] for run in runs])
        mean, low, high = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
        panel.bar(
            np.arange(len(groups)) + (index - (len(scores) - 1) / 2) * width,
            mean,
            width,
            yerr=[mean - low, high - mean] if len(runs) > 1 else None,
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


def _styles(names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Returns the colour of each name's objective and the number of its variant, from 0.

    "Hard EM, tau 100" is a variant of hard EM; variants differ in dashes or in shade.
    """
    variants: dict[str, int] = {}
    colours = dict(COLOURS)
    styles = {}
    for name in names:
        title = name.partition(",")[0]
        free = OTHER_COLOURS[(len(colours) - len(COLOURS)) % len(OTHER_COLOURS)]
        styles[name] = colours.setdefault(title, free), variants.get(title, 0)
        variants[title] = variants.get(title, 0) + 1
    return styles


def _finish_panel(panel: Axes) -> None:
    panel.set_ylim(bottom=0)
    panel.grid(color="#dddddd", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, panel: Axes, file: Path) -> None:
    """Saves the figure with one legend, taken from `panel`, above all panels."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)
