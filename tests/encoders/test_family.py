"""Every architecture against PyTorch: layers, gradients, packed rows, readers, refusals."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.plans import packing_arrays
from hardem_jax.encoders.base import encode
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.distilbert import DistilBert, DistilBertConfig
from hardem_jax.encoders.electra import Electra, ElectraConfig
from hardem_jax.encoders.modernbert import ModernBert, ModernBertConfig
from hardem_jax.encoders.pretrained import load_config, load_encoder, save_encoder
from hardem_jax.encoders.roberta import Roberta, RobertaConfig
from hardem_jax.errors import InputError
from hardem_jax.spans.checkpoint import load_reader, save_reader
from hardem_jax.spans.model import SpanReader
from tests.encoders.bert_checkpoints import assert_same_parameters, replace_tensors, tensors_of
from tests.encoders.modules import drawn, run
from tests.marks import slow

SIZES = (40, 16, 2, 2, 12)
# Layers 0 and 3 of ModernBERT attend to the whole input, the others to two tokens on either side.
MODERN = {"local_attention": 4, "local_rope_theta": 500.0, "pad_token_id": 0}
# Each with another activation.
KINDS = {
    "Bert": (Bert, BertConfig(*SIZES, 12, hidden_dropout=0.2, attention_dropout=0.3)),
    "Roberta": (Roberta, RobertaConfig(*SIZES, max_position_embeddings=14, hidden_act="gelu_new")),
    "Electra": (
        Electra,
        ElectraConfig(*SIZES, 12, embedding_size=8, hidden_act="gelu_pytorch_tanh"),
    ),
    "DistilBert": (DistilBert, DistilBertConfig(*SIZES, 12, hidden_act="relu")),
    "ModernBert": (ModernBert, ModernBertConfig(40, 16, 4, 2, 12, 32, **MODERN)),
}
TYPED = ("Bert", "Electra")
RNG = np.random.default_rng(0)
WHERE = np.arange(12)[None] < np.array([12, 5, 9])[:, None]
# Padding is known to RoBERTa in PyTorch by its id, 1; real tokens have others.
IDS = np.where(WHERE, RNG.integers(2, 40, (3, 12)), 1)
TYPES = RNG.integers(0, 2, (3, 12))
WEIGHT = RNG.normal(size=(3, 12, 16)).astype(np.float32) * WHERE[..., None]


def encoder_of(name, **changes):
    kind, config = KINDS[name]
    return drawn(lambda: kind(dataclasses.replace(config, **changes), rngs=nnx.Rngs(0)))


def torch_outputs(torch, model, ids=IDS, where=WHERE, types=None):
    types = {} if types is None else {"token_type_ids": torch.from_numpy(types)}
    mask = torch.from_numpy(where.astype(np.int64))
    ids = torch.from_numpy(ids)
    return model(input_ids=ids, attention_mask=mask, output_hidden_states=True, **types)


@functools.partial(jax.jit, static_argnums=0)
def step(graphdef, params, inputs, weight):
    """Loss and hidden states of an encoder, and gradients."""

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params):
        states = nnx.merge(graphdef, params).hidden_states(**inputs)
        return (states[-1] * weight).sum(), states

    return loss(params)


def assert_equals_pytorch(torch, model, encoder, folder, ids, where, weight, types=None):
    """The loss, every layer at real tokens, and the gradient of every weight.

    The tolerance is relative to the largest value of a layer or of a gradient.
    """
    states = torch_outputs(torch, model, ids, where, types).hidden_states
    theirs = (states[-1] * torch.from_numpy(weight)).sum()
    theirs.backward()
    graphdef, params = nnx.split(encoder, nnx.Param)
    inputs = {"token_ids": ids, "where": where, "token_type_ids": types}
    with jax.default_matmul_precision("highest"):
        (loss, found), grads = step(graphdef, params, inputs, weight)
    for state, expected in zip(found, states, strict=True):
        expected = expected.detach().numpy()[where]
        scale = max(1, abs(expected).max())
        np.testing.assert_allclose(state[where], expected, rtol=0, atol=1e-5 * scale)
    assert abs(loss - theirs.item()) <= 1e-5 * abs(weight * states[-1].detach().numpy()).sum()
    # Gradients by the names of PyTorch: those of a checkpoint with the gradients as its weights.
    save_encoder(nnx.merge(graphdef, grads), folder)
    ours = tensors_of(folder)
    for path, parameter in model.named_parameters():
        if not path.startswith("pooler."):
            expected = parameter.grad.numpy()
            atol = 1e-5 * max(1, abs(expected).max())
            np.testing.assert_allclose(ours.pop(path), expected, rtol=0, atol=atol, err_msg=path)
    assert not ours


@pytest.mark.parametrize(
    ("name", "scan"),
    [
        *((name, False) for name in KINDS),
        ("Roberta", True),
        *slow(*((name, True) for name in ("Bert", "Electra", "DistilBert"))),
    ],
)
def test_outputs_and_gradients_equal_pytorch(torch_bert, tmp_path, name, scan):
    torch, transformers = torch_bert
    encoder = encoder_of(name)
    save_encoder(encoder, tmp_path)
    options = {"attn_implementation": "eager"} if name == "ModernBert" else {}
    model = transformers.AutoModel.from_pretrained(tmp_path, **options).eval()
    assert type(model).__name__ == f"{name}Model"
    assert_same_parameters(load_encoder(tmp_path), encoder)
    # As transformers writes it: version 5 has tables in the configuration of ModernBERT.
    model.save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    if name == "ModernBert":
        assert "rope_parameters" in content and "layer_types" in content
    if name == "Bert":
        rates = content["hidden_dropout_prob"], content["attention_probs_dropout_prob"]
        assert rates == (0.2, 0.3)
    loaded = load_encoder(tmp_path, scan_layers=scan)
    assert type(loaded) is KINDS[name][0] and loaded.config == KINDS[name][1]
    if not scan:
        assert_same_parameters(loaded, encoder)
    types = TYPES if name in TYPED else None
    assert_equals_pytorch(torch, model, loaded, tmp_path / "gradients", IDS, WHERE, WEIGHT, types)
    if types is None:
        one, other = (run(encoder, IDS, where=WHERE, token_type_ids=t) for t in (TYPES, 0 * TYPES))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["Roberta", "ModernBert", *slow("Electra", "DistilBert")])
def test_packed_rows_give_the_same_outputs_and_gradients(name):
    batch = {"token_ids": IDS, "token_type_ids": TYPES, "where": WHERE}
    packed = batch | packing_arrays(WHERE, num_devices=1, num_rows=2, row_tokens=17)
    graphdef, params = nnx.split(encoder_of(name), nnx.Param)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params, batch):
        hidden = encode(nnx.merge(graphdef, params), batch)
        return (hidden * WEIGHT).sum(), hidden

    (_, expected), expected_grads = jax.jit(loss)(params, batch)
    (_, hidden), grads = jax.jit(loss)(params, packed)
    np.testing.assert_allclose(hidden[WHERE], expected[WHERE], atol=5e-6)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(expected_grads), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, abs(b).max()))


@pytest.mark.parametrize("name", ["Electra", "DistilBert", "ModernBert"])
def test_a_reader_answers_the_same_in_pytorch(torch_bert, tmp_path, name):
    torch, transformers = torch_bert
    encoder = encoder_of(name)
    reader = SpanReader(encoder, rngs=nnx.Rngs(1), softmax_over="tokens")
    save_reader(reader, tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    assert type(theirs).__name__ == f"{name}ForQuestionAnswering"
    with torch.no_grad():
        expected = torch_outputs(torch, theirs, types=TYPES if name in TYPED else None)
    scores = reader.span_scores(run(encoder, IDS, where=WHERE, token_type_ids=TYPES))
    np.testing.assert_allclose(scores[WHERE][:, 0], expected.start_logits[WHERE], atol=1e-5)
    np.testing.assert_allclose(scores[WHERE][:, 1], expected.end_logits[WHERE], atol=1e-5)
    assert_same_parameters(load_reader(tmp_path), reader)
    if name == "ModernBert":
        with pytest.raises(InputError, match="scale without 0"):
            encoder.final_norm.scale[...] = jnp.zeros(16)
            save_reader(reader, tmp_path)
        return
    with pytest.raises(InputError, match=r"not used: qa_outputs.*--model.ignore qa_outputs"):
        load_encoder(tmp_path)
    assert_same_parameters(load_encoder(tmp_path, ignore=["qa_outputs"]), encoder)


@pytest.mark.parametrize(
    "name",
    [
        *("ElectraForPreTraining", "ElectraForMaskedLM", "DistilBertForMaskedLM"),
        *("RobertaForMaskedLM", "ModernBertForMaskedLM"),
    ],
)
def test_pretraining_heads_are_left_out(torch_bert, tmp_path, name):
    torch, transformers = torch_bert
    kind = name.partition("For")[0]
    save_encoder(encoder_of(kind), tmp_path)
    torch.manual_seed(0)
    getattr(transformers, name).from_pretrained(tmp_path).save_pretrained(tmp_path / "whole")
    prefix = "model." if kind == "ModernBert" else kind.lower()
    assert any(not path.startswith(prefix) for path in tensors_of(tmp_path / "whole"))
    assert_same_parameters(load_encoder(tmp_path / "whole"), encoder_of(kind))


def change_config(folder, remove=(), **changes):
    content = json.loads((folder / "config.json").read_text()) | changes
    content = {key: value for key, value in content.items() if key not in remove}
    (folder / "config.json").write_text(json.dumps(content))


def test_xlm_roberta_is_a_roberta(tmp_path):
    """With positions and a pooler, as published, and nothing else that it lacks or has."""
    roberta = encoder_of("Roberta")
    save_encoder(roberta, tmp_path)
    change_config(tmp_path, model_type="xlm-roberta")
    tensors = {f"roberta.{name}": value for name, value in tensors_of(tmp_path).items()}
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


def test_the_head_of_a_fine_tuned_modernbert(torch_bert, tmp_path):
    torch, transformers = torch_bert
    save_encoder(encoder_of("ModernBert"), tmp_path)
    torch.manual_seed(0)
    transformers.ModernBertForQuestionAnswering.from_pretrained(tmp_path).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"not used: classifier.*ignore=\('classifier',\)"):
        load_encoder(tmp_path)
    assert_same_parameters(load_encoder(tmp_path, ignore=["classifier"]), encoder_of("ModernBert"))
    with pytest.raises(InputError, match="classifier_activation: expected 'linear'.*'gelu'"):
        load_reader(tmp_path, rngs=nnx.Rngs(0))
    change_config(tmp_path, classifier_activation="linear")
    with pytest.raises(InputError, match=r"head\.dense: expected span scores that are linear"):
        load_reader(tmp_path, rngs=nnx.Rngs(0))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("Electra", {"embedding_size": 0}, "embedding_size: expected at least 1, found 0"),
        ("Electra", {"type_vocab_size": 0}, "type_vocab_size: expected at least 1"),
        ("Roberta", {"pad_token_id": 13}, "more than 14, found 14"),
        ("Roberta", {"pad_token_id": "1"}, "pad_token_id: .*found '1'"),
        ("ModernBert", {"hidden_size": 18}, "multiple of twice 2 heads, found 18"),
        ("ModernBert", {"global_every": 0}, "global_every: expected at least 1, found 0"),
        ("ModernBert", {"local_rope_theta": -1}, "local_rope_theta: expected more than 0"),
        ("ModernBert", {"pad_token_id": 40}, "pad_token_id: .* less than 40, found 40"),
        ("ModernBert", {"hidden_act": "swish"}, "hidden_act: expected one of .*found 'swish'"),
        ("ModernBert", {"norm_eps": None}, "norm_eps: expected a number, found None"),
    ],
)
def test_configurations_are_checked(name, changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(KINDS[name][1], **changes)


FLAT = {"rope_theta": 500.0, "rope_type": "default"}
OLDER = {"full_attention": {"rope_theta": 500.0, "type": "linear", "factor": 2.0}}
YARN = {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "Roberta",
            {"remove": ["layer_norm_eps", "type_vocab_size"]},
            "missing keys type_vocab_size, layer_norm_eps",
        ),
        ("ModernBert", {"rope_parameters": FLAT}, "expected full_attention and sliding_attention"),
        ("ModernBert", {"rope_parameters": OLDER}, "rope_type 'default', found 'linear'"),
        ("ModernBert", {"rope_parameters": YARN}, "rope_type 'default', found 'yarn'"),
        ("ModernBert", {"norm_bias": True}, "norm_bias: expected False, found True"),
        ("ModernBert", {"layer_types": ["sliding_attention"] * 4}, "full_attention at 0, n, 2n"),
    ],
)
def test_files_of_configurations_are_checked(tmp_path, name, changes, message):
    save_encoder(encoder_of(name), tmp_path)
    assert load_config(tmp_path) == KINDS[name][1]
    change_config(tmp_path, **changes)
    with pytest.raises(InputError, match=f"config.json: .*{message}"):
        load_config(tmp_path)


def test_what_an_encoder_cannot_do_is_refused():
    with pytest.raises(InputError, match="scan_layers: expected False with ModernBERT"):
        ModernBert(KINDS["ModernBert"][1], rngs=nnx.Rngs(0), scan_layers=True)
    for name, limit in (("Roberta", 12), ("ModernBert", 32)):
        where = np.ones((1, limit + 1), bool)
        with pytest.raises(InputError, match=f"expected at most {limit} tokens, found {limit + 1}"):
            encoder_of(name)(where.astype(int), where=where)
    assert DistilBertConfig(*SIZES).type_vocab_size == 0


@pytest.mark.parametrize("name", ["Roberta", "ModernBert"])
def test_bfloat16_and_kernels(name):
    kind, config = KINDS[name]
    rates = {"attention_dropout": 0.0, "hidden_dropout": 0.0}
    config = dataclasses.replace(config, **rates)

    def outputs(**options):
        return run(drawn(lambda: kind(config, rngs=nnx.Rngs(0), **options)), IDS, where=WHERE)

    expected, half = outputs(), outputs(dtype=jnp.bfloat16)
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half[WHERE].astype(jnp.float32), expected[WHERE], atol=0.1)
    dropped = dataclasses.replace(config, attention_dropout=0.1)
    with pytest.raises(InputError, match="attention_dropout 0 with the kernel 'splash'"):
        kind(dropped, rngs=nnx.Rngs(0), attention="splash")
    with pytest.warns(UserWarning, match="computed by XLA, not by 'splash'"):
        np.testing.assert_allclose(outputs(attention="splash"), expected, atol=1e-6)
