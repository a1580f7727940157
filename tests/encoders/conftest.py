"""A tiny checkpoint to read or to break."""

import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert
from hardem_jax.encoders.pretrained import save_encoder
from tests.encoders.bert_checkpoints import CONFIG


@pytest.fixture
def folder(tmp_path):
    """A tiny checkpoint as `save_encoder` writes it."""
    save_encoder(Bert(CONFIG, rngs=nnx.Rngs(0)), tmp_path)
    return tmp_path
