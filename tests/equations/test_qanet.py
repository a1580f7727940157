"""QANet parts: numpy formulas, parity with PyTorch, padding, stochastic depth."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.equations.qanet import (
    EncoderBlock,
    PassageQuestionAttention,
    QANetEncoder,
    add_sublayer,
    sinusoidal_positions,
)
from tests.encoders.modules import drawn, run

RNG = np.random.default_rng(0)
SIZE = 12
OPTIONS: dict[str, Any] = dict(num_convs=2, width=5, num_heads=3, dropout=0.1, layer_dropout=0.3)
X = RNG.normal(size=(3, 9, SIZE)).astype(np.float32)
WHERE = np.arange(9)[None] < np.array([9, 6, 1])[:, None]


def torch_block(torch, module):
    """The block in PyTorch: pre-norm sublayers, scaled by the chance that training keeps them."""
    functional = torch.nn.functional

    def tensor(x):
        return torch.tensor(np.asarray(x))

    def linear(layer, x):
        return functional.linear(x, tensor(layer.kernel[...].T), tensor(layer.bias[...]))

    def convolution(conv, x, where):
        width = conv.depthwise[...].shape[0]
        x = (x * where[..., None]).transpose(1, 2)
        x = functional.pad(x, (width // 2, (width - 1) // 2))
        x = functional.conv1d(x, tensor(conv.depthwise[...].T)[:, None], groups=SIZE)
        kernel = tensor(conv.pointwise.kernel[...].T)[..., None]
        return functional.conv1d(x, kernel, tensor(conv.pointwise.bias[...])).relu().transpose(1, 2)

    def attend(x, where):
        attention = torch.nn.MultiheadAttention(SIZE, module.num_heads, batch_first=True)
        layers = module.query, module.key, module.value
        weight = torch.cat([tensor(layer.kernel[...].T) for layer in layers])
        state = {
            "in_proj_weight": weight,
            "in_proj_bias": torch.cat([tensor(layer.bias[...]) for layer in layers]),
            "out_proj.weight": tensor(module.attention_output.kernel[...].T),
            "out_proj.bias": tensor(module.attention_output.bias[...]),
        }
        attention.load_state_dict(state)
        return attention(x, x, x, key_padding_mask=~where, need_weights=False)[0]

    def run(x, where):
        x = x + tensor(sinusoidal_positions(x.shape[1], SIZE))
        sublayers = [lambda y, c=c: convolution(c, y, where) for c in module.convs]
        sublayers.append(lambda y: attend(y, where))
        sublayers.append(lambda y: linear(module.output, linear(module.hidden, y).relu()))
        for i, (norm, sublayer) in enumerate(zip(module.norms, sublayers, strict=True), 1):
            scale, bias = tensor(norm.scale[...]), tensor(norm.bias[...])
            y = sublayer(functional.layer_norm(x, (SIZE,), scale, bias, 1e-5))
            x = x + (1 - OPTIONS["layer_dropout"] * i / len(sublayers)) * y
        return x

    return run


def test_block_and_its_gradient_equal_pytorch(torch_bert):
    torch, _ = torch_bert
    module = drawn(lambda: EncoderBlock(SIZE, **OPTIONS, rngs=nnx.Rngs(0), dtype=jnp.float32))
    x = torch.tensor(X, requires_grad=True)
    out = torch_block(torch, module)(x, torch.tensor(WHERE))
    weight = RNG.normal(size=X.shape).astype(np.float32) * WHERE[..., None]
    (out * torch.tensor(weight)).sum().backward()

    ours, vjp = jax.vjp(lambda x: run(module, x, WHERE), jnp.asarray(X))
    np.testing.assert_allclose(ours[WHERE], out.detach().numpy()[WHERE], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(vjp(jnp.asarray(weight))[0], x.grad.numpy(), rtol=1e-4, atol=1e-5)


def encoder(**options):
    return drawn(lambda: QANetEncoder(SIZE, num_blocks=3, **OPTIONS, **options, rngs=nnx.Rngs(0)))


def test_scanned_encoder_is_its_blocks_one_after_the_other():
    module = encoder()
    graphdef, params = nnx.split(module.blocks)
    x = jnp.asarray(X)
    for index in range(3):
        x = run(nnx.merge(graphdef, jax.tree.map(lambda leaf, i=index: leaf[i], params)), x, WHERE)
    np.testing.assert_allclose(run(module, X, WHERE), x, rtol=1e-5, atol=1e-5)
    assert not np.allclose(x, X, atol=0.1)


@pytest.mark.slow
def test_remat_changes_nothing():
    def grads(remat):
        graphdef, params = nnx.split(encoder(remat=remat))

        def loss(params):
            module = nnx.merge(graphdef, params)
            out = module(X, WHERE, module.draw(jax.random.key(3)))
            return jnp.where(WHERE[..., None], out, 0).std()

        return jax.jit(jax.value_and_grad(loss))(params)

    assert "remat" in str(jax.make_jaxpr(lambda x: encoder(remat=True)(x, WHERE))(X))
    for a, b in zip(jax.tree.leaves(grads(True)), jax.tree.leaves(grads(False)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_padding_changes_no_word_and_gets_no_gradient():
    module = encoder()
    longer = np.concatenate([X, np.full((3, 4, SIZE), 50, np.float32)], axis=1)
    longer_where = np.concatenate([WHERE, np.zeros((3, 4), bool)], axis=1)

    def loss(x):
        out = run(module, x, longer_where)
        return jnp.where(longer_where[..., None], out, 0).std(), out

    grad, out = jax.grad(loss, has_aux=True)(jnp.asarray(longer))
    for row, length in enumerate(WHERE.sum(axis=1)):
        alone = run(module, X[row : row + 1, :length], WHERE[row : row + 1, :length])[0]
        np.testing.assert_allclose(out[row, :length], alone, rtol=1e-4, atol=1e-5)
    grad = np.asarray(grad)
    assert np.all(grad[~longer_where] == 0)
    assert np.all(np.any(grad[longer_where] != 0, axis=-1)) and np.all(np.isfinite(grad))


def test_layer_dropout_has_the_expectation_of_no_dropout():
    """Kept shares within five standard errors; the whole batch is kept or left out together."""
    n, rates = 4000, OPTIONS["layer_dropout"] * np.arange(1, 5) / 4
    module = nnx.eval_shape(lambda: QANetEncoder(SIZE, num_blocks=1, **OPTIONS, rngs=nnx.Rngs(0)))
    kept = jax.jit(module.draw)(jax.random.split(jax.random.key(0), n)).kept[:, 0]
    errors = np.abs(np.asarray(kept).mean(axis=0) - (1 - rates))
    assert np.all(errors < 5 * np.sqrt(rates * (1 - rates) / n))
    x, y = jnp.zeros((2, 3)), jnp.ones((2, 3))
    for kept, share in ((None, 0.7), (jnp.array(True), 1), (jnp.array(False), 0)):
        np.testing.assert_allclose(add_sublayer(x, y, 0.3, kept), np.full((2, 3), share))


def test_passage_question_attention_is_the_formula():
    module = PassageQuestionAttention(SIZE, rngs=nnx.Rngs(0))
    passage, passage_where = X, WHERE
    question = RNG.normal(size=(3, 4, SIZE)).astype(np.float32)
    question_where = np.arange(4)[None] < np.array([4, 2, 3])[:, None]
    out = np.asarray(run(module, passage, question, passage_where, question_where))
    w = np.asarray(module.kernel[...])
    for b in range(3):
        p, q = passage[b, passage_where[b]], question[b, question_where[b]]
        scores = np.array([[w[0] @ pi + w[1] @ qj + w[2] @ (pi * qj) for qj in q] for pi in p])
        over_question = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        over_passage = np.exp(scores) / np.exp(scores).sum(axis=0, keepdims=True)
        a = over_question @ q
        expected = np.concatenate([p, a, p * a, p * ((over_question @ over_passage.T) @ p)], axis=1)
        np.testing.assert_allclose(out[b, passage_where[b]], expected, rtol=1e-4, atol=1e-5)
