"""ELECTRA and DistilBERT against PyTorch: layers, loss, gradients, packed rows, readers."""

import functools

import jax
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.packing import packing_arrays
from hardem_jax.errors import InputError
from hardem_jax.models.checkpoints.span_reader import load_reader, save_reader
from hardem_jax.models.encoders.distilbert import DistilBert, DistilBertConfig
from hardem_jax.models.encoders.electra import Electra, ElectraConfig
from hardem_jax.models.encoders.packing import encode
from hardem_jax.models.encoders.pretrained import load_config, load_encoder, save_encoder
from hardem_jax.models.span_reader import SpanReader
from tests.marks import slow
from tests.models.bert_checkpoints import assert_same_parameters, replace_tensors, tensors_of
from tests.models.modules import drawn, run

SIZES = (40, 16, 2, 2, 12, 12)
KINDS = {
    "Electra": (Electra, ElectraConfig(*SIZES, embedding_size=8)),
    "DistilBert": (DistilBert, DistilBertConfig(*SIZES)),
}
RNG = np.random.default_rng(0)
WHERE = np.arange(12)[None] < np.array([12, 5, 9])[:, None]
IDS = np.where(WHERE, RNG.integers(2, 40, (3, 12)), 0)
TYPES = RNG.integers(0, 2, (3, 12))
WEIGHT = RNG.normal(size=(3, 12, 16)).astype(np.float32) * WHERE[..., None]
every_kind = pytest.mark.parametrize("name", KINDS)


def torch_outputs(torch, model, name):
    types = {"token_type_ids": torch.from_numpy(TYPES)} if name == "Electra" else {}
    mask = torch.from_numpy(WHERE.astype(np.int64))
    ids = torch.from_numpy(IDS)
    return model(input_ids=ids, attention_mask=mask, output_hidden_states=True, **types)


def encoder_of(name):
    kind, config = KINDS[name]
    return drawn(lambda: kind(config, rngs=nnx.Rngs(0)))


