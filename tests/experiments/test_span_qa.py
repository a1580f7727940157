"""The commands of the span experiments, from official files to an answer, on tiny stand-ins."""

import dataclasses
import json

import numpy as np
import pytest
from jax.tree import leaves as tree_leaves

from experiments import squad_layout, triviaqa
from experiments.cli import parse
from experiments.reader import TrainedReader
from experiments.span_qa import Train
from hardem_jax import HardEM
from hardem_jax.errors import InputError
from tests.commands import call, fails
from tests.tiny import write_checkpoint, write_squad_layout, write_triviaqa

WINDOWS = ["--windows.max-tokens", "32", "--windows.stride", "8"]
WINDOWS += ["--windows.max-question-tokens", "8"]
SHAPES = ["--batches.batch-size", "4", "--batches.buckets", "16", "32"]


def train_flags(root, out, *, steps=4, seed=0):
    loop = ["--loop.num-steps", steps, "--loop.eval-every", 2, "--loop.log-every", 1]
    return [
        *("train", "--data", root / "train", "--dev", root / "dev", "--out", out),
        *("--model.encoder", root / "bert", "--num-devices", 2, *SHAPES, *loop),
        *("--loop.seed", seed, "--loop.no-progress", "--optimizer.learning-rate", "1e-3"),
        *("objective:hard-em", "--objective.tau", "2"),
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint, prepared splits and a finished run."""
    root = tmp_path_factory.mktemp("triviaqa")
    bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root)
    for split in ("train", "dev"):
        call(
            triviaqa,
            *("prepare", "--qa-file", qa_file, "--evidence", root / "evidence"),
            *("--tokenizer", bert, "--out", root / split, "--split", split, *WINDOWS),
        )
    call(triviaqa, *train_flags(root, root / "run"))
    return root


def test_prepared_splits_tell_what_they_hold(root):
    meta = json.loads((root / "train" / "meta.json").read_text())
    assert meta["counts"]["questions"] == 24 and meta["counts"]["windows with a mention"] == 24
    assert meta["solutions per question"] == {"mean": 3.0, "median": 3.0, "max": 3}
    assert not (root / "train.partial").exists()


def test_a_finished_run_evaluates_and_predicts(root, capsys, tmp_path):
    predictions = tmp_path / "predictions.json"
    call(
        triviaqa,
        *("evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "dev"),
        *("--predictions", predictions),
    )
    assert "em |Z|=3-4" in capsys.readouterr().out
    assert set(json.loads(predictions.read_text())) == {f"q{i}" for i in range(24)}
    lines = (root / "run" / "metrics.jsonl").read_text().splitlines()
    last = [json.loads(line) for line in lines if json.loads(line)["kind"] == "eval"][-1]
    scores = json.loads((root / "run" / "scores-dev.json").read_text())
    assert last["step"] == 4 and {"em", "f1", "selector"} <= set(scores)
    document = tmp_path / "mine.txt"
    document.write_text("Eve lives in Oslo and Bo lives in Rome.")
    call(
        triviaqa,
        *("predict", "--run-dir", root / "run", "--document", document),
        *("--question", "Who lives in Rome?", "--top", 3),
    )
    answers = capsys.readouterr().out.strip().splitlines()
    assert len(answers) == 6 and "mine.txt" in answers[1]


def test_the_same_command_again_finds_the_run_finished(root, capsys):
    before = (root / "run" / "metrics.jsonl").read_bytes()
    call(triviaqa, *train_flags(root, root / "run"))
    assert (root / "run" / "metrics.jsonl").read_bytes() == before


def test_other_settings_are_refused_and_leave_the_run_as_it_was(root, capsys):
    before = (root / "run" / "config.json").read_bytes()
    assert "seed" in fails(triviaqa, capsys, *train_flags(root, root / "run", seed=5))
    assert (root / "run" / "config.json").read_bytes() == before


def test_stopped_and_continued_equals_undisturbed(root, monkeypatch):
    """The whole data path resumes, not only the loop."""
    calls = []

    def stop_at_third_step(self, step, values):
        calls.append(step)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, step, values)

    from hardem_jax.training import loop

    original = loop.RunLog.step
    monkeypatch.setattr(loop.RunLog, "step", stop_at_third_step)
    with pytest.raises(KeyboardInterrupt):
        call(triviaqa, *train_flags(root, root / "stopped"))
    monkeypatch.setattr(loop.RunLog, "step", original)
    call(triviaqa, *train_flags(root, root / "stopped"))
    one, two = (TrainedReader(root / name, "last", batch_size=4) for name in ("run", "stopped"))
    for a, b in zip(tree_leaves(one.params), tree_leaves(two.params), strict=True):
        np.testing.assert_array_equal(a, b)


def test_packed_rows_in_two_parts_train_too(root):
    flags = train_flags(root, root / "packed", steps=2)
    more = ("--batches.packed-tokens", 64, "--batches.accumulate", 2, "--num-devices", 2)
    call(triviaqa, *flags[:-3], *more, *flags[-3:])
    [start], steps, [scores] = (lines_of(root / "packed", k) for k in ("start", "train", "eval"))
    assert start["compiled_ahead"] > start["first_step"]  # by the time it ran it was compiled
    assert [step["items"] for step in steps] == [4, 4] and "em" in scores
    assert all(0 <= step["input_wait"] <= 1 for step in steps)
    # A part has one item for each device, two windows that share a row of 64 places.
    sizes = np.load(root / "train" / "positives.sizes.npy")[:, 0]
    others = np.load(root / "train" / "negatives.sizes.npy")[:, 0]
    bounds = sizes.min() + others.min(), sizes.max() + others.max()
    assert all(bounds[0] <= 64 * step["real_tokens"] <= bounds[1] for step in steps)


def lines_of(run_dir, kind):
    lines = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def test_other_settings_do_not_continue_a_run(root, capsys):
    assert "seed" in fails(triviaqa, capsys, *train_flags(root, root / "run", seed=5))


def test_squad_layout_runs_through_the_same_task(root, capsys, tmp_path):
    file = write_squad_layout(tmp_path / "train.json")
    for split in ("train", "dev"):
        call(
            squad_layout,
            *("prepare", "--file", file, "--tokenizer", root / "bert"),
            *("--out", tmp_path / split, "--split", split, *WINDOWS),
        )
    flags = train_flags(root, tmp_path / "run", steps=2)
    flags[flags.index("--data") + 1] = tmp_path / "train"
    flags[flags.index("--dev") + 1] = tmp_path / "dev"
    call(squad_layout, *flags)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    scores = json.loads(lines[-1])
    # The annotated mention is the second of three in every window.
    assert scores["true z"] == scores["true z, not first"]


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["train", "--dta", "x"], "--dta"),
        (["train", "--data", "a", "--dev", "b", "--out", "c", "--loop.num-steps", "x"], "'x'"),
        (["train", "--data", "a", "--dev", "b", "--out", "c", "--batches.batch-size", "0"], "size"),
        (["evaluate", "--run-dir", "b", "--data", "nowhere"], "nowhere"),
        (["prepare", "--qa-file", "nowhere.json", "--evidence", ".", "--out", "x"], "nowhere.json"),
        (["fly"], "fly"),
        ([], "prepare"),
    ],
)
def test_what_a_person_got_wrong_is_one_line(capsys, flags, culprit, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert culprit in fails(triviaqa, capsys, *flags)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (b"", "empty document"),
        (b"  \n", "empty document"),
        (b"caf\xe9", "byte 0xe9 at offset 3"),
    ],
)
def test_documents_that_cannot_be_read_are_named(root, capsys, tmp_path, content, culprit):
    document = tmp_path / "mine.txt"
    document.write_bytes(content)
    line = fails(
        triviaqa,
        capsys,
        *("predict", "--run-dir", root / "run", "--document", document, "--question", "Who?"),
    )
    assert "mine.txt" in line and culprit in line


def test_a_checkpoint_of_another_shape_is_named(root, capsys, tmp_path):
    config = json.loads((root / "run" / "config.json").read_text())
    config["bert"]["num_hidden_layers"] = 1
    (tmp_path / "run").mkdir()
    for name in ("tokenizer.json", "best"):
        (tmp_path / "run" / name).symlink_to(root / "run" / name)
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    line = fails(
        triviaqa, capsys, "evaluate", "--run-dir", tmp_path / "run", "--data", root / "dev"
    )
    assert "checkpoint of another model" in line and "layers.1" in line


def test_an_objective_is_a_value_of_the_command_line():
    base = ["train", "--data", "a", "--dev", "b", "--out", "c"]
    train = parse(triviaqa.COMMANDS, prog="test", argv=[*base, "--objective.tau", "80"])
    assert isinstance(train, Train) and train.objective == HardEM(tau=80)
    assert dataclasses.replace(train).model.encoder == "bert-base-uncased"
    with pytest.raises(InputError, match="cap"):
        parse(triviaqa.COMMANDS, prog="test", argv=[*base, "--objective.cap", "0.8"])
