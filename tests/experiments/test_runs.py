"""What a run folder has to hold before anything is loaded."""

import json

import pytest

from experiments.model_configs import NAQANetModelConfig, ReaderConfig, TaggerConfig
from experiments.runs import RunConfig
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.prepared.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.tasks.span_qa import InferenceConfig

SPAN = {
    "version": "0.1.0",
    "flags": {
        "model": {"type": "ReaderConfig", "encoder": "e", "num_layers": None, "remat": False},
        "inference": {"type": "InferenceConfig", "top": 3, "sweep": [1, 2]},
        "batches": {"type": "BatchConfig", "buckets": [8, 16]},
    },
    "windows": {"max_tokens": 250},
}


@pytest.fixture
def config(tmp_path):
    def write(content, part="windows"):
        (tmp_path / "config.json").write_text(json.dumps(content))
        return RunConfig(tmp_path, part)

    return write


def test_configurations_come_back(config):
    found = config(SPAN)
    assert found.flags("model", ReaderConfig) == ReaderConfig("e", remat="none")
    assert found.flags("inference", InferenceConfig) == InferenceConfig(top=3, sweep=(1, 2))
    assert found.flags("batches", BatchConfig) == BatchConfig(buckets=(8, 16))
    assert found.section("windows", WindowConfig) == WindowConfig(max_tokens=250)


def test_a_model_goes_by_its_type(config):
    content = {"flags": {"model": {"type": "NAQANetModelConfig", "word_vectors": "glove.txt"}}}
    found = config(content | {"equation_model": {}}, "equation_model")
    model = found.flags("model", TaggerConfig, NAQANetModelConfig)
    assert model == NAQANetModelConfig(word_vectors="glove.txt")


@pytest.mark.parametrize(
    ("content", "part", "message"),
    [
        ([], "windows", "config.json: expected an object, found a list"),
        (
            {"flags": {}},
            "windows",
            "config.json: expected a run of span reading, found a run",
        ),
        (
            {"equation_model": {}},
            "windows",
            "config.json: expected a run of span reading, found a run of experiments.drop",
        ),
        (SPAN, "parser", "expected a run of experiments.wikisql, found a run of span reading"),
        (
            {"windows": 3},
            "windows",
            "config.json: expected an object under 'windows', found",
        ),
    ],
)
def test_a_run_of_another_task_is_named(config, content, part, message):
    with pytest.raises(InputError, match=message):
        config(content, part)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "expected an object under 'flags', found nothing"),
        ({"model": []}, "expected an object under 'model', found a list"),
        ({"model": {"wings": 2}}, "flags.model.wings: expected a field of ReaderConfig"),
        (
            {"model": {"num_layers": "2"}},
            r"flags.model.num_layers: expected int \| None, found '2'",
        ),
        ({"model": {"num_layers": 0}}, "flags.model.num_layers: expected at least 1, found 0"),
        ({"model": {"dtype": "float8"}}, "flags.model.dtype: expected .*, found 'float8'"),
        ({"model": {"dtype": ["x"]}}, "flags.model.dtype: expected .*, found"),
    ],
)
def test_so_is_a_flag_that_does_not_fit(config, flags, message):
    content = {"version": "9.9", "windows": {}} | ({"flags": flags} if flags else {})
    with pytest.raises(InputError, match=r"config.json \(of version 9.9\): " + message):
        config(content).flags("model", ReaderConfig)


def test_a_value_that_has_no_default_is_asked_for(config):
    from hardem_jax.models.encoders.bert import BertConfig

    with pytest.raises(InputError, match="bert.hidden_size: expected a value, found none"):
        config(SPAN | {"bert": {"vocab_size": 9}}).section("bert", BertConfig)
