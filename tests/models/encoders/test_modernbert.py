"""ModernBERT against PyTorch, and what it must share with BERT: packing, bfloat16, kernels."""

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
from hardem_jax.models.checkpoints.span_reader import load_reader, save_reader
from hardem_jax.models.encoders.modernbert import ModernBert, ModernBertConfig
from hardem_jax.models.encoders.packing import encode
from hardem_jax.models.encoders.pretrained import load_config, load_encoder, save_encoder
from hardem_jax.models.span_reader import SpanReader
from tests.marks import slow
from tests.models.bert_checkpoints import assert_same_parameters, replace_tensors, tensors_of
from tests.models.modules import drawn

# Layers 0 and 3 attend to the whole input, the others to two tokens on either side.
CONFIG = ModernBertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=32,
    local_attention=4,
    pad_token_id=0,
)
RNG = np.random.default_rng(0)
WHERE = np.arange(12)[None] < np.array([12, 5, 9])[:, None]
IDS = np.where(WHERE, RNG.integers(2, 40, (3, 12)), 0)
WEIGHT = RNG.normal(size=(3, 12, 16)).astype(np.float32) * WHERE[..., None]


def torch_model(torch_bert, name="ModernBertModel", **sizes):
    """A model of this class with weights far from their small start, and no dropout."""
    torch, transformers = torch_bert
    torch.manual_seed(0)
    special = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    config = transformers.ModernBertConfig(
        **dataclasses.asdict(CONFIG) | dict.fromkeys(special, 0) | sizes,
        attn_implementation="eager",
    )
    model = getattr(transformers, name)(config)
    for path, parameter in model.named_parameters():
        parameter.data.normal_(1.0 if "norm" in path else 0.0, 0.3)
    return model.eval()


def outputs(torch, model, ids=IDS, where=WHERE):
    return model(
        input_ids=torch.from_numpy(ids),
        attention_mask=torch.from_numpy(where.astype(np.int64)),
        output_hidden_states=True,
    )


@functools.partial(jax.jit, static_argnums=0)
def step(graphdef, params, batch, weight):
    """Loss, hidden states and gradients of an encoder."""

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params):
        states = nnx.merge(graphdef, params).hidden_states(batch["token_ids"], where=batch["where"])
        return (states[-1] * weight).sum(), states

    return loss(params)


def assert_equals_pytorch(torch, model, encoder, folder, ids, where, weight, *, gradients):
    """The loss, every layer at real tokens, and the gradient of every weight.

    The tolerance is relative to the largest value of a layer or of a gradient.
    """
    states = outputs(torch, model, ids, where).hidden_states
    theirs = (states[-1] * torch.from_numpy(weight)).sum()
    theirs.backward()
    graphdef, params = nnx.split(encoder, nnx.Param)
    with jax.default_matmul_precision("highest"):
        (loss, found), grads = step(graphdef, params, {"token_ids": ids, "where": where}, weight)
    assert len(found) == len(states)
    for state, expected in zip(found, states, strict=True):
        expected = expected.detach().numpy()[where]
        scale = max(1, abs(expected).max())
        np.testing.assert_allclose(state[where], expected, rtol=0, atol=1e-5 * scale)
    size = abs(weight * states[-1].detach().numpy()).sum()
    assert abs(loss - theirs.item()) <= 1e-5 * size
    # Gradients by the names of PyTorch: those of a checkpoint with the gradients as its weights.
    save_encoder(nnx.merge(graphdef, grads), folder)
    ours = tensors_of(folder)
    for name, parameter in model.named_parameters():
        expected = parameter.grad.numpy()
        scale = max(1, abs(expected).max())
        np.testing.assert_allclose(
            ours.pop(name), expected, rtol=0, atol=gradients * scale, err_msg=name
        )
    assert not ours


def test_outputs_and_gradients_equal_pytorch(torch_bert, tmp_path):
    torch, _ = torch_bert
    model = torch_model(torch_bert)
    model.save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    assert isinstance(encoder, ModernBert)
    assert encoder.config == CONFIG
    folder = tmp_path / "gradients"
    assert_equals_pytorch(torch, model, encoder, folder, IDS, WHERE, WEIGHT, gradients=1e-5)
    # A window that sees everything is no window.
    wide = dataclasses.replace(CONFIG, local_attention=2 * 12)
    states = ModernBert(wide, rngs=nnx.Rngs(0))(IDS, where=WHERE)
    narrow = ModernBert(CONFIG, rngs=nnx.Rngs(0))(IDS, where=WHERE)
    assert abs(states - narrow)[WHERE].max() > 1e-3


