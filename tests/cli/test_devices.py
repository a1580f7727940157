"""What commands compute on."""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from hardem_jax.cli.command import parse
from hardem_jax.cli.train import VARIABLE, OnDevices, _commit, enable_compilation_cache, made_by
from hardem_jax.errors import InputError
from hardem_jax.training.devices.mesh import (
    data_mesh,
    make_place_fn,
    round_up_to_devices,
    with_shardings,
)
from tests.commands import refused

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command(OnDevices):
    """Computes nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meshed(Command):
    """Uses its devices."""

    def run(self):
        self.mesh()


def test_flags_make_the_mesh(capsys):
    command = parse(Command, prog="test", argv=["--num-devices", "4", "--fsdp", "2"])
    assert dict(command.mesh().shape) == {"data": 2, "fsdp": 2}
    assert dict(Command().mesh().shape) == {"data": 8, "fsdp": 1}
    with pytest.raises(InputError, match="fsdp: expected a divisor of the 4 devices, found 3"):
        dataclasses.replace(command, fsdp=3).mesh()
    said = refused(capsys, Command, "--distributed", "perhaps")
    assert "invalid choice 'perhaps' for argument '--distributed'" in said


@pytest.mark.parametrize("platform", ["cuda", "abacus"])
def test_a_platform_that_is_not_there_is_one_line(platform):
    if platform == "cuda" and jax.devices()[0].platform == "gpu":
        pytest.skip("this machine has it")
    code = "from hardem_jax.cli.command import run_command; from tests.cli.test_devices import *"
    code += "; run_command(Meshed, prog='test', argv=[])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"JAX_PLATFORMS": platform, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    line = f"error: JAX_PLATFORMS={platform}: expected a platform that JAX can use here, found "
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1


def test_batches_to_evaluate_on_are_filled_up_and_split():
    mesh = data_mesh(3)
    assert [round_up_to_devices(rows, mesh) for rows in (1, 3, 32)] == [3, 3, 33]
    assert round_up_to_devices(32, None) == 32
    batch = {"x": np.arange(6)}
    assert len(make_place_fn(mesh)(batch)["x"].addressable_shards) == 3
    assert make_place_fn(None)(batch) is batch


def test_parameters_are_loaded_to_where_they_are_used():
    shapes = {"kernel": jax.ShapeDtypeStruct((256, 128), np.float32)}
    assert with_shardings(shapes, None) is shapes
    placed = with_shardings(shapes, data_mesh(4, fsdp=2))["kernel"]
    assert placed.shape == (256, 128) and tuple(placed.sharding.spec) == ("fsdp",)


def test_a_run_says_what_made_it():
    made = made_by(3)
    json.dumps(made)
    assert made["devices"] == f"3 x {jax.devices()[0].device_kind}"
    assert made["packages"]["jax"] == jax.__version__
    assert shlex.split(made["command"])[0] == sys.orig_argv[0]


def git(folder, *words):
    name = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode().strip()


def test_the_commit_is_that_of_this_project_only(tmp_path):
    package = tmp_path / "venv" / "package"
    package.mkdir(parents=True)
    assert _commit(package) is None  # no repository
    git(tmp_path, "init", "-q")
    (tmp_path / "own.txt").write_text("")
    git(tmp_path, "add", "own.txt")
    git(tmp_path, "commit", "-qm", "own")
    (package / "__init__.py").write_text("")
    assert _commit(package) is None  # installed inside of another repository
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "package")
    assert _commit(package) == git(tmp_path, "rev-parse", "HEAD")
    (package / "__init__.py").write_text("changed")
    assert _commit(package) == git(tmp_path, "rev-parse", "HEAD") + "+"


@pytest.fixture
def cache_as_it_was():
    folder = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", folder)


@pytest.mark.parametrize(("given", "expected"), [("somewhere", Path("somewhere")), ("", None)])
def test_the_variable_decides(cache_as_it_was, monkeypatch, given, expected):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(VARIABLE, given)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert enable_compilation_cache() == expected
    assert jax.config.jax_compilation_cache_dir == before  # JAX has read it itself


@pytest.mark.parametrize("backend", ["gpu", "tpu"])
def test_programs_of_accelerators_are_kept_in_the_cache_of_the_user(
    cache_as_it_was, monkeypatch, backend
):
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert enable_compilation_cache() == Path("cache/hardem_jax/compiled")
    assert jax.config.jax_compilation_cache_dir == "cache/hardem_jax/compiled"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "home")
    assert enable_compilation_cache() == Path("home/.cache/hardem_jax/compiled")


def test_programs_of_a_cpu_are_not_kept(cache_as_it_was, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    before = jax.config.jax_compilation_cache_dir
    assert enable_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir == before
