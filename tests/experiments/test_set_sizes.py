"""Subsets by |Z|: which questions they have, and which comparisons are made."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import wikisql
from experiments.paper.set_sizes import SetSizes, largest_count, neighbours, time
from hardem_jax.cli.command import parse
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.errors import InputError
from hardem_jax.settings import to_json
from tests import commands
from tests.tiny import write_checkpoint, write_wikisql


@pytest.mark.parametrize("seed", range(5))
def test_a_subset_has_the_nearest_mean_of_all_runs_of_neighbours(seed):
    sizes = np.random.default_rng(seed).zipf(1.5, 60).clip(max=500)
    ordered = sorted(sizes.tolist())
    for target, count in ((1, 10), (3, 7), (40, 20), (500, 1), (9, 60)):
        found = neighbours(sizes, target, count, seed=seed)
        assert len(set(found)) == count and (np.diff(found) > 0).all()
        windows = [ordered[first : first + count] for first in range(61 - count)]
        assert sorted(sizes[found].tolist()) in windows
        nearest = min(abs(sum(window) / count - target) for window in windows)
        assert abs(sizes[found].mean() - target) == pytest.approx(nearest)


def test_the_largest_subset_whose_mean_reaches_the_target():
    sizes = np.random.default_rng(0).zipf(1.6, 200).clip(max=4000)
    ordered = sorted(sizes.tolist(), reverse=True)
    for target in (1, 10, 100, 4001):
        fits = [n for n in range(1, 201) if sum(ordered[:n]) / n >= target]
        assert largest_count(sizes, target) == max(fits, default=0)


@pytest.fixture
def subsets(monkeypatch, tmp_path):
    """The command for questions with Z of these sizes."""

    def command(sizes, *more):
        data = SimpleNamespace(questions=[SimpleNamespace(queries=range(size)) for size in sizes])
        monkeypatch.setattr(SetSizes.TRAIN, "open_data", lambda self: data)
        needed = ["--data", "d", "--dev", "d", "--out", str(tmp_path), "--objectives", "mml"]
        return parse(SetSizes, prog="test", argv=[*needed, *more])

    return command


def test_targets_are_the_same_cells_by_default_and_as_flags(subsets):
    sizes = [*range(1, 21)] * 50 + [200] * 20 + [600] * 20
    written = ["--targets", "3", "10", "30", "100", "300"]
    default, typed = subsets(sizes).cells(), subsets(sizes, *written).cells()
    assert to_json((*default.values(),)) == to_json((*typed.values(),))
    assert [cell.out.name for cell in default.values()] == written[1:]
    assert [cell.loop.patience for cell in default.values()] == [None] * 5


def test_targets_that_are_one_subset_are_refused(subsets):
    with pytest.raises(InputError, match="1 to 9, 9 questions' twice; --subset-questions"):
        subsets(range(1, 10), "--targets", "3", "5").cells()
    more = ("--subset-questions", "4")
    assert len(subsets(range(1, 10), "--targets", "3", "5", *more).cells()) == 2


def test_a_cell_that_ended_is_not_repeated(subsets, tmp_path, monkeypatch):
    made: list[str] = []

    def run(self):
        made.append(self.out.name)
        killed = made == ["2", "7"]
        content = {"flags": to_json(self), "intervals": {"MML": {"accuracy": [5.0, 0.0, 9.0]}}}
        content |= {} if killed else {"differences": {}}
        scores = {"scores": {"accuracy": [100.0] * len(made) + [0.0] * (10 - len(made))}}
        settings = {"settings": {"loop.seed": "0", "loop.num_steps": "250"}}
        final = {"objective": "MML", "scores": []} | settings
        (self.out / "mml-0").mkdir(parents=True, exist_ok=True)
        (self.out / "mml-0" / "final.json").write_text(json.dumps(final))
        (self.out / "mml-0" / "by_question.json").write_text(json.dumps(scores))
        (self.out / "comparison.json").write_text(json.dumps(content))
        if killed:
            raise KeyboardInterrupt

    monkeypatch.setattr(CompareCommand, "run", run)
    flags = ("--targets", "2", "7", "--subset-questions", "3")
    command = subsets(range(1, 10), *flags)
    with pytest.raises(KeyboardInterrupt):
        command.run()
    command.run()
    assert made == ["2", "7", "7"]
    head, _, *lines = (tmp_path / "cells.md").read_text().splitlines()
    assert head == "| runs | steps | metric | questions | seeds | MML |"
    shown = [tuple(line.split(" | ")[i].split()[0].strip("|") for i in (1, 2, 5)) for line in lines]
    assert shown == [("250", "accuracy", "10.0"), ("250", "accuracy", "30.0")]
    command.run()
    # Other flags are other comparisons.
    subsets(range(1, 10), *flags, "--minutes", "0", "--dev-questions", "5").run()
    assert len(made) == 3 and json.loads((tmp_path / "cells.json").read_text())["cells"] == {}


def test_no_time_is_for_no_comparison(subsets, monkeypatch):
    clock = iter([0.0, 59.0, 61.0, 61.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    made = []
    monkeypatch.setattr(CompareCommand, "run", lambda self: made.append(self.out.name))
    subsets(range(1, 10), "--minutes", "1", "--targets", "2", "7", "--subset-questions", "3").run()
    assert made == ["2"]


@pytest.mark.slow
def test_subsets_of_a_build_from_end_to_end(tmp_path, capsys):
    bert, official = write_checkpoint(tmp_path / "bert"), write_wikisql(tmp_path / "official")
    commands.call(wikisql, "prepare", "--folder", official, "--out", tmp_path / "built")
    arguments = [
        *("--data", tmp_path / "built", "--dev", tmp_path / "built", "--dev-split", "train"),
        *("--out", tmp_path / "runs", "--gold", official, "--gold-split", "train"),
        *("--batches.batch-size", 2, "--batches.buckets", 32, "--model.encoder", bert),
        *("--model.num-layers", 1, "--model.num-target-layers", 1, "--model.num-lstm-layers", 1),
        *("--model.hidden-size", 8, "--model.max-tokens", 32, "--model.max-header-tokens", 3),
        *("--loop.num-steps", 1, "--loop.no-progress", "--seeds", 0, "--num-devices", 1),
        *("--shown", 0, "--objectives", "mml", "--targets", 4, "--subset-questions", 5),
    ]
    commands.call(SetSizes, *arguments)
    assert "5 questions" in capsys.readouterr().out
    [cell] = json.loads((tmp_path / "runs" / "cells.json").read_text())["cells"].values()
    assert {"accuracy", "logical form"} <= cell["MML"].keys()
    config = json.loads((tmp_path / "runs" / "4" / "mml-0" / "config.json").read_text())
    settings = config["settings"]
    assert settings["target"] == "4.0" and settings["subset_questions"] == "5"
    assert (tmp_path / "runs" / "set_sizes.png").stat().st_size > 5_000
    line = commands.fails(SetSizes, capsys, *arguments, "--subset-questions", 1000)
    assert "expected 1000 questions" in line
