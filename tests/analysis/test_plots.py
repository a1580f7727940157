"""Figures: a file that holds a picture of every run."""

import matplotlib.axes
import matplotlib.image
import numpy as np
import pytest

from hardem_jax.analysis.plots import (
    COLOURS,
    difference_maps,
    interval_curves,
    learning_curves,
    scores_by_group,
)
from hardem_jax.analysis.statistics import Difference, Interval


@pytest.fixture
def calls_of(monkeypatch):
    """Call it with a method of axes: the arguments of all calls from then on, as a list."""

    def record(name):
        calls, method = [], getattr(matplotlib.axes.Axes, name)

        def recorded(self, *values, **more):
            calls.append((self, values, more))
            return method(self, *values, **more)

        monkeypatch.setattr(matplotlib.axes.Axes, name, recorded)
        return calls

    return record


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


def test_curves_end_where_the_first_seed_has_ended(tmp_path, calls_of):
    """Patience stops runs at different steps, and they may log at different steps."""
    calls = calls_of("plot")
    runs = [
        [{"step": step, "em": float(em)} for step, em in ((1, 1), (2, 2), (3, 3))],
        [{"step": step, "em": float(em)} for step, em in ((2, 4), (3, 5))],
        [{"step": step, "em": float(em)} for step, em in ((1, 6), (2, 9))],
    ]
    learning_curves({"MML": runs}, metrics={"em": "em"}, file=tmp_path / "curves.png")
    [(_, (steps, values), _)] = calls
    assert (list(steps), list(values)) == ([2], [5.0])


def test_losses_below_0_and_all_of_many_objectives_are_visible(tmp_path, calls_of, monkeypatch):
    calls, saved = calls_of("plot"), []
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *_, **__: saved.append(self)
    )
    names = [f"Some objective, weight {n}" for n in range(4)] + [f"Other {n}" for n in range(7)]
    run = [{"step": step, "loss": 1.0 - step} for step in range(3)]
    learning_curves(dict.fromkeys(names, [run]), metrics={"loss": "loss"}, file=tmp_path / "x.png")
    assert len({(more["color"], more["ls"]) for *_, more in calls}) == len(names)
    [figure] = saved
    assert figure.axes[0].get_ylim()[0] < -1
    figure.draw_without_rendering()
    assert figure.bbox.x0 <= figure.legends[0].get_window_extent().x0


def test_curves_of_equal_scores_stay_visible(tmp_path, calls_of):
    calls = calls_of("plot")
    run = [{"step": step, "em": 50.0} for step in (1, 2)]
    histories = {name: [run] for name in ("First-only", "MML", "Hard EM")}
    learning_curves(histories, metrics={"em": "em"}, file=tmp_path / "curves.png")
    rings = [(more["ms"], more["mfc"]) for _, _, more in calls]
    assert rings == [(7, "none"), (5, "none"), (3, "none")]


def test_bars_stand_for_the_mean_of_the_runs(tmp_path, calls_of):
    calls = calls_of("bar")
    groups = {"em |Z|=1": "1", "em |Z|=2": "2"}
    scores = {
        "MML": [{"em |Z|=1": 10.0, "em |Z|=2": 30.0}, {"em |Z|=1": 20.0, "em |Z|=2": 31.0}],
        "Hard EM, tau 5": [{"em |Z|=1": 1.0, "em |Z|=2": 2.0}],
        "Hard EM, tau 9": [{"em |Z|=1": 3.0, "em |Z|=2": 4.0}],
    }
    bounds = {"Hard EM, tau 5": {"em |Z|=1": Interval(1.0, 0.5, 4.0)}}
    more = {"bounds": bounds, "labels": ("|Z|", "em"), "file": tmp_path / "bars.png"}
    scores_by_group(scores, groups=groups, **more)
    drawn = [(list(x), list(height), more) for _, (x, height, _), more in calls]
    assert [height for _, height, _ in drawn] == [[15.0, 30.5], [1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_allclose(drawn[0][2]["yerr"], [[5.0, 0.5], [5.0, 0.5]])
    np.testing.assert_allclose(drawn[1][2]["yerr"], [[0.5, 0.0], [3.0, 0.0]])
    assert drawn[2][2]["yerr"] is None
    colours = [more["color"] for _, _, more in drawn]
    assert colours == [COLOURS["MML"], COLOURS["Hard EM"], COLOURS["Hard EM"]]
    shades = [more["alpha"] for _, _, more in drawn]
    assert shades[0] == shades[1] == 1 > shades[2]
    # Bars of one group are next to each other, centred on its tick.
    np.testing.assert_allclose(np.mean([x for x, _, _ in drawn], axis=0), [0, 1], atol=1e-12)


def test_cells_of_a_map_are_coloured_by_who_is_ahead_and_pale_where_nobody_is(tmp_path, calls_of):
    images, texts_drawn = calls_of("imshow"), calls_of("text")
    ahead, behind = Difference(40.0, 30.0, 50.0, 0.001), Difference(-40.0, -50.0, -30.0, 0.001)
    unsure, some = Difference(40.0, -1.0, 81.0, 0.06), Difference(10.0, 5.0, 15.0, 0.01)
    difference_maps(
        {"a": [[ahead, behind], [unsure, None]], "b": [[some, None], [None, None]]},
        rows=("r", ["1", "2"]),
        columns=("c", ["3", "4"]),
        label="points",
        file=tmp_path / "map.png",
    )
    first, second = (colours[..., :3] for _, (colours,), _ in images)
    texts = [(x, round(y), content) for _, (x, y, content), _ in texts_drawn]

    def colour(name):
        return np.array([int(COLOURS[name][i : i + 2], 16) / 255 for i in (1, 3, 5)])

    np.testing.assert_allclose(first[0, 0], colour("MML"), atol=0.01)
    np.testing.assert_allclose(first[0, 1], colour("Hard EM"), atol=0.01)
    # Of the same hue, nearer to white.
    np.testing.assert_allclose(first[1, 0], 1 - 0.35 * (1 - colour("MML")), atol=0.01)
    np.testing.assert_array_equal(first[1, 1], 1)
    # One scale for both panels: a quarter of the largest difference.
    np.testing.assert_allclose(second[0, 0], 1 - 0.25 * (1 - colour("MML")), atol=0.01)
    assert texts[:4] == [
        (0, 0, "+40.0"),
        (0, 0, "[30.0, 50.0]"),
        (1, 0, "-40.0"),
        (1, 0, "[-50.0, -30.0]"),
    ]
    assert (1, 1, "no runs") in texts


def test_curves_have_the_intervals_of_the_values_that_are_known(tmp_path, calls_of):
    calls = calls_of("errorbar")
    known = [Interval(90.0, 85.0, 93.0), None, Interval(50.0, 40.0, 60.0)]
    file = tmp_path / "curves.png"
    interval_curves(
        {"true z (%)": {"MML": known, "Hard EM": [None] * 3}},
        values=("|Z|", list("234")),
        file=file,
    )
    [(_, (x, y), more), (_, (nowhere, _), _)] = calls
    assert (np.round(x).tolist(), list(y), list(nowhere)) == ([0, 2], [90.0, 50.0], [])
    np.testing.assert_allclose(more["yerr"], [[5.0, 10.0], [3.0, 10.0]])
    assert more["color"] == COLOURS["MML"] and file.stat().st_size > 10_000
