"""Training, comparing and evaluating with every folder in a bucket."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from experiments import triviaqa
from hardem_jax.buckets.copies import checkpoint_of, copy, whole
from hardem_jax.buckets.mirror import mirror
from hardem_jax.buckets.names import VARIABLE
from hardem_jax.buckets.store import Folder
from tests.commands import call, fails, output_of
from tests.emulators import SECRET
from tests.robustness.processes import Runner
from tests.robustness.subjects import trained
from tests.tiny import write_checkpoint, write_triviaqa

#: Seconds between two signs of life, short for tests; three of them must pass before a takeover.
BEAT = 0.5
WINDOWS = ["--windows.max-tokens", "32", "--windows.stride", "8"]
WINDOWS += ["--windows.max-question-tokens", "8"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint of an encoder and a split, on the disk."""
    root = tmp_path_factory.mktemp("triviaqa")
    write_checkpoint(root / "bert")
    write_triviaqa(root)
    prepare(root, root / "data")
    return root


def prepare(root, out):
    qa_file, evidence = root / "qa" / "wikipedia-train.json", root / "evidence"
    files = ("--qa-file", qa_file, "--evidence", evidence, "--tokenizer", root / "bert")
    call(triviaqa, "prepare", *files, "--out", out, *WINDOWS)


def flags(root, data, out, steps):
    return [
        *("--data", data, "--dev", data, "--out", out, "--model.encoder", root / "bert"),
        *("--num-devices", 1, "--batches.batch-size", 4, "--batches.buckets", 32),
        *("--loop.no-progress", "--loop.num-steps", steps, "--loop.eval-every", 6),
        *("--loop.checkpoint-every", 3, "--loop.log-every", 3, "--optimizer.learning-rate", "1e-3"),
    ]


def train(root, data, out):
    return ["train", *flags(root, data, out, 12), "objective:hard-em", "--objective.tau", "20"]


def complete(where):
    """The steps of the complete checkpoints in ``last`` of a run in a bucket."""
    owners = map(checkpoint_of, whole(Folder(where).listing()))
    return {int(owner.split("/")[-1]) for owner in owners if owner and owner.startswith("last/")}


@pytest.mark.slow
@pytest.mark.parametrize("emulator", ["s3"], indirect=True)
def test_a_run_that_is_killed_goes_on_elsewhere_bit_for_bit(
    root, bucket, elsewhere, tmp_path, capsys, environment
):
    data, run = f"{bucket}/data", f"{bucket}/run"
    prepare(root, data)
    call(triviaqa, *train(root, root / "data", tmp_path / "run"))

    process = Runner(Path(os.environ["JAX_COMPILATION_CACHE_DIR"])).start(
        ["triviaqa", *map(str, train(root, data, run))],
        environment=dict(environment) | {VARIABLE: str(tmp_path / "killed")},
        beat=BEAT,
    )
    while process.alive and not complete(run):
        time.sleep(0.01)
    process.send(signal.SIGKILL)
    assert process.end().code == -signal.SIGKILL
    assert complete(run) and max(complete(run)) < 12

    elsewhere()
    capsys.readouterr()
    call(triviaqa, *train(root, data, run))
    err = capsys.readouterr().err
    assert "waiting for a sign of life of process" in err and SECRET not in err
    assert trained(copy(run)) == trained(tmp_path / "run")
    content = (copy(run) / "config.json").read_text()
    assert json.loads(content)["flags"]["data"] == [data] and SECRET not in content
    assert str(tmp_path) not in content.replace(str(root), "")

    elsewhere("a third machine")
    answers = tmp_path / "answers.json"
    call(triviaqa, "evaluate", "--run-dir", run, "--data", data, "--predictions", answers)
    copied = {name.name for name in (tmp_path / "a third machine" / "copies").glob("*/run/*")}
    assert "best" in copied and "last" not in copied
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("scores: ")]
    assert line.startswith(f"scores: {run}/scores-data-")
    scores = json.loads(Folder(run).read(line.rpartition("/")[2]))
    assert scores["split"]["path"] == data and len(json.loads(answers.read_text())) == 24


@pytest.mark.slow
@pytest.mark.parametrize("emulator", ["gs"], indirect=True)
def test_one_worker_compares_and_a_second_one_is_refused(root, bucket, elsewhere, capsys):
    out = f"{bucket}/compared"
    compare = ["compare", *flags(root, root / "data", out, 2), "--seeds", 0]
    compare += ["--objectives", "mml", "--shown", 0]
    with mirror(out):
        elsewhere()
        capsys.readouterr()
        with pytest.raises(SystemExit, match="2"):
            call(triviaqa, *compare)
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith(f"error: {out}: in use by process")
    call(triviaqa, *compare)
    found = whole(Folder(out).listing())
    assert {"comparison.json", "learning_curves.png", "mml-0/final.json"} <= set(found)
    elsewhere("a third machine")
    assert "scoring" not in output_of(triviaqa, capsys, *compare)  # nothing is left to train


def test_data_are_prepared_in_a_bucket_as_on_a_disk(root, bucket, capsys):
    data = f"{bucket}/data"
    prepare(root, data)
    files = ("--qa-file", root / "qa" / "wikipedia-train.json", "--evidence", root / "evidence")
    again = ("prepare", *files, "--tokenizer", root / "bert", "--out", data, *WINDOWS)
    expected = f"error: {data}: exists; choose another folder, or add --force to replace it"
    assert fails(triviaqa, capsys, *again) == expected
    call(triviaqa, *again, "--force")
    original, found = root / "data", copy(data)
    names = {file.name for file in original.iterdir()}
    assert {file.name for file in found.iterdir()} == names and "checksums.json" in names
    assert (original / "checksums.json").read_bytes() == (found / "checksums.json").read_bytes()
