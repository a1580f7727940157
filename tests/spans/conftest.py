"""The reader that these tests share."""

import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert
from hardem_jax.spans.model import SpanReader
from tests.task.toy import SMALL_BERT


@pytest.fixture(scope="module")
def reader():
    reader = SpanReader(Bert(SMALL_BERT, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    # Larger than at initialisation, so that scores differ and ties do not hide mistakes.
    reader.span_scores.kernel.set_value(reader.span_scores.kernel.get_value() * 50)
    reader.selector.kernel.set_value(reader.selector.kernel.get_value() * 50)
    return nnx.split(reader, nnx.Param)