@every_kind
@pytest.mark.parametrize("scan", [False, *slow(True)])
def test_outputs_and_gradients_equal_pytorch(torch_bert, tmp_path, name, scan):
    torch, transformers = torch_bert
    save_encoder(encoder_of(name), tmp_path)
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    assert type(model).__name__ == f"{name}Model"
    states = torch_outputs(torch, model, name).hidden_states
    theirs = (states[-1] * torch.from_numpy(WEIGHT)).sum()
    theirs.backward()
    # As transformers writes it.
    model.save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path, scan_layers=scan)
    assert type(encoder) is KINDS[name][0]
    assert encoder.config == KINDS[name][1]
    graphdef, params = nnx.split(encoder, nnx.Param)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(params):
        found = nnx.merge(graphdef, params).hidden_states(IDS, where=WHERE, token_type_ids=TYPES)
        return (found[-1] * WEIGHT).sum(), found

    with jax.default_matmul_precision("highest"):
        (total, found), grads = jax.jit(loss)(params)
    for state, expected in zip(found, states, strict=True):
        expected = expected.detach().numpy()[WHERE]
        np.testing.assert_allclose(state[WHERE], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(total, theirs.item(), rtol=1e-5, atol=1e-4)
    save_encoder(nnx.merge(graphdef, grads), tmp_path / "gradients")
    ours = tensors_of(tmp_path / "gradients")
    for path, parameter in model.named_parameters():
        expected = parameter.grad.numpy()
        tolerance = 1e-5 * max(1, abs(expected).max())
        np.testing.assert_allclose(ours.pop(path), expected, rtol=0, atol=tolerance, err_msg=path)
    assert not ours


@every_kind
def test_packed_rows_give_the_same_outputs(name):
    encoder = encoder_of(name)
    batch = {"token_ids": IDS, "token_type_ids": TYPES, "where": WHERE}
    packed = batch | packing_arrays(WHERE, num_devices=1, num_rows=2, row_tokens=17)
    expected = run(encoder, IDS, where=WHERE, token_type_ids=TYPES)
    found = jax.jit(lambda batch: encode(encoder, batch))(packed)
    np.testing.assert_allclose(found[WHERE], expected[WHERE], atol=2e-6)


@every_kind
def test_a_reader_answers_the_same_in_pytorch(torch_bert, tmp_path, name):
    torch, transformers = torch_bert
    reader = SpanReader(encoder_of(name), rngs=nnx.Rngs(1), softmax_over="tokens")
    save_reader(reader, tmp_path)
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    assert type(theirs).__name__ == f"{name}ForQuestionAnswering"
    with torch.no_grad():
        expected = torch_outputs(torch, theirs, name)
    hidden = run(reader.encoder, IDS, where=WHERE, token_type_ids=TYPES)
    scores = reader.span_scores(hidden)
    np.testing.assert_allclose(scores[WHERE][:, 0], expected.start_logits[WHERE], atol=1e-5)
    np.testing.assert_allclose(scores[WHERE][:, 1], expected.end_logits[WHERE], atol=1e-5)
    assert_same_parameters(load_reader(tmp_path), reader)
    with pytest.raises(InputError, match=r"not used: qa_outputs.*--model.ignore qa_outputs"):
        load_encoder(tmp_path)
    assert_same_parameters(load_encoder(tmp_path, ignore=["qa_outputs"]), reader.encoder)


@pytest.mark.parametrize(
    "name", ["ElectraForPreTraining", "ElectraForMaskedLM", "DistilBertForMaskedLM"]
)
def test_pretraining_heads_are_left_out(torch_bert, tmp_path, name):
    torch, transformers = torch_bert
    kind = name.partition("For")[0]
    save_encoder(encoder_of(kind), tmp_path)
    torch.manual_seed(0)
    getattr(transformers, name).from_pretrained(tmp_path).save_pretrained(tmp_path / "whole")
    assert any(not path.startswith(kind.lower()) for path in tensors_of(tmp_path / "whole"))
    assert_same_parameters(load_encoder(tmp_path / "whole"), encoder_of(kind))


def test_what_does_not_fit_is_refused(tmp_path):
    electra = ElectraConfig(*SIZES, embedding_size=16)
    save_encoder(Electra(electra, rngs=nnx.Rngs(0)), tmp_path)
    assert load_config(tmp_path) == electra
    tensors = tensors_of(tmp_path)
    replace_tensors(tmp_path, tensors | {"embeddings_project.bias": np.zeros(16, np.float32)})
    with pytest.raises(InputError, match="in 1 places: not used: embeddings_project.bias"):
        load_encoder(tmp_path)
    with pytest.raises(InputError, match="embedding_size: expected a positive integer, found 0"):
        ElectraConfig(*SIZES, embedding_size=0)
    with pytest.raises(InputError, match="type_vocab_size: expected a positive integer, found 0"):
        ElectraConfig(*SIZES, type_vocab_size=0)
    assert DistilBertConfig(*SIZES).type_vocab_size == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Electra", "DistilBert", "Roberta"])
def test_the_sizes_of_the_base_models(torch_bert, tmp_path, name):
    """The widths as published; four layers show as much as twelve."""
    torch, transformers = torch_bert
    sizes = {
        "Electra": dict(embedding_size=768, hidden_size=768, num_attention_heads=12)
        | dict(intermediate_size=3072, num_hidden_layers=4),
        "DistilBert": dict(n_layers=4),
        "Roberta": dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
        | dict(layer_norm_eps=1e-5, pad_token_id=1, num_hidden_layers=4),
    }[name]
    torch.manual_seed(0)
    kind = getattr(transformers, f"{name}Model")
    model = kind(kind.config_class(**sizes)).eval()
    model.save_pretrained(tmp_path)
    where = np.arange(64)[None] < np.array([64, 40])[:, None]
    ids = np.where(where, RNG.integers(2, 30000, (2, 64)), 1)
    mask = torch.from_numpy(where.astype(np.int64))
    with torch.no_grad():
        expected = model(torch.from_numpy(ids), attention_mask=mask, output_hidden_states=True)
    with jax.default_matmul_precision("highest"):
        found = load_encoder(tmp_path).hidden_states(ids, where=where)
    for state, other in zip(found, expected.hidden_states, strict=True):
        np.testing.assert_allclose(state[where], other.numpy()[where], rtol=0, atol=1e-5)
