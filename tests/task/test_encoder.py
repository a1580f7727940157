"""What a person chooses about an encoder, and how a run remembers it."""

import dataclasses
import json
import types

import jax.numpy as jnp
import pytest
from flax import nnx

from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.encoders.bert import BertConfig
from hardem_jax.errors import InputError
from hardem_jax.programs import task as programs
from hardem_jax.programs.config import ProgramParserConfig
from hardem_jax.queries import task as queries
from hardem_jax.queries.config import SQLovaConfig
from hardem_jax.span_sets.config import TaggedReaderConfig
from hardem_jax.span_sets.task import TaggedModel
from hardem_jax.spans.checkpoint import save_reader
from hardem_jax.spans.config import ReaderConfig
from hardem_jax.spans.model import SpanReader
from hardem_jax.spans.task import SpanModel
from hardem_jax.task.config import EncoderConfig
from hardem_jax.task.encoder import load_encoder, restore_sizes, save_sizes, untrained_encoder
from hardem_jax.task.run_config import RunConfig
from hardem_jax.training.fingerprint import named_settings
from tests.tiny import write_checkpoint, write_roberta


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return str(write_checkpoint(tmp_path_factory.mktemp("reader") / "bert"))


def test_attention_is_chosen_with_its_dropout(checkpoint):
    tokenizer = load_tokenizer(checkpoint)
    config = EncoderConfig(checkpoint, attention="splash")
    with pytest.raises(InputError, match="attention_dropout 0 with the kernel 'splash'"):
        load_encoder(config, tokenizer)
    config = EncoderConfig(checkpoint, attention="splash", attention_dropout=0, dtype="bfloat16")
    trained = load_encoder(config, tokenizer)
    for bert in trained, nnx.eval_shape(lambda: untrained_encoder(config, trained.config)):
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


@pytest.mark.parametrize(
    ("model", "config"),
    [(queries.QueryModel, SQLovaConfig), (programs.ProgramModel, ProgramParserConfig)],
)
def test_parsers_cut_their_inputs_to_what_the_encoder_reads(model, config):
    bert = BertConfig(100, 8, 2, 2, 16, max_position_embeddings=64)
    parser = model(graphdef=None, params=None, config=config("tiny"), encoder=bert, tokenizer=None)
    message = "--model.max-tokens: expected at most the 64 positions of tiny, found 180"
    with pytest.raises(InputError, match=message):
        parser.check_lengths((32,))
    dataclasses.replace(parser, config=config("tiny", max_tokens=64)).check_lengths((32,))


def questions_with(tokenizer):
    """As much of questions with windows as a model is made from."""
    return types.SimpleNamespace(tokenizer=tokenizer, place="prepared/train")


@pytest.mark.parametrize(
    ("model", "config"), [(SpanModel, ReaderConfig), (TaggedModel, TaggedReaderConfig)]
)
def test_windows_of_another_tokenizer_are_refused(checkpoint, tmp_path, model, config):
    """Whichever vocabulary is the larger one."""
    roberta = str(write_roberta(tmp_path / "roberta"))
    for own, other in ((checkpoint, roberta), (roberta, checkpoint)):
        with pytest.raises(
            InputError, match=f"prepared/train: prepared with another tokenizer than {other}"
        ):
            model.start(config(encoder=other), questions_with(load_tokenizer(own)), seed=0)


def test_the_encoder_of_a_run_is_restored(tmp_path):
    bert = BertConfig(100, 8, 2, 2, 16)
    fields = dataclasses.asdict(bert)
    saved = save_sizes(bert)
    assert saved == {"encoder": {"model_type": "bert", **fields}}

    def restored(content):
        (tmp_path / "config.json").write_text(json.dumps(content))
        return restore_sizes(RunConfig(tmp_path, "queries"))

    assert restored({"task": "queries", "model": saved}) == bert
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
