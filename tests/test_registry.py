"""Tasks by name, those of other packages included."""

from importlib.metadata import EntryPoint

import pytest

from hardem_jax import registry


@pytest.fixture
def installed(monkeypatch):
    """As if a package that says so were installed."""
    point = EntryPoint("sentences", "docs.examples.sentences", "hardem_jax.tasks")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    monkeypatch.delitem(registry.TASKS, "sentences", raising=False)
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


def test_a_task_of_another_package_is_one_of_all(installed):
    assert registry.tasks() == registry.TASKS | {"sentences": "docs.examples.sentences"}
    assert registry.task_type("sentences").NAME == "sentences"
    assert registry.has_module("sentences", "show")
    assert "sentences" not in registry.tasks_with("builds")


def test_every_task_goes_by_its_own_name():
    for name in registry.TASKS:
        assert registry.task_type(name).NAME == name
        assert registry.has_module(name, "commands") and registry.has_module(name, "show")
