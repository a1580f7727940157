"""RoBERTa against PyTorch, and what it must share with BERT: packing, scan, bfloat16, kernels."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.packing import packing_arrays
from hardem_jax.errors import InputError
from hardem_jax.models.encoders.packing import encode
from hardem_jax.models.encoders.pretrained import load_config, load_encoder, save_encoder
from hardem_jax.models.encoders.roberta import Roberta, RobertaConfig
from tests.models.bert_checkpoints import assert_same_parameters, replace_tensors, tensors_of

CONFIG = RobertaConfig(40, 8, 2, 2, 12, max_position_embeddings=14)
RNG = np.random.default_rng(0)
WHERE = np.arange(12)[None] < np.array([12, 5, 9])[:, None]
# Padding is known to PyTorch by its id; real tokens have others.
IDS = np.where(WHERE, RNG.integers(2, 40, (3, 12)), CONFIG.pad_token_id)
WEIGHT = RNG.normal(size=(3, 12, 8)).astype(np.float32) * WHERE[..., None]


@pytest.fixture
def model(torch_bert):
    """A `RobertaModel` with weights far from their small start, and no dropout."""
    torch, transformers = torch_bert
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=40,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=14,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    model = transformers.RobertaModel(config)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.5)
    return model.eval()


def hidden_states(torch, model):
    return model(
        input_ids=torch.from_numpy(IDS),
        attention_mask=torch.from_numpy(WHERE.astype(np.int64)),
        output_hidden_states=True,
    ).hidden_states


@pytest.mark.parametrize("scan", [False, True])
def test_outputs_and_gradients_equal_pytorch(torch_bert, model, tmp_path, scan):
    torch, _ = torch_bert
    model.save_pretrained(tmp_path)
    expected = hidden_states(torch, model)
    (expected[-1] * torch.from_numpy(WEIGHT)).sum().backward()
    roberta = load_encoder(tmp_path, scan_layers=scan)
    assert isinstance(roberta, Roberta)
    assert roberta.config == CONFIG
    graphdef, params = nnx.split(roberta, nnx.Param)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params):
        states = nnx.merge(graphdef, params).hidden_states(IDS, where=WHERE)
        return (states[-1] * WEIGHT).sum(), states

    with jax.default_matmul_precision("highest"):
        (_, states), grads = jax.jit(loss)(params)
    for state, other in zip(states, expected, strict=True):
        np.testing.assert_allclose(state[WHERE], other.detach().numpy()[WHERE], rtol=0, atol=1e-5)
    # Gradients by the names of PyTorch: those of a checkpoint with the gradients as its weights.
    save_encoder(nnx.merge(graphdef, grads), tmp_path / "gradients")
    found = tensors_of(tmp_path / "gradients")
    for name, parameter in model.named_parameters():
        if not name.startswith("pooler."):
            theirs = parameter.grad.numpy()
            np.testing.assert_allclose(found.pop(name), theirs, rtol=1e-5, atol=2e-5, err_msg=name)
    assert not found


def test_pytorch_opens_what_is_saved(torch_bert, tmp_path):
    torch, transformers = torch_bert
    roberta = Roberta(CONFIG, rngs=nnx.Rngs(1))
    save_encoder(roberta, tmp_path)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
    assert type(theirs).__name__ == "RobertaModel"
    assert theirs.config.pad_token_id == 1 and theirs.config.type_vocab_size == 1
    with torch.no_grad():
        expected = hidden_states(torch, theirs)[-1].numpy()
    np.testing.assert_allclose(roberta(IDS, where=WHERE)[WHERE], expected[WHERE], atol=1e-5)
    assert_same_parameters(load_encoder(tmp_path), roberta)


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta"])
def test_prefix_and_heads(tmp_path, model_type):
    """As published: names below `roberta.`, and the head of masked language modelling."""
    roberta = Roberta(CONFIG, rngs=nnx.Rngs(1))
    save_encoder(roberta, tmp_path)
    content = json.loads((tmp_path / "config.json").read_text()) | {"model_type": model_type}
    (tmp_path / "config.json").write_text(json.dumps(content))
    tensors = {f"roberta.{name}": value for name, value in tensors_of(tmp_path).items()}
    tensors["lm_head.decoder.weight"] = np.ones((40, 8), np.float32)
    tensors["roberta.pooler.dense.bias"] = np.ones(8, np.float32)
    tensors["roberta.embeddings.position_ids"] = np.arange(14)[None]
    replace_tensors(tmp_path, tensors)
    assert_same_parameters(load_encoder(tmp_path), roberta)
    tensors["cls.predictions.bias"] = tensors.pop("roberta.encoder.layer.1.output.dense.bias")
    replace_tensors(tmp_path, tensors)
    with pytest.raises(InputError) as refused:
        load_encoder(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}: weights do not fit the config in 2 places: not used: cls.predictions.bias; "
        "missing: encoder.layer.1.output.dense.bias"
    )


def test_positions_are_those_behind_the_padding(tmp_path):
    roberta = Roberta(CONFIG, rngs=nnx.Rngs(0))
    assert CONFIG.max_tokens == 12
    assert RobertaConfig(50265, 768, 12, 12, 3072).max_tokens == 512
    given = np.tile(np.arange(12), (3, 1))
    np.testing.assert_allclose(
        roberta(IDS, where=WHERE, positions=given), roberta(IDS, where=WHERE), atol=1e-6
    )
    with pytest.raises(InputError, match="expected at most 12 tokens, found 13"):
        roberta(np.ones((1, 13), int), where=np.ones((1, 13), bool))
    for wrong, message in ((13, "more than 14, found 14"), ("1", "pad_token_id: .*found '1'")):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(CONFIG, pad_token_id=wrong)
    save_encoder(roberta, tmp_path)
    assert load_config(tmp_path) == CONFIG
    content = json.loads((tmp_path / "config.json").read_text())
    del content["layer_norm_eps"], content["type_vocab_size"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="missing keys type_vocab_size, layer_norm_eps"):
        load_config(tmp_path)


def test_token_types_are_ignored():
    roberta = Roberta(CONFIG, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(
        roberta(IDS, where=WHERE, token_type_ids=np.ones_like(IDS)), roberta(IDS, where=WHERE)
    )


def test_packed_rows_give_the_same_outputs_and_gradients():
    batch = {"token_ids": IDS, "token_type_ids": np.zeros_like(IDS), "where": WHERE}
    packed = batch | packing_arrays(WHERE, num_devices=1, num_rows=2, row_tokens=14)
    graphdef, params = nnx.split(Roberta(CONFIG, rngs=nnx.Rngs(0)), nnx.Param)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params, batch):
        hidden = encode(nnx.merge(graphdef, params), batch)
        return (hidden * WEIGHT).sum(), hidden

    (_, expected), expected_grads = jax.jit(loss)(params, batch)
    (_, hidden), grads = jax.jit(loss)(params, packed)
    np.testing.assert_allclose(hidden[WHERE], expected[WHERE], atol=2e-6)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(expected_grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5)


def test_bfloat16_and_kernels():
    exact = Roberta(CONFIG, rngs=nnx.Rngs(0))
    half = Roberta(CONFIG, rngs=nnx.Rngs(0), dtype=jnp.bfloat16, scan_layers=True)
    out = half(IDS, where=WHERE)
    assert out.dtype == jnp.bfloat16
    expected = exact(IDS, where=WHERE)
    np.testing.assert_allclose(out[WHERE].astype(jnp.float32), expected[WHERE], atol=0.1)
    with pytest.raises(InputError, match="attention_dropout 0 with the kernel 'splash'"):
        Roberta(CONFIG, rngs=nnx.Rngs(0), attention="splash")
    kernel = dataclasses.replace(CONFIG, attention_dropout=0.0)
    chosen = Roberta(kernel, rngs=nnx.Rngs(0), attention="splash")
    with pytest.warns(UserWarning, match="computed by XLA, not by 'splash'"):
        np.testing.assert_allclose(chosen(IDS, where=WHERE), expected, atol=1e-6)
