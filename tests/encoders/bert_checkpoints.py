"""A tiny encoder, and what its checkpoint holds."""

import jax
import numpy as np
import safetensors.numpy
from flax import nnx

from hardem_jax.encoders.bert import BertConfig

CONFIG = BertConfig(
    40, 8, 3, 2, 12, max_position_embeddings=16, hidden_dropout=0.2, attention_dropout=0.3
)


def tensors_of(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def replace_tensors(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def leaves(bert):
    return jax.tree.leaves(nnx.to_pure_dict(nnx.state(bert)))


def assert_same_parameters(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)
