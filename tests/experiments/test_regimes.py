"""The grid of regimes: what it runs, what it keeps, and what its maps are made of."""

import dataclasses
import functools
import json

import numpy as np
import pytest

from experiments.regimes import __main__ as command
from experiments.regimes.__main__ import Regimes
from experiments.regimes.grid import (
    Knobs,
    Values,
    cells,
    grid,
    identity,
    pack,
    recover_runs,
    unpack,
)
from hardem_jax.analysis.statistics import difference
from tests import commands

TINY = ("--maps", "size-noise", "--values.size", "2", "--values.noise", "0", "0.5", "--seeds", "0")
TINY += ("--objectives", "mml", "hard-em", "--steps", "3", "--num-train", "64", "--num-dev", "20")
call = functools.partial(commands.call, Regimes)


def made_up(knobs, objective, seed, right):
    outcomes = {"true z": pack(right), "answer": pack(~right)}
    sizes = {"steps": 600, "num_train": 10_000, "num_dev": len(right)}
    run = {"knobs": dataclasses.asdict(knobs), "objective": objective, "seed": seed, **sizes}
    return run | {"outcomes": outcomes, "scores": {}, "seconds": 1.0}


def test_the_grid_has_as_many_runs_as_its_description_says():
    regimes = Regimes()
    found = grid(regimes.maps, regimes.values, regimes.base)
    assert len(found) == len(set(found)) == 76
    assert len(found) * len(regimes.objectives) * len(regimes.seeds) == 912 >= 500
    seen, new = set(), []
    for pair in regimes.maps:
        table = {knobs for row in cells(pair, regimes.values, regimes.base) for knobs in row}
        new.append(len(table - seen))
        seen |= table
    assert new == [16, 12, 12, 12, 12, 12]


def test_a_line_that_a_kill_cut_off_is_neither_lost_nor_repeated(tmp_path, monkeypatch):
    file, made = tmp_path / command.RUNS_FILE, []

    def make(run):
        made.append(identity(run.named()))
        return run.named() | made_up(run.knobs, run.named()["objective"], 0, np.ones(20, bool)) | {
            "steps": run.steps, "num_train": run.num_train, "scores": {"true z": 100.0},
        }  # fmt: skip

    monkeypatch.setattr("experiments.regimes.training.make", make)
    monkeypatch.setattr("experiments.regimes.maps.draw", lambda *runs, out: None)
    call(*TINY, "--out", tmp_path)
    whole = file.read_bytes()
    assert len(made) == len(recover_runs(file)) == 4
    call(*TINY, "--out", tmp_path)
    assert len(made) == 4 and file.read_bytes() == whole
    file.write_bytes(whole[:-7])
    call(*TINY, "--out", tmp_path)
    assert made[4:] == made[3:4] and file.read_bytes() == whole
    # Cut right before its end, a line is whole and yet not known to be.
    file.write_bytes(whole[:-1])
    call(*TINY, "--out", tmp_path)
    assert made[5:] == made[3:4] and file.read_bytes() == whole
    call(*TINY, "--out", tmp_path, "--seeds", 0, 1, "--minutes", 0)
    assert len(made) == 6


def test_maps_are_differences_on_the_seeds_that_both_objectives_have(tmp_path):
    rng, right, runs = np.random.default_rng(0), {}, []
    # No run of hard EM with seed 0, and none at all of the second value.
    for objective, seed in (("MML", 0), ("MML", 1), ("MML", 2), ("Hard EM", 2), ("Hard EM", 1)):
        right[objective, seed] = rng.random(60) < (0.9 if objective == "MML" else 0.4)
        runs.append(made_up(Knobs(size=2), objective, seed, right[objective, seed]))
    from experiments.regimes.maps import draw

    values = Values(size=(2,), noise=(0.0, 0.5))
    draw(runs, ("size-noise", "size-first"), values, Knobs(), out=tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    [[cell, unknown]] = summary["maps"]["size-noise"]["MML minus Hard EM"]
    a, b = (100 * np.stack([right[o, s] for s in (1, 2)]) for o in ("MML", "Hard EM"))
    assert unknown is None and cell == difference(a, b)._asdict() and cell["low"] > 0
    curve = summary["curves"]["noise"]
    assert curve["values"] == [0.0, 0.5] and set(curve["true z"]) == {"MML", "Hard EM"}
    # The base of the curve is another |Z|, of which there are no runs.
    assert curve["true z"]["MML"] == [None, None] and not (tmp_path / "curve-noise.png").exists()
    [found] = summary["curves"]["size"]["answer"]["MML"]
    every = np.stack([right["MML", seed] for seed in range(3)])
    np.testing.assert_allclose(found["mean"], 100 - 100 * every.mean())
    for name in ("map-size-noise", "map-size-first", "curve-size"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["--maps", "size"], "maps: "),
        (["--values.size", "7"], "--values.size: "),
        (["--base.width", "5"], "--base.width: "),
        (["--values.size", "1"], "spurious"),
        (["--objectives", "mml", "mml"], "objectives: "),
    ],
)
def test_what_a_person_got_wrong_is_told(flags, culprit, capsys, tmp_path):
    assert culprit in commands.fails(Regimes, capsys, *flags, "--out", tmp_path)


@pytest.mark.slow
def test_a_tiny_grid_from_end_to_end(tmp_path, capsys):
    from experiments.regimes import training

    training._compiled.cache_clear()
    call(*TINY, "--out", tmp_path, "--values.size", "2", "5", "--values.noise", "0.5")
    runs = recover_runs(tmp_path / command.RUNS_FILE)
    assert [(run["knobs"]["size"], run["objective"]) for run in runs] == [
        (2, "MML"), (2, "Hard EM"), (5, "MML"), (5, "Hard EM"),
    ]  # fmt: skip
    for run in runs:
        for score, bits in run["outcomes"].items():
            np.testing.assert_allclose(run["scores"][score], 100 * unpack(bits, 20).mean())
    # One compilation for both corpora, for each objective.
    settings = training.Settings(steps=3, width=64)
    steps = [training._compiled(settings, run.objective)[1] for run in Regimes(steps=3).runs()[1:3]]
    assert training._compiled.cache_info().currsize == 2
    assert [step._cache_size() for step in steps] == [1, 1]
    # A run depends on nothing that was run before it.
    regimes = Regimes(steps=3, num_train=64, num_dev=20, maps=("size-noise",), objectives=("mml",))
    [run] = dataclasses.replace(regimes, values=Values(size=(2,), noise=(0.5,)), seeds=(0,)).runs()
    assert training.make(run)["outcomes"] == runs[0]["outcomes"]
    assert (tmp_path / "map-size-noise.png").stat().st_size > 10_000
    assert "4 of 4" in capsys.readouterr().out
    # Processes neither change what a run finds nor the order of the file.
    other = ("--values.size", "2", "5", "--values.noise", "0.5", "--processes", "2")
    call(*TINY, "--out", tmp_path / "other", *other)
    again = recover_runs(tmp_path / "other" / command.RUNS_FILE)
    assert [identity(run) for run in again] == [identity(run) for run in runs]
    assert [run["outcomes"] for run in again] == [run["outcomes"] for run in runs]
