"""The conversion of weights by a table, on one that uses everything a table can say."""

import numpy as np
import pytest

from hardem_jax.encoders.weights import (
    WeightTable,
    dense,
    embedding,
    layer_norm,
    stack_layers,
    unstack_layers,
)
from hardem_jax.errors import InputError

# Fused projections as in ModernBERT; the first layer has no norm.
TABLE = WeightTable(
    {
        **embedding("embeddings.tok_embeddings", "embeddings.word"),
        **layer_norm("layers.#.attn_norm", "layers.#.norm", bias=False),
        **dense("layers.#.attn.Wqkv", *(f"layers.#.{x}" for x in ("query", "key", "value"))),
        **dense("layers.#.mlp.Wi", "layers.#.inputs", "layers.#.gate", bias=False),
    },
    prefix="model.",
    ignored=r"head\..*",
)
SHAPES = {"embeddings.word": (5, 2), "layers.1.norm.scale": (2,)}
for _layer in range(2):
    SHAPES |= {f"layers.{_layer}.{name}.kernel": (2, 2) for name in ("query", "key", "value")}
    SHAPES |= {f"layers.{_layer}.{name}.bias": (2,) for name in ("query", "key", "value")}
    SHAPES |= {f"layers.{_layer}.{name}.kernel": (2, 3) for name in ("inputs", "gate")}
PARAMS = {
    path: np.random.default_rng(i).normal(size=shape).astype(np.float32)
    for i, (path, shape) in enumerate(SHAPES.items())
}


def test_fused_tensors_are_divided_and_written_back():
    tensors = TABLE.write(PARAMS)
    assert sorted(tensors) == [
        "embeddings.tok_embeddings.weight",
        *(f"layers.0.{n}" for n in ("attn.Wqkv.bias", "attn.Wqkv.weight", "mlp.Wi.weight")),
        *(f"layers.1.{n}" for n in ("attn.Wqkv.bias", "attn.Wqkv.weight", "attn_norm.weight")),
        "layers.1.mlp.Wi.weight",
    ]
    np.testing.assert_array_equal(
        tensors["layers.1.attn.Wqkv.weight"][2:4], PARAMS["layers.1.key.kernel"].T
    )
    assert tensors["layers.0.mlp.Wi.weight"].shape == (6, 2)
    named = {f"model.{name}": value for name, value in tensors.items()} | {"head.bias": np.ones(1)}
    read = TABLE.read(named, PARAMS, num_layers=2)
    assert read.keys() == PARAMS.keys()
    for path, value in read.items():
        np.testing.assert_array_equal(value, PARAMS[path])


def test_the_first_layers_can_be_read_without_the_others():
    first = {path: value for path, value in PARAMS.items() if not path.startswith("layers.1.")}
    tensors = TABLE.write(PARAMS)
    assert TABLE.read(tensors, first, num_layers=2).keys() == first.keys()
    with pytest.raises(InputError, match=r"4 places: not used: layers.1.attn.Wqkv.bias \(the con"):
        TABLE.read(tensors, first, num_layers=1)


def test_a_wrong_fused_tensor_is_named_once():
    tensors = TABLE.write(PARAMS)
    tensors["layers.0.attn.Wqkv.weight"] = np.zeros((6, 3), np.float32)
    del tensors["layers.1.mlp.Wi.weight"]
    with pytest.raises(InputError) as refused:
        TABLE.read(tensors, PARAMS, num_layers=2)
    assert str(refused.value) == (
        "weights do not fit the config in 2 places: misshapen: layers.0.attn.Wqkv.weight expected "
        "(6, 2), found (6, 3); missing: layers.1.mlp.Wi.weight"
    )


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "bool"])
def test_integers_are_no_weights(kind):
    tensors = TABLE.write(PARAMS)
    tensors["layers.1.mlp.Wi.weight"] = tensors["layers.1.mlp.Wi.weight"].astype(kind)
    with pytest.raises(InputError, match=f"not floats: layers.1.mlp.Wi.weight, found {kind}$"):
        TABLE.read(tensors, PARAMS, num_layers=2)


def test_layers_are_stacked_in_the_order_of_their_numbers():
    params = {f"layers.{i}.x": np.full(1, i) for i in (10, 2, 0, 1, 9, 3, 4, 5, 6, 7, 8)}
    stacked = stack_layers(params | {"y": np.zeros(1)})
    assert stacked["layers.x"][:, 0].tolist() == list(range(11))
    assert unstack_layers(stacked).keys() == params.keys() | {"y"}
