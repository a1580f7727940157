"""The quickstart from end to end, in a size for a test."""

import jax
import numpy as np
import pytest
from flax import nnx

from experiments.quickstart.__main__ import Quickstart
from experiments.quickstart.problem import start_by_matching
from hardem_jax.encoders.bert import Bert, BertConfig
from tests.commands import call, fails
from tests.marks import slow


@pytest.mark.slow
def test_prints_a_row_for_each_objective_and_saves_the_figure(tmp_path, capsys):
    # One problem of the two, which the checks of the project run in full size anyway.
    call(
        Quickstart,
        *("--problems", "spans", "--spans.num-train", 32, "--spans.num-dev", 20),
        *("--spans-training.steps", 4, "--spans-training.batch-size", 8),
        *("--spans-training.width", 16, "--out", tmp_path / "out"),
    )
    out = capsys.readouterr().out
    for name in ("First-only", "MML", "Hard EM"):
        assert out.count(f"│ {name}") == 1
    assert (tmp_path / "out" / "spans.png").stat().st_size > 10_000
    assert not (tmp_path / "out" / "equations.png").exists()


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["--seeds", "0", "0"], "seeds: expected different values, found 0 0"),
        (["--spans.num-people", "1"], "error: --spans.num-people: expected at least 2"),
        (["--equations-training.width", "5"], "training.width: expected an even number, found 5"),
        (["--out", __file__], "test_quickstart.py: expected a folder to write to, found a file"),
    ],
)
def test_what_a_person_got_wrong_is_told(flags, culprit, capsys):
    assert culprit in fails(Quickstart, capsys, *flags)


@pytest.mark.parametrize("look", [1, *slow(-1)])
def test_heads_start_by_looking_for_the_same_word_and_at_a_neighbour(look):
    encoder = Bert(BertConfig(40, 64, 2, 2, 128, 32), rngs=nnx.Rngs(0))
    start_by_matching(encoder, seed=0, look=look)
    words = np.array([[7, 3, 9, 3, 12, 9, 20, 21]])  # 3 and 9 occur twice
    # The layers above the embeddings are not computed, since nothing reads them.
    embed = nnx.jit(lambda encoder: encoder.hidden_states(words, where=words > 0)[0])
    embedded = embed(encoder).reshape(8, 64)
    for layer in encoder.layers:
        queries, keys = (part(embedded).reshape(8, 2, 32) for part in (layer.query, layer.key))
        scores = jax.device_get(jax.numpy.einsum("qhd,khd->hqk", queries, keys))
        same = words.T == words
        for row in range(8):
            assert scores[0, row, same[row]].min() > scores[0, row, ~same[row]].max()
        np.testing.assert_array_equal(scores[1, 1:-1].argmax(axis=1), np.arange(1, 7) + look)