@pytest.mark.slow
def test_the_sizes_of_the_base_model(torch_bert, tmp_path):
    """The widths as published, initial weights, and more tokens than its windows see."""
    torch, transformers = torch_bert
    torch.manual_seed(0)
    # A period of global and local layers; all 22 agree as well, see docs/checkpoints.md.
    config = transformers.ModernBertConfig(num_hidden_layers=4, attn_implementation="eager")
    model = transformers.ModernBertModel(config).eval()
    model.save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    assert encoder.config == ModernBertConfig(num_hidden_layers=4, pad_token_id=50283)
    where = np.arange(320)[None] < np.array([320, 200])[:, None]
    ids = np.where(where, RNG.integers(0, 50280, (2, 320)), 50283)
    weight = RNG.normal(size=(2, 320, 768)).astype(np.float32) * where[..., None]
    folder = tmp_path / "gradients"
    assert_equals_pytorch(torch, model, encoder, folder, ids, where, weight, gradients=1e-5)


def test_packed_rows_give_the_same_outputs_and_gradients():
    batch = {"token_ids": IDS, "token_type_ids": np.zeros_like(IDS), "where": WHERE}
    packed = batch | packing_arrays(WHERE, num_devices=1, num_rows=2, row_tokens=17)
    graphdef, params = nnx.split(drawn(lambda: ModernBert(CONFIG, rngs=nnx.Rngs(0))), nnx.Param)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params, batch):
        hidden = encode(nnx.merge(graphdef, params), batch)
        return (hidden * WEIGHT).sum(), hidden

    (_, expected), expected_grads = jax.jit(loss)(params, batch)
    (_, hidden), grads = jax.jit(loss)(params, packed)
    np.testing.assert_allclose(hidden[WHERE], expected[WHERE], atol=5e-6)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(expected_grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, abs(b).max()))


@pytest.mark.parametrize("with_tables", [False, True])
def test_pytorch_opens_what_is_saved(torch_bert, tmp_path, with_tables):
    """Also where transformers has written the configuration anew, as its version 5 does."""
    torch, transformers = torch_bert
    config = dataclasses.replace(CONFIG, global_every=2, local_rope_theta=500.0)
    encoder = drawn(lambda: ModernBert(config, rngs=nnx.Rngs(1)))
    save_encoder(encoder, tmp_path)
    theirs = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert type(theirs).__name__ == "ModernBertModel"
    with torch.no_grad():
        expected = outputs(torch, theirs).last_hidden_state.numpy()
    np.testing.assert_allclose(encoder(IDS, where=WHERE)[WHERE], expected[WHERE], atol=1e-5)
    if with_tables:
        theirs.save_pretrained(tmp_path)
        content = json.loads((tmp_path / "config.json").read_text())
        assert "rope_parameters" in content and "layer_types" in content
    assert load_config(tmp_path) == config
    assert_same_parameters(load_encoder(tmp_path), encoder)


