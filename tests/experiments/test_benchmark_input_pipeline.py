"""The benchmark of the input pipeline, on a prepared split of a few questions."""

import json

import pytest

from experiments import squad_layout
from experiments.benchmark.data import input_pipeline
from tests.commands import call
from tests.tiny import write_checkpoint, write_squad_layout


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    root = tmp_path_factory.mktemp("input")
    file = write_squad_layout(root / "train.json")
    call(
        squad_layout,
        *("prepare", "--file", file, "--tokenizer", write_checkpoint(root / "bert")),
        *("--out", root / "train", "--windows.max-tokens", 32, "--windows.stride", 8),
        *("--windows.max-question-tokens", 8),
    )
    return root / "train"


def test_batches_are_made_and_counted(split, tmp_path, monkeypatch, capsys):
    made = []
    original = input_pipeline.training_batches

    def counting(windows, plan, *, pad):
        for batch in original(windows, plan, pad=pad):
            made.append("packing" in batch.arrays)
            yield batch

    monkeypatch.setattr(input_pipeline, "training_batches", counting)
    out = tmp_path / "input.json"
    flags = ("--data", split, "--batches.batch-size", 4, "--steps", 6, "--rounds", 2, "--out", out)
    input_pipeline.main([str(flag) for flag in flags])
    padded, packed = [False] * 6, [True] * 6
    assert made == padded + packed + packed + padded + padded + packed  # each round, another first
    for result in json.loads(out.read_text())["results"].values():
        assert result["items_per_s"] == 4 * result["batches_per_s"]["median"] > 0
        assert result["cpu_ms_per_batch"] > 0
    assert "CPU ms a batch" in capsys.readouterr().out


def test_wrong_flags_are_refused(split, capsys):
    with pytest.raises(SystemExit) as stop:
        input_pipeline.main(["--data", str(split), "--steps", "0"])
    assert stop.value.code == 2
    assert "steps: expected at least 1, found 0" in capsys.readouterr().err
