"""The benchmark of packing, on a prepared split of a few questions."""

import json

import numpy as np
import pytest

from experiments import triviaqa
from experiments.benchmark.data import packing
from tests.commands import call, said
from tests.tiny import write_checkpoint, write_triviaqa


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    root = tmp_path_factory.mktemp("packing")
    call(
        triviaqa,
        *("prepare", "--qa-file", write_triviaqa(root), "--evidence", root / "evidence"),
        *("--tokenizer", write_checkpoint(root / "bert"), "--out", root / "train"),
        *("--windows.max-tokens", 32, "--windows.stride", 8, "--windows.max-question-tokens", 8),
    )
    return root / "train"


def flags(split, *more):
    shapes = ("--batch-size", 4, "--buckets", 16, 32, "--packed-tokens", 64)
    # Without dropout what is checked and what is measured are one program.
    sizes = ("--preset", "tiny", "--layers", 1, "--dropout", 0)
    return [str(x) for x in ("--data", split, *sizes, *shapes, *more)]


@pytest.mark.slow
def test_layouts_are_measured_in_turns_and_padding_is_counted(split, tmp_path, capsys):
    out = tmp_path / "packing.json"
    packing.main(flags(split, "--rounds", 2, "--steps", 1, "--out", out))
    content = json.loads(out.read_text())
    results = content["results"]
    assert set(results) == {"padded to 32", "buckets", "packed to 64"}
    sizes = np.concatenate(
        [np.load(split / f"{name}.sizes.npy") for name in ("positives", "negatives")]
    )
    shortest, longest = sizes[:, 0].min() / 32, sizes[:, 0].max() / 32
    assert shortest <= results["padded to 32"]["real_token_share"] <= longest
    assert results["packed to 64"]["real_token_share"] > 0.7
    for result in results.values():
        assert len(result["seconds"]) == 2
        tokens_of_an_item = result["real_tokens_per_s"] / result["items_per_s"]
        assert 2 * sizes[:, 0].min() <= tokens_of_an_item <= 2 * sizes[:, 0].max()
    assert results["padded to 32"]["speed"]["median"] == 1
    assert content["loss_differences"]["packed to 64"] < packing.TOLERANCE
    assert "speed, padded = 1" in capsys.readouterr().out


@pytest.mark.slow
def test_layouts_that_compute_something_else_are_not_compared(split, monkeypatch):
    monkeypatch.setattr(packing, "TOLERANCE", -1.0)
    with pytest.raises(RuntimeError, match="packed to 64: losses differ"):
        packing.main(flags(split, "--rounds", "1"))


def test_wrong_flags_are_refused(split, capsys):
    for more, culprit in (
        (("--rounds", "0"), "rounds: "),
        (("--buckets", "16"), "training data: expected inputs of at most 16"),
    ):
        with pytest.raises(SystemExit) as stop:
            packing.main(flags(split, *more))
        assert stop.value.code == 2
        assert culprit in said(capsys)
