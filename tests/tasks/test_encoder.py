"""What a person chooses about an encoder, and how a run remembers it."""

import jax.numpy as jnp
import pytest
from flax import nnx

from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.errors import InputError
from hardem_jax.models.encoders.bert import BertConfig
from hardem_jax.tasks.config import EncoderConfig, ReaderConfig
from hardem_jax.tasks.encoder import check_lengths, load_encoder, untrained_encoder
from tests.tiny import write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return str(write_checkpoint(tmp_path_factory.mktemp("reader") / "bert"))


def test_runs_from_before_rematerialisation_had_names_can_be_evaluated():
    """Version 0.1 stored it as on or off."""
    assert ReaderConfig(remat=True) == ReaderConfig(remat="layer")  # type: ignore[arg-type]
    assert ReaderConfig(remat=False) == ReaderConfig()  # type: ignore[arg-type]


def test_attention_is_chosen_with_its_dropout(checkpoint):
    tokenizer = load_tokenizer(checkpoint)
    config = EncoderConfig(checkpoint, attention="splash")
    with pytest.raises(InputError, match="attention_dropout 0 with the kernel 'splash'"):
        load_encoder(config, tokenizer)
    config = EncoderConfig(checkpoint, attention="splash", attention_dropout=0, dtype="bfloat16")
    trained = load_encoder(config, tokenizer)
    restored = nnx.eval_shape(lambda: untrained_encoder(config, trained.config))
    for bert in trained, restored:
        assert (bert.attention, bert.config.attention_dropout) == ("splash", 0)
        assert bert.dtype == jnp.bfloat16


def test_buckets_beyond_the_encoders_positions_are_refused():
    config, bert = EncoderConfig("tiny"), BertConfig(100, 8, 2, 2, 16, 512)
    check_lengths(config, bert, (128, 512))
    with pytest.raises(InputError, match="--batches.buckets: .* 512 positions of tiny, found 1024"):
        check_lengths(config, bert, (128, 1024))
