"""Weights by name: parity with PyTorch both ways, and checkpoints that do not fit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.pretrained import load_config, load_encoder
from hardem_jax.errors import InputError
from tests.encoders.bert_checkpoints import (
    CONFIG,
    assert_same_parameters,
    replace_tensors,
    tensors_of,
)

RNG = np.random.default_rng(0)
IDS = RNG.integers(1, 40, (3, 9))
WHERE = np.arange(9)[None] < np.array([9, 4, 6])[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("num_layers", [None, 2])
def test_minilm_equals_pytorch_at_every_level(minilm_dir, torch_bert, num_layers):
    ids = np.random.default_rng(0).integers(1000, 30522, (4, 48))
    where = np.arange(48)[None] < np.array([48, 20, 33, 5])[:, None]
    types = (np.arange(48)[None] > 10).astype(int) * where
    torch, transformers = torch_bert
    model = transformers.BertModel.from_pretrained(minilm_dir, add_pooling_layer=False).eval()
    inputs = {"input_ids": ids, "attention_mask": where.astype(int), "token_type_ids": types}
    inputs = {name: torch.from_numpy(x) for name, x in inputs.items()}
    with torch.no_grad():
        expected = model(**inputs, output_hidden_states=True).hidden_states
    bert = load_encoder(minilm_dir, num_layers=num_layers)
    with jax.default_matmul_precision("highest"):
        states = nnx.jit(lambda x: x.hidden_states(ids, where=where, token_type_ids=types))(bert)
    assert len(expected) == 7 and len(states) == (num_layers or 6) + 1
    for state, other in zip(states, expected, strict=False):
        np.testing.assert_allclose(state[where], other.numpy()[where], rtol=0, atol=1e-5)


# --- layouts that are read -----------------------------------------------------------------------


def test_prefixed_and_old_names(folder):
    """As in the first BERT releases: `bert.`, gamma and beta, pooler and pre-training heads."""
    expected = load_encoder(folder)
    old = {f"bert.{name}": x for name, x in tensors_of(folder).items()}
    for new, early in (("weight", "gamma"), ("bias", "beta")):
        old = {n.replace(f"LayerNorm.{new}", f"LayerNorm.{early}"): x for n, x in old.items()}
    old["bert.embeddings.position_ids"] = np.arange(16)[None]
    old["bert.pooler.dense.weight"] = np.ones((8, 8), np.float32)
    old["cls.predictions.bias"] = np.ones(40, np.float32)
    assert any(name.endswith("gamma") for name in old)
    replace_tensors(folder, old)
    assert_same_parameters(load_encoder(folder), expected)


@pytest.mark.slow
def test_options_reach_the_encoder(folder):
    rates = {"hidden_dropout": 0, "attention_dropout": 0.5}
    options = {"dtype": jnp.bfloat16, "remat": "layer", "attention": "xla"}
    bert = load_encoder(folder, num_layers=2, **options, **rates)
    expected = dataclasses.replace(CONFIG, num_hidden_layers=2, **rates)
    assert (bert.config, bert.dtype, bert.remat) == (expected, jnp.bfloat16, "layer")
    assert bert.attention == "xla"
    assert bert(IDS, where=WHERE).dtype == jnp.bfloat16
    assert load_config(folder) == CONFIG
    for wrong in 0, 4:
        with pytest.raises(InputError, match=f"num_layers: expected 1 to 3, found {wrong}"):
            load_encoder(folder, num_layers=wrong)


# --- wrong checkpoints ---------------------------------------------------------------------------


def test_all_faults_in_one_message(folder):
    tensors = tensors_of(folder)
    del tensors["encoder.layer.1.output.dense.bias"]
    del tensors["embeddings.LayerNorm.weight"]
    tensors["encoder.layer.0.attention.self.query.weight"] = np.ones((8, 9), np.float32)
    tensors["encoder.layer.0.intermediate.dense.weight"] = np.ones((8, 12), np.float32)
    tensors["encoder.layer.3.output.dense.bias"] = np.ones(8, np.float32)
    tensors["bert.embeddings.word_embeddings.weight"] = np.ones((40, 8), np.float32)
    tensors["classifier.weight"] = np.ones(3, np.float32)
    replace_tensors(folder, tensors)
    with pytest.raises(InputError) as caught:
        load_encoder(folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message and "in 7 places" in message
    for part in [
        "missing: encoder.layer.1.output.dense.bias",
        "missing: embeddings.LayerNorm.weight",
        "misshapen: encoder.layer.0.attention.self.query.weight expected (8, 8), found (8, 9)",
        "misshapen: encoder.layer.0.intermediate.dense.weight expected (12, 8), found (8, 12)",
        "not used: encoder.layer.3.output.dense.bias (the config has 3 layers)",
        "doubled: bert.embeddings.word_embeddings.weight and embeddings.word_embeddings.weight",
        "not used: classifier.weight",
    ]:
        assert part in message


def test_a_checkpoint_without_tokenizer_gives_none(torch_bert, folder):
    _, transformers = torch_bert
    with pytest.raises(ValueError, match="backend tokenizer"):
        transformers.AutoTokenizer.from_pretrained(folder)