def test_pretrained_and_fine_tuned_heads(torch_bert, tmp_path):
    """As published: names below `model.`, and the head of masked language modelling."""
    torch, _ = torch_bert
    model = torch_model(torch_bert, "ModernBertForMaskedLM")
    model.save_pretrained(tmp_path / "mlm")
    with torch.no_grad():
        expected = outputs(torch, model).hidden_states[-1].numpy()
    found = load_encoder(tmp_path / "mlm")(IDS, where=WHERE)
    np.testing.assert_allclose(found[WHERE], expected[WHERE], atol=1e-5)
    model = torch_model(torch_bert, "ModernBertForQuestionAnswering")
    model.save_pretrained(tmp_path / "qa")
    with pytest.raises(InputError, match=r"not used: classifier.*ignore=\('classifier',\)"):
        load_encoder(tmp_path / "qa")
    load_encoder(tmp_path / "qa", ignore=["classifier"])
    with pytest.raises(InputError, match="classifier_activation: expected 'linear'.*'gelu'"):
        load_reader(tmp_path / "qa", rngs=nnx.Rngs(0))
    content = json.loads((tmp_path / "qa" / "config.json").read_text())
    content |= {"classifier_activation": "linear"}
    (tmp_path / "qa" / "config.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"head\.dense: expected span scores that are linear"):
        load_reader(tmp_path / "qa", rngs=nnx.Rngs(0))


def test_a_reader_answers_the_same_in_pytorch(torch_bert, tmp_path):
    torch, transformers = torch_bert
    encoder = drawn(lambda: ModernBert(CONFIG, rngs=nnx.Rngs(0)))
    reader = SpanReader(encoder, rngs=nnx.Rngs(1), softmax_over="tokens")
    save_reader(reader, tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    assert type(theirs).__name__ == "ModernBertForQuestionAnswering"
    with torch.no_grad():
        expected = outputs(torch, theirs)
    scores = reader.span_scores(encoder(IDS, where=WHERE))
    for ours, logits in zip(
        (scores[..., 0], scores[..., 1]), (expected.start_logits, expected.end_logits), strict=True
    ):
        np.testing.assert_allclose(ours[WHERE], logits.numpy()[WHERE], rtol=0, atol=1e-5)
    hidden = expected.hidden_states[-1].numpy()
    np.testing.assert_allclose(encoder(IDS, where=WHERE)[WHERE], hidden[WHERE], atol=1e-5)
    assert_same_parameters(load_reader(tmp_path), reader)
    with pytest.raises(InputError, match="scale without 0"):
        encoder.final_norm.scale[...] = encoder.final_norm.scale[...].at[0].set(0)
        save_reader(reader, tmp_path)


def test_what_is_not_supported_is_refused(tmp_path):
    with pytest.raises(InputError, match="scan_layers: expected False with ModernBERT"):
        ModernBert(CONFIG, rngs=nnx.Rngs(0), scan_layers=True)
    with pytest.raises(InputError, match="expected at most 32 tokens, found 33"):
        ModernBert(CONFIG, rngs=nnx.Rngs(0))(np.ones((1, 33), int), where=np.ones((1, 33), bool))
    for changes, message in (
        ({"hidden_size": 18}, "multiple of twice 2 heads, found 18"),
        ({"global_every": 0}, "global_every: expected a positive integer, found 0"),
        ({"local_rope_theta": -1}, "local_rope_theta: expected a positive number, found -1"),
        ({"pad_token_id": 40}, "pad_token_id: expected one of 40 entries or none, found 40"),
        ({"hidden_act": "swish"}, "hidden_act: expected one of .*found 'swish'"),
        ({"norm_eps": None}, r"norm_eps: expected a number in \[0, 1\), found None"),
    ):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(CONFIG, **changes)
    save_encoder(ModernBert(CONFIG, rngs=nnx.Rngs(0)), tmp_path)
    original = json.loads((tmp_path / "config.json").read_text())
    tables = {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}
    flat = {"rope_theta": 500.0, "rope_type": "default"}
    older = {"full_attention": {"rope_theta": 500.0, "type": "linear", "factor": 2.0}}
    for changes, message in (
        ({"rope_parameters": flat}, "expected full_attention and sliding_attention, found"),
        ({"rope_parameters": older}, "rope_type 'default', found 'linear'"),
        ({"norm_bias": True}, "norm_bias: expected False, found True"),
        ({"rope_parameters": tables}, "rope_type 'default', found 'yarn'"),
        ({"layer_types": ["sliding_attention"] * 4}, "expected full_attention at 0, n, 2n"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(original | changes))
        with pytest.raises(InputError, match=f"config.json: .*{message}"):
            load_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(original))
    tensors = tensors_of(tmp_path)
    tensors["layers.0.attn_norm.weight"] = np.ones(16, np.float32)
    replace_tensors(tmp_path, tensors)
    with pytest.raises(InputError, match=r"in 1 places: not used: layers\.0\.attn_norm\.weight"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("remat", ["attention", *slow("dots", "layer")])
def test_recomputing_changes_no_gradient(remat):
    rates = {"attention_dropout": 0.1, "hidden_dropout": 0.2, "embedding_dropout": 0.1}
    config = dataclasses.replace(CONFIG, num_hidden_layers=2, **rates)

    def gradients(remat):
        encoder = drawn(lambda: ModernBert(config, rngs=nnx.Rngs(0), remat=remat))
        graphdef, params = nnx.split(encoder, nnx.Param)

        def loss(params, key):
            hidden = nnx.merge(graphdef, params)(IDS, where=WHERE, rngs=nnx.Rngs(dropout=key))
            return (hidden * WEIGHT).sum()

        return jax.jit(jax.grad(loss))(params, jax.random.key(0))

    found, expected = gradients(remat), gradients("none")
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * max(1, abs(b).max()))


def test_bfloat16_and_kernels():
    exact = ModernBert(CONFIG, rngs=nnx.Rngs(0))
    out = ModernBert(CONFIG, rngs=nnx.Rngs(0), dtype=jnp.bfloat16)(IDS, where=WHERE)
    assert out.dtype == jnp.bfloat16
    expected = exact(IDS, where=WHERE)
    np.testing.assert_allclose(out[WHERE].astype(jnp.float32), expected[WHERE], atol=0.1)
    with pytest.raises(InputError, match="attention_dropout 0 with the kernel 'splash'"):
        ModernBert(
            dataclasses.replace(CONFIG, attention_dropout=0.1), rngs=nnx.Rngs(0), attention="splash"
        )
    chosen = ModernBert(CONFIG, rngs=nnx.Rngs(0), attention="splash")
    with pytest.warns(UserWarning, match="computed by XLA, not by 'splash'"):
        np.testing.assert_allclose(chosen(IDS, where=WHERE), expected, atol=1e-6)
