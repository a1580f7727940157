"""Training of the span experiments: what continues a run, and what is refused."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from jax.tree import leaves as tree_leaves

from experiments import triviaqa
from hardem_jax import HardEM
from hardem_jax.checksums import write_checksums
from hardem_jax.cli.command import parse
from hardem_jax.spans.commands import Train
from hardem_jax.spans.task import SpanTask
from hardem_jax.task.trained import Trained
from tests.commands import call, fails, logged, refused, stopped_at
from tests.experiments.span_qa import make_run, train_flags


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("triviaqa")
    make_run(root)
    return root


def test_a_split_without_questions_is_refused_before_the_first_step(root, capsys, tmp_path):
    for name in ("data", "dev"):
        shutil.copytree(root / "dev", tmp_path / name)
        (tmp_path / name / "checksums.json").unlink()
        (tmp_path / name / "questions.jsonl").write_text("")
        write_checksums(tmp_path / name)
    flags = train_flags(root, tmp_path / "run")
    flags[flags.index("--dev") + 1] = tmp_path / "dev"
    line = fails(triviaqa, capsys, *flags)
    assert f"{tmp_path / 'dev'}: expected questions to evaluate on, found none" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_stopped_and_continued_equals_undisturbed(root):
    """The whole data path resumes, not only the loop."""
    flags = train_flags(root, root / "stopped")
    shown = [flag for flag in flags if flag != "--loop.no-progress"]
    stopped_at("step 2 evaluation", triviaqa, *shown)
    call(triviaqa, *flags)
    one, two = (Trained(SpanTask, root / name, "last", batch_size=4) for name in ("run", "stopped"))
    for a, b in zip(tree_leaves(one.params), tree_leaves(two.params), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_packed_rows_in_two_parts_train_too(root):
    flags = train_flags(root, root / "packed", steps=2)
    more = ("--batches.packed-tokens", 64, "--batches.accumulate", 2, "--num-devices", 2)
    call(triviaqa, *flags[:-3], *more, *flags[-3:])
    [start], steps, [scores] = (logged(root / "packed", k) for k in ("start", "train", "eval"))
    assert start["compiled_ahead"] > start["first_step"]  # by the time it ran it was compiled
    assert [step["items"] for step in steps] == [4, 4] and "em" in scores
    assert all(0 <= step["input_wait"] <= 1 for step in steps)
    # A part has one item for each device, two windows that share a row of 64 places.
    sizes = np.load(root / "train" / "positives.sizes.npy")[:, 0]
    others = np.load(root / "train" / "negatives.sizes.npy")[:, 0]
    bounds = sizes.min() + others.min(), sizes.max() + others.max()
    assert all(bounds[0] <= 64 * step["real_tokens"] <= bounds[1] for step in steps)


@pytest.mark.parametrize(
    ("flag", "value", "named"),
    [
        ("--loop.seed", 5, "loop.seed: 0 originally, 5 now"),
        ("--loop.mode", "min", "loop.mode: max originally, min now"),
        ("--loop.monitor", "em", "loop.monitor: f1 originally, em now"),
        ("--latent.likelihood", "position", "latent.likelihood: span originally, position now"),
        ("--objective.tau", 3, "objective.tau: 2 originally, 3 now"),
        ("--batches.batch-size", 8, "batches.batch_size: 4 originally, 8 now"),
    ],
)
def test_other_settings_do_not_continue_a_run(root, capsys, flag, value, named):
    before = (root / "run" / "config.json").read_bytes()
    flags = train_flags(root, root / "run")
    if flag in flags:
        flags[flags.index(flag) + 1] = value
    else:
        flags[1:1] = [flag, value]
    assert f"({named});" in fails(triviaqa, capsys, *flags)
    assert (root / "run" / "config.json").read_bytes() == before


def test_the_same_data_elsewhere_continue_a_run(root, tmp_path):
    for name in ("train", "dev", "run"):
        shutil.copytree(root / name, tmp_path / name)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    flags = train_flags(root, tmp_path / "run")
    moved = {root / name: tmp_path / name for name in ("train", "dev")}
    call(triviaqa, *(moved.get(flag, flag) if isinstance(flag, Path) else flag for flag in flags))
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["bert", "train"])
def test_a_folder_of_something_else_is_left_as_it_was(root, capsys, tmp_path, name):
    shutil.copytree(root / name, tmp_path / "other")
    before = {file.name: file.read_bytes() for file in (tmp_path / "other").iterdir()}
    line = fails(triviaqa, capsys, *train_flags(root, tmp_path / "other"))
    assert "other: expected a new folder or one of a run, found " in line
    assert {file.name: file.read_bytes() for file in (tmp_path / "other").iterdir()} == before


def test_an_objective_is_a_value_of_the_command_line(capsys):
    base = ["train", "--data", "a", "--dev", "b", "--out", "c"]
    train = parse(triviaqa.COMMANDS, prog="test", argv=[*base, "--objective.tau", "80"])
    assert isinstance(train, Train) and train.objective == HardEM(tau=80)
    assert dataclasses.replace(train).model.encoder == "bert-base-uncased"
    assert "cap=0.8 applies" in refused(capsys, triviaqa.COMMANDS, *base, "--objective.cap", 0.8)
