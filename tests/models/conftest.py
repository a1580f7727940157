"""What the tests of checkpoints share: PyTorch, and a tiny checkpoint to read or to break."""

import warnings

import pytest
from flax import nnx

from hardem_jax.models.encoders.bert import Bert
from hardem_jax.models.encoders.pretrained import save_encoder
from tests.models.bert_checkpoints import CONFIG


@pytest.fixture
def torch_bert():
    """`(torch, transformers)`, both imported, or a skip."""
    with warnings.catch_warnings():
        # torch and transformers deprecate parts of themselves at import; not ours to mend.
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")
        import transformers

        _ = transformers.BertModel
    return torch, transformers


@pytest.fixture
def folder(tmp_path):
    """A tiny checkpoint as `save_encoder` writes it."""
    save_encoder(Bert(CONFIG, rngs=nnx.Rngs(0)), tmp_path)
    return tmp_path
