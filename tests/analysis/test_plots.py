"""Figures: a file that holds a picture of every run."""

import matplotlib.axes
import matplotlib.image
import numpy as np

from hardem_jax.analysis.plots import COLOURS, learning_curves, scores_by_group


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


def test_bars_stand_for_the_mean_of_the_runs(tmp_path, monkeypatch):
    drawn, bar = [], matplotlib.axes.Axes.bar

    def observed(self, x, height, width, **more):
        drawn.append((list(x), list(height), more))
        return bar(self, x, height, width, **more)

    monkeypatch.setattr(matplotlib.axes.Axes, "bar", observed)
    groups = {"em |Z|=1": "1", "em |Z|=2": "2"}
    scores = {
        "MML": [{"em |Z|=1": 10.0, "em |Z|=2": 30.0}, {"em |Z|=1": 20.0, "em |Z|=2": 31.0}],
        "Hard EM, tau 5": [{"em |Z|=1": 1.0, "em |Z|=2": 2.0}],
        "Hard EM, tau 9": [{"em |Z|=1": 3.0, "em |Z|=2": 4.0}],
    }
    scores_by_group(scores, groups=groups, labels=("|Z|", "em"), file=tmp_path / "bars.png")
    heights = [height for _, height, _ in drawn]
    assert heights == [[15.0, 30.5], [1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_allclose(drawn[0][2]["yerr"], [[5.0, 0.5], [5.0, 0.5]])
    assert drawn[1][2]["yerr"] is None
    colours = [more["color"] for _, _, more in drawn]
    assert colours == [COLOURS["MML"], COLOURS["Hard EM"], COLOURS["Hard EM"]]
    shades = [more["alpha"] for _, _, more in drawn]
    assert shades[0] == shades[1] == 1 > shades[2]
    # Bars of one group are next to each other, centred on its tick.
    np.testing.assert_allclose(np.mean([x for x, _, _ in drawn], axis=0), [0, 1], atol=1e-12)


def test_a_metric_that_no_run_has_gets_no_panel(tmp_path):
    runs = {"MML": [[{"step": 1, "em": 1.0}, {"step": 2, "em": 2.0}]]}
    one, two = tmp_path / "one.png", tmp_path / "two.png"
    learning_curves(runs, metrics={"em": "em"}, file=one)
    learning_curves(runs, metrics={"em": "em", "hit@1": "hit"}, file=two)
    assert matplotlib.image.imread(one).shape == matplotlib.image.imread(two).shape
