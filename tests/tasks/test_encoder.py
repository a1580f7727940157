"""What a person chooses about an encoder, and how a run remembers it."""

import dataclasses
import json

import jax.numpy as jnp
import pytest
from flax import nnx

from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.errors import InputError
from hardem_jax.models.checkpoints.span_reader import save_reader
from hardem_jax.models.encoders.bert import BertConfig
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.tasks.config import EncoderConfig, ReaderConfig
from hardem_jax.tasks.encoder import (
    check_lengths,
    load_encoder,
    restore_sizes,
    save_sizes,
    untrained_encoder,
)
from hardem_jax.tasks.run_config import RunConfig
from hardem_jax.training.fingerprint import named_settings
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


def test_heads_are_left_out_by_a_flag_that_no_older_run_misses(checkpoint, tmp_path):
    tokenizer, folder = load_tokenizer(checkpoint), tmp_path / "fine-tuned"
    encoder = load_encoder(EncoderConfig(checkpoint), tokenizer)
    save_reader(SpanReader(encoder, rngs=nnx.Rngs(0)), folder)
    with pytest.raises(InputError, match="or --model.ignore qa_outputs"):
        load_encoder(EncoderConfig(str(folder)), tokenizer)
    config = EncoderConfig(str(folder), ignore=("qa_outputs",))
    assert load_encoder(config, tokenizer).config == encoder.config
    assert "ignore" not in named_settings(config)


def test_buckets_beyond_the_encoders_positions_are_refused():
    config, bert = EncoderConfig("tiny"), BertConfig(100, 8, 2, 2, 16, 512)
    check_lengths(config, bert, (128, 512))
    with pytest.raises(InputError, match="--batches.buckets: .* 512 positions of tiny, found 1024"):
        check_lengths(config, bert, (128, 1024))


def test_the_encoder_of_a_run_is_restored_whatever_wrote_it(tmp_path):
    """Version 0.1 named it "bert", in three places."""
    bert = BertConfig(100, 8, 2, 2, 16)
    fields = dataclasses.asdict(bert)
    saved = save_sizes(bert)
    assert saved == {"encoder": {"model_type": "bert", **fields}}

    def restored(content, task="queries"):
        (tmp_path / "config.json").write_text(json.dumps(content))
        return restore_sizes(RunConfig(tmp_path, task))

    assert restored({"task": "queries", "model": saved}) == bert
    assert restored({"parser": {"bert": fields}}) == bert
    assert restored({"bert": fields, "windows": {}}, "spans") == bert
    assert restored({"equation_model": {"bert": fields, "num_special": 9}}, "equations") == bert
    for wrong, message in (
        ({}, "expected an object under 'encoder', found nothing"),
        ({"encoder": fields}, "model.encoder.model_type: expected one of bert, .*, found None"),
        (
            {"encoder": {"model_type": "bert", "vocab_size": 9}},
            "model.encoder.hidden_size: expected a value, found none",
        ),
    ):
        with pytest.raises(InputError, match=f"config.json: .*{message}"):
            restored({"task": "queries", "model": wrong})
