"""Figures: a file that holds a picture of every run."""

import matplotlib.image
import numpy as np

from hardem_jax.analysis.plots import COLOURS, learning_curves


def test_every_objective_is_drawn_in_its_colour(tmp_path):
    runs = [[{"step": step, "em": 10.0 * step + seed} for step in range(5)] for seed in range(2)]
    file = tmp_path / "curves.png"
    learning_curves(
        {"MML": runs, "Hard EM": runs[:1]}, metrics={"em": "exact match (%)"}, file=file
    )
    pixels = (255 * matplotlib.image.imread(file)[..., :3]).round().astype(int).reshape(-1, 3)
    for name, drawn in (("MML", True), ("Hard EM", True), ("First-only", False)):
        colour = [int(COLOURS[name][i : i + 2], 16) for i in (1, 3, 5)]
        assert bool(np.any(np.all(pixels == colour, axis=1))) == drawn
