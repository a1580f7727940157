"""Where compiled programs are kept."""

from pathlib import Path

import jax
import pytest

from hardem_jax.cli.devices import VARIABLE, enable_compilation_cache


@pytest.fixture(autouse=True)
def as_it_was():
    folder = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", folder)


@pytest.mark.parametrize(("given", "expected"), [("somewhere", Path("somewhere")), ("", None)])
def test_the_variable_decides(monkeypatch, given, expected):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(VARIABLE, given)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert enable_compilation_cache() == expected
    assert jax.config.jax_compilation_cache_dir == before  # JAX has read it itself


@pytest.mark.parametrize("backend", ["gpu", "tpu"])
def test_programs_of_accelerators_are_kept_in_the_cache_of_the_user(monkeypatch, backend):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert enable_compilation_cache() == Path("cache/hardem_jax/compiled")
    assert jax.config.jax_compilation_cache_dir == "cache/hardem_jax/compiled"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "home")
    assert enable_compilation_cache() == Path("home/.cache/hardem_jax/compiled")


def test_programs_of_a_cpu_are_not_kept(monkeypatch):
    monkeypatch.delenv(VARIABLE)
    before = jax.config.jax_compilation_cache_dir
    assert enable_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir == before
