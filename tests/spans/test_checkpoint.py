"""Span readers from and for transformers, DPR and the paper's code: the same logits."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.pretrained import load_encoder
from hardem_jax.encoders.roberta import Roberta, RobertaConfig
from hardem_jax.errors import InputError
from hardem_jax.spans.checkpoint import load_reader, load_released_reader, save_reader
from hardem_jax.spans.model import SpanReader
from tests.encoders.bert_checkpoints import CONFIG, replace_tensors, tensors_of
from tests.encoders.modules import run
from tests.encoders.test_fine_tuned import IDS, SIZES, TYPES, WHERE, save_fine_tuned, torch_outputs

BATCH = {
    "token_ids": jnp.array(IDS),
    "token_type_ids": jnp.array(TYPES),
    "where": jnp.array(WHERE),
    "context": jnp.array(WHERE & (np.arange(9) > 1)),
}


def randomised(module, seed=0):
    """The module with weights far from their small start."""
    graphdef, params = nnx.split(module, nnx.Param)
    keys = iter(jax.random.split(jax.random.key(seed), len(jax.tree.leaves(params))))
    params = jax.tree.map(lambda x: 0.5 * jax.random.normal(next(keys), x.shape), params)
    return nnx.merge(graphdef, params)


def span_logits(reading):
    """Logits of the reader, at the positions that its softmax ranges over."""
    start, end = reading.spans.log_partitions[:, :1], reading.spans.log_partitions[:, 1:]
    return np.asarray(reading.spans.start + start), np.asarray(reading.spans.end + end)


def assert_same_spans(reader, expected, batch=BATCH):
    """Logits within 1e-4, and as `SpanReader` reports them."""
    with jax.default_matmul_precision("highest"):
        reading = run(reader, batch)
    where = np.asarray(batch["where"])
    theirs = expected.start_logits.numpy(), expected.end_logits.numpy()
    for found, other in zip(span_logits(reading), theirs, strict=True):
        np.testing.assert_allclose(found[where], other[where], rtol=0, atol=1e-4)
    return reading


# --- into the project ----------------------------------------------------------------------------


def test_question_answering_of_transformers(torch_bert, tmp_path):
    torch, _ = torch_bert
    model = save_fine_tuned(torch_bert, "BertForQuestionAnswering", tmp_path)
    with pytest.raises(InputError, match="expected qa_classifier.*found none; load_reader"):
        load_reader(tmp_path)
    reader = load_reader(tmp_path, rngs=nnx.Rngs(0))
    assert (reader.softmax_over, reader.selector_input) == ("tokens", "max")
    types = torch.from_numpy(TYPES)
    reading = assert_same_spans(reader, torch_outputs(torch, model, token_type_ids=types))
    assert np.all(np.isfinite(reading.selector_logits))
    assert load_reader(tmp_path, rngs=nnx.Rngs(0), softmax_over="context").softmax_over == "context"


def test_reader_of_dpr(torch_bert, tmp_path):
    torch, _ = torch_bert
    model = save_fine_tuned(torch_bert, "DPRReader", tmp_path)
    reader = load_reader(tmp_path)
    assert (reader.softmax_over, reader.selector_input) == ("tokens", "first")
    expected = torch_outputs(torch, model)
    reading = assert_same_spans(reader, expected)
    relevance = reading.selector_logits[:, 1] - reading.selector_logits[:, 0]
    np.testing.assert_allclose(relevance, expected.relevance_logits.numpy(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_state_dict_of_the_released_code(torch_bert, tmp_path, prefix):
    """Names and modules of its `BertForQuestionAnswering`: early BERT, spans, a switch of 4."""
    torch, transformers = torch_bert
    torch.manual_seed(0)
    bert = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
    heads = torch.nn.Linear(8, 2), torch.nn.Linear(8, 4)
    for module in (bert, *heads):
        for parameter in module.parameters():
            parameter.data.normal_(0, 0.5)
    state = {f"bert.{name}": x for name, x in bert.state_dict().items()}
    for name, head in zip(("qa_outputs", "qa_classifier"), heads, strict=True):
        state |= {f"{name}.{part}": x for part, x in head.state_dict().items()}
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        state = {name.replace(new, old): x for name, x in state.items()}
    state = {prefix + name: x for name, x in state.items()}
    assert f"{prefix}bert.pooler.dense.weight" in state
    torch.save(state, tmp_path / "best-model.pt")
    reader = load_released_reader(tmp_path / "best-model.pt", BertConfig(40, 8, 2, 2, 12, 16))
    assert (reader.softmax_over, reader.selector_input) == ("tokens", "max")
    everywhere = np.ones_like(WHERE)  # padding takes part in the original's maximum
    types = torch.from_numpy(TYPES)
    hidden = torch_outputs(torch, bert, where=everywhere, token_type_ids=types).last_hidden_state
    with torch.no_grad():
        spans, switch = heads[0](hidden), heads[1](hidden.max(dim=1)[0]).numpy()
    reading = run(reader, {**BATCH, "where": jnp.array(everywhere)})
    for found, column in zip(span_logits(reading), (0, 1), strict=True):
        np.testing.assert_allclose(found, spans[..., column].numpy(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(reading.selector_logits, switch[:, [3, 0]], rtol=0, atol=1e-4)


# --- and out of it -------------------------------------------------------------------------------


@pytest.mark.parametrize("scan", [False, True])
def test_transformers_opens_what_is_saved(torch_bert, tmp_path, scan):
    torch, transformers = torch_bert
    encoder = Bert(CONFIG, rngs=nnx.Rngs(0), scan_layers=scan)
    reader = randomised(SpanReader(encoder, rngs=nnx.Rngs(1), softmax_over="tokens"))
    save_reader(reader, tmp_path)
    model, report = transformers.AutoModelForQuestionAnswering.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert type(model) is transformers.BertForQuestionAnswering
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    expected = torch_outputs(torch, model.eval(), token_type_ids=torch.from_numpy(TYPES))
    reading = assert_same_spans(reader, expected)
    again = run(load_reader(tmp_path, scan_layers=scan), BATCH)
    for x, y in zip(jax.tree.leaves(reading), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5)


def test_roberta_and_options_survive(torch_bert, tmp_path):
    torch, transformers = torch_bert
    encoder = Roberta(RobertaConfig(40, 8, 2, 2, 12, max_position_embeddings=14), rngs=nnx.Rngs(0))
    options = {"softmax_over": "tokens", "selector_input": "first"}
    reader = randomised(SpanReader(encoder, rngs=nnx.Rngs(1), **options))
    save_reader(reader, tmp_path, details={"windows": {"stride": 8}})
    assert json.loads((tmp_path / "config.json").read_text())["hardem_jax"] == {
        **options,
        "windows": {"stride": 8},
    }
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    assert type(model) is transformers.RobertaForQuestionAnswering
    reading = assert_same_spans(reader, torch_outputs(torch, model))
    again = load_reader(tmp_path)
    assert (again.softmax_over, again.selector_input) == ("tokens", "first")
    np.testing.assert_array_equal(run(again, BATCH).selector_logits, reading.selector_logits)


# --- checkpoints that do not fit -----------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    save_reader(SpanReader(Bert(CONFIG, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1)), tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qa_outputs.bias": None}, "in 1 places: missing: qa_outputs.bias"),
        ({"qa_outputs.weight": (3, 8)}, r"qa_outputs.weight expected \(2, 8\), found \(3, 8\)"),
        ({"qa_classifier.weight": (3, 8)}, "qa_classifier: expected 1, 2 or 4 classes, found 3"),
        ({"qa_classifier.bias": (4,)}, r"qa_classifier.bias expected \(2,\), found \(4,\)"),
        ({"classifier.bias": (3,)}, "not used: classifier.bias"),
        ({"bert.encoder.layer.2.output.dense.bias": None}, "missing: encoder.layer.2.output.dense"),
    ],
)
def test_faults_are_named(saved, change, message):
    selector = saved / "selector.safetensors"
    tensors = tensors_of(saved)
    if any(name.startswith("qa_classifier") for name in change):
        selector.unlink()
        tensors |= {"qa_classifier.weight": np.ones((2, 8)), "qa_classifier.bias": np.ones(2)}
    for name, shape in change.items():
        if shape is None:
            del tensors[name]
        else:
            tensors[name] = np.ones(shape, np.float32)
    replace_tensors(saved, {k: np.asarray(v, np.float32) for k, v in tensors.items()})
    with pytest.raises(InputError, match=message) as caught:
        load_reader(saved)
    assert str(caught.value).startswith(str(saved))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["windows"], "config.json: hardem_jax: expected an object, found"),
        (None, "config.json: hardem_jax: expected an object, found"),
        ({"softmax_over": "all"}, "softmax_over: expected 'context' . 'tokens', found 'all'"),
    ],
)
def test_details_that_make_no_sense_are_refused(saved, content, message):
    config = json.loads((saved / "config.json").read_text()) | {"hardem_jax": content}
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        load_reader(saved)


def test_a_stored_selector_can_be_left_out(saved):
    with pytest.raises(InputError, match="expected qa_classifier.*found none"):
        load_reader(saved, ignore=["qa_classifier"])
    stored = load_reader(saved)
    fresh = load_reader(saved, ignore=["qa_classifier"], rngs=nnx.Rngs(5))
    assert not np.array_equal(stored.selector.kernel[...], fresh.selector.kernel[...])
    np.testing.assert_array_equal(stored.span_scores.kernel[...], fresh.span_scores.kernel[...])


def test_an_encoder_of_a_saved_reader_needs_its_head_ignored(saved):
    with pytest.raises(InputError, match=r"ignore=\('qa_outputs',\)"):
        load_encoder(saved)
    assert load_encoder(saved, ignore=["qa_outputs"]).config == CONFIG
