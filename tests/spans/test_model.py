"""Heads of the span reader: padding takes no part, and the positions are those asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.spans.model import SpanReader
from tests.encoders.modules import run

CONFIG = BertConfig(
    vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)


def make(**options):
    return SpanReader(Bert(CONFIG, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1), **options)


@pytest.fixture
def batch():
    where = jnp.arange(9)[None, :] < jnp.array([[9], [6], [0]])
    context = where & (jnp.arange(9)[None, :] >= 3) & (jnp.arange(9)[None, :] < 5)
    token_ids = jax.random.randint(jax.random.key(0), (3, 9), 0, 20)
    types = jnp.zeros((3, 9), jnp.int32)
    return dict(token_ids=token_ids, token_type_ids=types, where=where, context=context)


@pytest.mark.parametrize(("option", "name"), [("context", "context"), ("tokens", "where")])
def test_all_mass_lies_on_the_positions_asked_for(batch, option, name):
    spans = run(make(softmax_over=option), batch).spans
    for scores in (spans.start, spans.end):
        mass = np.exp(np.asarray(scores))
        assert np.all(mass[~np.asarray(batch[name])] == 0)
        np.testing.assert_allclose(mass[:2].sum(axis=1), 1.0, rtol=1e-5)


def test_selector_pools_over_real_tokens_alone(batch):
    reader = make()
    types = batch["token_type_ids"]
    hidden = run(reader.encoder, batch["token_ids"], where=batch["where"], token_type_ids=types)
    logits = run(reader, batch).selector_logits
    np.testing.assert_allclose(logits[1], reader.selector(hidden[1, :6].max(axis=0)), rtol=1e-4)
    assert np.all(np.isfinite(logits))


def test_heads_and_losses_stay_in_float32_under_bfloat16(batch):
    encoder = Bert(CONFIG, rngs=nnx.Rngs(0), dtype=jnp.bfloat16)
    reading = run(SpanReader(encoder, rngs=nnx.Rngs(1)), batch)
    assert reading.spans.start.dtype == reading.selector_logits.dtype == jnp.float32
