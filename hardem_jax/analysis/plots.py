"""Figures, each a function from plain numbers to a PNG file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # figures are files; no screen is needed
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

#: One colour per objective in every figure (Okabe and Ito's palette, safe for colour blindness).
COLOURS = {
    "First-only": "#E69F00",
    "MML": "#0072B2",
    "Hard EM": "#D55E00",
    "MML as released in 2019": "#666666",
}
LINES = ("-", "--", "-.", ":")

#: A run: records of ``step`` and metrics by name, in order.
History = Sequence[Mapping[str, float]]


def learning_curves(
    histories: Mapping[str, Sequence[History]], *, metrics: Mapping[str, str], file: Path
) -> None:
    """A panel for each metric: its mean over runs by training step, and the range as a band.

    Args:
        histories: objective -> its runs, each a list of records at the same steps; a record
            without a metric is passed over in its panel.
        metrics: metric name -> label of the axis, with the unit; the axis starts at 0.
        file: PNG to write.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "curves.png"
        >>> runs = {"MML": [[{"step": 1, "em": 10.0}, {"step": 2, "em": 20.0}]]}
        >>> learning_curves(runs, metrics={"em": "exact match (%)"}, file=file)
        >>> file.is_file()
        True
    """
    figure, panels = plt.subplots(
        1, len(metrics), figsize=(5 * len(metrics), 4), squeeze=False, layout="constrained"
    )
    for panel, (metric, label) in zip(panels[0], metrics.items(), strict=True):
        for place, (name, runs) in enumerate(histories.items()):
            steps = [record["step"] for record in runs[0] if metric in record]
            values = np.array([[r[metric] for r in run if metric in r] for run in runs])
            # "Hard EM, tau 100" is drawn as hard EM; the dashes tell several of them apart.
            objective = name.partition(",")[0]
            alike = [n for n in list(histories)[:place] if n.partition(",")[0] == objective]
            colour, dashes = COLOURS.get(objective), LINES[len(alike) % len(LINES)]
            mean = values.mean(axis=0)
            panel.plot(steps, mean, dashes, color=colour, label=name, marker="o", ms=3)
            if len(runs) > 1:
                low, high = values.min(axis=0), values.max(axis=0)
                panel.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        panel.set(xlabel="training step", ylabel=label)
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.grid(color="#dddddd", lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)
