"""What commands compute on."""

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from hardem_jax.cli.command import parse
from hardem_jax.cli.train import VARIABLE, OnDevices, _commit, enable_compilation_cache, made_by
from tests.commands import refused
from tests.processes import python


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
    said = refused(capsys, Command, "--distributed", "perhaps")
    assert "invalid choice 'perhaps' for argument '--distributed'" in said


@pytest.mark.parametrize("platform", ["cuda", "abacus"])
def test_a_platform_that_is_not_there_is_one_line(platform):
    if platform == "cuda" and jax.devices()[0].platform == "gpu":
        pytest.skip("this machine has it")
    code = "from hardem_jax.cli.command import run_command; from tests.cli.test_devices import *"
    code += "; run_command(Meshed, prog='test', argv=[])"
    done = python("-c", code, code=2, JAX_PLATFORMS=platform)
    line = f"error: JAX_PLATFORMS={platform}: expected a platform that JAX can use here, found "
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1


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


@pytest.mark.parametrize(
    ("variables", "backend", "expected"),
    [
        ({VARIABLE: "somewhere"}, "gpu", "somewhere"),
        ({VARIABLE: ""}, "gpu", None),
        ({"XDG_CACHE_HOME": "cache"}, "tpu", "cache/hardem_jax/compiled"),
        ({"XDG_CACHE_HOME": "", "HOME": "home"}, "gpu", "home/.cache/hardem_jax/compiled"),
        ({}, "cpu", None),
    ],
)
def test_compiled_programs_are_kept(cache_as_it_was, monkeypatch, variables, backend, expected):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.delenv(VARIABLE)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert enable_compilation_cache() == (expected and Path(expected))
    # JAX has read its own variable itself.
    ours = bool(expected) and VARIABLE not in variables
    assert jax.config.jax_compilation_cache_dir == (expected if ours else before)
