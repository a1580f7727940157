"""What a run folder has to hold before anything is loaded."""

import dataclasses
import json
from pathlib import Path

import pytest

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.equations.config import NAQANetModelConfig, TaggerConfig
from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.types import SqlRules
from hardem_jax.spans.config import ReaderConfig, SpanInference
from hardem_jax.task.run_config import RunConfig

SPAN = {
    "version": "0.2.0",
    "task": "spans",
    "model": {},
    "flags": {
        "model": {"type": "ReaderConfig", "encoder": "e", "num_layers": None, "remat": "layer"},
        "inference": {"type": "SpanInference", "top": 3, "sweep": [1, 2]},
        "batches": {"type": "BatchConfig", "buckets": [8, 16]},
    },
    "windows": dataclasses.asdict(WindowConfig(max_tokens=250)),
}


@pytest.fixture
def config(tmp_path):
    def write(content, task="spans"):
        (tmp_path / "config.json").write_text(json.dumps(content))
        return RunConfig(tmp_path, task)

    return write


def test_configurations_come_back(config):
    found = config(SPAN)
    assert found.flags("model", ReaderConfig) == ReaderConfig("e", remat="layer")
    assert found.flags("inference", SpanInference) == SpanInference(top=3, sweep=(1, 2))
    assert found.flags("batches", BatchConfig) == BatchConfig(buckets=(8, 16))
    assert found.section("windows", WindowConfig) == WindowConfig(max_tokens=250)


def test_rules_have_all_of_their_fields(config):
    """A run of version 0.2 had aggregates of text in Z, and no field said so."""
    rules = dataclasses.asdict(SqlRules(aggregates_on_text=True))
    saved = {"task": "queries", "model": {}, "version": "0.2.0", "rules": rules}
    assert config(saved, "queries").section("rules", SqlRules) == SqlRules(aggregates_on_text=True)
    del rules["aggregates_on_text"]
    with pytest.raises(InputError, match="version 0.2.0.: rules.aggregates_on_text: expected a"):
        config(saved, "queries").section("rules", SqlRules)


def test_a_model_goes_by_its_type(config):
    flags = {"model": {"type": "NAQANetModelConfig", "word_vectors": "glove.txt"}}
    found = config({"task": "equations", "model": {}, "flags": flags}, "equations")
    model = found.flags("model", TaggerConfig, NAQANetModelConfig)
    assert model == NAQANetModelConfig(word_vectors=Path("glove.txt"))


@pytest.mark.parametrize(
    ("content", "task", "message"),
    [
        ([], "spans", "config.json: expected an object, found a list"),
        ({"flags": {}}, "spans", "config.json: expected a run of spans, found no run"),
        ({"task": 3}, "spans", "config.json: expected a run of spans, found no run"),
        ({"task": ["spans"]}, "spans", "config.json: expected a run of spans, found no run"),
        ({"version": "0.1", "parser": {}}, "queries", "version 0.1.: expected a run of queries"),
        (SPAN, "queries", "expected a run of queries, found a run of spans"),
        ({"task": "spans", "model": 3}, "spans", "expected an object under 'model', found"),
    ],
)
def test_a_run_of_another_task_is_named(config, content, task, message):
    with pytest.raises(InputError, match=message):
        config(content, task)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "expected an object under 'flags', found nothing"),
        ({"model": []}, "expected an object under 'model', found a list"),
        ({"model": {"wings": 2}}, "flags.model.wings: expected a field of ReaderConfig"),
    ],
)
def test_so_is_a_flag_that_does_not_fit(config, flags, message):
    content = {"version": "9.9", "task": "spans", "model": {}} | ({"flags": flags} if flags else {})
    with pytest.raises(InputError, match=r"config.json \(of version 9.9\): " + message):
        config(content).flags("model", ReaderConfig)
