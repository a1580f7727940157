"""What a run folder has to hold before anything is loaded."""

import json
from pathlib import Path

import pytest

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.prepared.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.solutions.sql.rules import SqlRules
from hardem_jax.tasks.config import NAQANetModelConfig, ReaderConfig, SpanInference, TaggerConfig
from hardem_jax.tasks.run_config import RunConfig

SPAN = {
    "version": "0.2.0",
    "task": "spans",
    "model": {},
    "flags": {
        "model": {"type": "ReaderConfig", "encoder": "e", "num_layers": None, "remat": False},
        "inference": {"type": "SpanInference", "top": 3, "sweep": [1, 2]},
        "batches": {"type": "BatchConfig", "buckets": [8, 16]},
    },
    "windows": {"max_tokens": 250},
}


@pytest.fixture
def config(tmp_path):
    def write(content, task="spans"):
        (tmp_path / "config.json").write_text(json.dumps(content))
        return RunConfig(tmp_path, task)

    return write


def test_configurations_come_back(config):
    found = config(SPAN)
    assert found.flags("model", ReaderConfig) == ReaderConfig("e", remat="none")
    assert found.flags("inference", SpanInference) == SpanInference(top=3, sweep=(1, 2))
    assert found.flags("batches", BatchConfig) == BatchConfig(buckets=(8, 16))
    assert found.section("windows", WindowConfig) == WindowConfig(max_tokens=250)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({}, True),
        ({"aggregates_on_text": False}, False),
        ({"aggregates_on_text": False, "semantics": "official"}, False),
    ],
)
def test_a_parser_of_before_keeps_its_rules(config, stored, expected):
    """Its Z had aggregates of text, which the rules did not say, and the engine's semantics."""
    rules = {"aggregates_of_one_row": False, **stored}
    found = config({"task": "queries", "model": {}, "flags": {}, "rules": rules}, "queries")
    expected = SqlRules(aggregates_of_one_row=False, aggregates_on_text=expected)
    assert found.section("rules", SqlRules) == expected


def test_a_parser_by_other_semantics_is_refused(config):
    rules = {"aggregates_on_text": False, "semantics": "sane"}
    found = config({"task": "queries", "model": {}, "flags": {}, "rules": rules}, "queries")
    with pytest.raises(InputError, match="rules.semantics: expected a field of SqlRules, found"):
        found.section("rules", SqlRules)


def test_a_model_goes_by_its_type(config):
    flags = {"model": {"type": "NAQANetModelConfig", "word_vectors": "glove.txt"}}
    found = config({"task": "equations", "model": {}, "flags": flags}, "equations")
    model = found.flags("model", TaggerConfig, NAQANetModelConfig)
    assert model == NAQANetModelConfig(word_vectors=Path("glove.txt"))


@pytest.mark.parametrize(
    ("content", "task", "message"),
    [
        ([], "spans", "config.json: expected an object, found a list"),
        ({"flags": {}}, "spans", "config.json: expected a run of spans, found a run of no task"),
        ({"task": 3}, "spans", "config.json: expected a run of spans, found a run of no task"),
        ({"equation_model": {}}, "spans", "expected a run of spans, found a run of equations"),
        (SPAN, "queries", "expected a run of queries, found a run of spans"),
        ({"task": "spans", "model": 3}, "spans", "expected an object under 'model', found"),
        ({"parser": 3}, "queries", "expected an object under 'model', found"),
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
    content = {"version": "9.9", "task": "spans", "model": {}} | ({"flags": flags} if flags else {})
    with pytest.raises(InputError, match=r"config.json \(of version 9.9\): " + message):
        config(content).flags("model", ReaderConfig)
