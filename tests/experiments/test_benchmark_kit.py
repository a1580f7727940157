"""The kit runs from another folder, in pieces of given minutes, with nothing but itself."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from flax import nnx

from experiments.benchmark import kit
from hardem_jax.models.encoders.pretrained import load_encoder
from tests.commands import call, fails
from tests.tiny import write_checkpoint, write_triviaqa

COMMAND = SimpleNamespace(COMMANDS=kit.Kit)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("kit") / "bert")


def test_an_encoder_has_half_the_size_and_nearly_the_same_weights(tmp_path, checkpoint):
    kit.half_size(checkpoint, tmp_path / "half")
    whole, half = (folder / kit.WEIGHTS_FILE for folder in (checkpoint, tmp_path / "half"))
    assert half.stat().st_size < 0.7 * whole.stat().st_size
    ours, theirs = (
        jax.tree.leaves(nnx.state(load_encoder(folder), nnx.Param))
        for folder in (checkpoint, tmp_path / "half")
    )
    for one, other in zip(ours, theirs, strict=True):
        assert other.dtype == np.float32
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-6)
    assert any(np.any(one != other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--data", "built=nowhere"), "data: expected name=path of what exists, found 'built=no"),
        (("--limit-mib", 0.01), "limit_mib: expected at most 0.01 MiB, found"),
        (("--train", "wikisql"), "train: expected a module and its command, found 'wikisql'"),
        (("--train", "drop train"), "train: expected compare, whose runs are shared, found 'drop"),
        (("--encoder", "nowhere"), "nowhere: expected a checkpoint with model.safetensors"),
    ],
)
def test_what_cannot_be_packed_is_one_line(tmp_path, capsys, checkpoint, flags, named):
    given = {"--encoder": checkpoint, "--train": "wikisql compare", "--out": tmp_path / "kit"}
    given |= {"--workers": 2}
    given |= {flags[0]: flags[1]}
    assert named in fails(COMMAND, capsys, *(word for pair in given.items() for word in pair))
    assert not (tmp_path / "kit").exists()


#: Stands for python: says what it was called with, and does what the last flag says.
PYTHON = """\
#!/bin/sh
echo "$@" >> {told}
for last; do :; done
case $last in
fail) exit 3 ;;
stop)
    trap 'sleep 0.5; echo saved >> {told}; exit 143' TERM
    while :; do sleep 0.1; done
    ;;
esac
"""


@pytest.mark.parametrize(
    ("first", "status", "told"),
    [
        ("pass", 0, ["0 pass", "1 pass"]),
        ("fail", 3, ["0 fail", "1 pass"]),
        # The minutes are over: it is waited for, and nothing is begun.
        ("stop", 124, ["0 stop", "saved"]),
    ],
)
def test_a_worker_takes_up_one_comparison_after_another(tmp_path, checkpoint, first, status, told):
    commands = (f"drop compare --text 'two words' {first}", "wikisql compare pass")
    call(COMMAND, "--out", tmp_path / "kit", "--encoder", checkpoint, "--train", *commands)
    python = tmp_path / "python3"
    python.write_text(PYTHON.format(told=tmp_path / "told"))
    python.chmod(0o755)
    done = subprocess.run(
        ["timeout", "2", "sh", tmp_path / "kit" / "train.sh", "bert", "results"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
    )
    given = "--model.encoder bert --out results/runs"
    expected = {
        f"0 {first}": f"-m experiments.drop compare {given}/0 --text two words {first}",
        "1 pass": f"-m experiments.wikisql compare {given}/1 pass",
    }
    lines = (tmp_path / "told").read_text().splitlines()
    assert lines == [expected.get(line, line) for line in told]
    assert done.returncode == status


@pytest.mark.slow
def test_every_stage_runs_in_a_checkout_and_goes_on(tmp_path, checkpoint):
    qa_file = write_triviaqa(tmp_path)
    prepare = f"triviaqa prepare --qa-file {qa_file.name} --evidence evidence --out built "
    prepare += "--tokenizer ../encoder --windows.max-tokens 32 --windows.stride 8 "
    prepare += "--windows.max-question-tokens 8"
    train = "triviaqa compare --data built --dev built --model.num-layers 1 --loop.no-progress "
    train += "--batches.batch-size 4 --batches.buckets 32 --num-devices 1 "
    train += "--loop.num-steps 2 --loop.eval-every 2 --seeds 0 1 --objectives mml"
    tiny = "--device cpu --preset tiny --rows 2 --tokens 32"
    call(
        COMMAND,
        *("--out", tmp_path / "kit", "--encoder", checkpoint, "--workers", 2, "--train", train),
        *("--data", f"{qa_file.name}={qa_file}", f"evidence={tmp_path / 'evidence'}"),
        *("--prepare", prepare),
        *(f"--correctness={tiny} --solutions 3 --tasks equations",),
        *(f"--everything={tiny} --rounds 1 --steps 1 --parts 'attention by XLA'",),
    )
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    service = tmp_path / "bin" / "nvidia-cuda-mps-control"  # quit is what it reads
    service.write_text(
        f'#!/bin/sh\n[ $# -gt 0 ] || set -- "$(cat)"\necho "$@" >> {tmp_path}/asked\n'
    )
    service.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    (tmp_path / "kit").rename(tmp_path / "moved")

    def stage(name, *minutes):
        return subprocess.run(
            ["sh", tmp_path / "moved" / "run.sh", name, tmp_path / "results", *minutes],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    for name in ("correctness", "everything", "prepare", "train"):
        done = stage(name)
        assert done.returncode == 0, done.stderr
    results = tmp_path / "results"
    assert {file.name for file in results.iterdir()} >= {"correctness.json", "everything.json"}
    report = json.loads((results / "everything.json").read_text())
    assert report["parts"]["attention by XLA"]["results"]
    assert len(list(results.glob("runs/0/mml-*/best/2"))) == 2
    assert (tmp_path / "asked").read_text().split() == ["-d", "quit"]
    again = stage("prepare")  # refuses to replace what it built
    assert again.returncode == 2 and "built" in again.stderr
    # What is stopped by its minutes has ended well, too.
    assert stage("train", "0.001").returncode == 0
    assert stage("pack").returncode == 0
    with tarfile.open(tmp_path / "results.tgz") as packed:
        names = packed.getnames()
    assert {f"./runs/0/mml-{seed}/by_question.json" for seed in (0, 1)} < set(names)
    assert "./everything.json" in names and not [name for name in names if "/best" in name]
    assert stage("sing").returncode == 2
