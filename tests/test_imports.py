"""Imports point one way; `import hardem_jax` brings in nothing, and its names little but jax."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hardem_jax

ROOT = Path(__file__).resolve().parents[1]

# A room may import rooms of lower layers and itself, never another room of its own layer.
# The objectives are several files but one room.
OBJECTIVES = "hardem_jax (objectives)"
LAYER_OF = {
    OBJECTIVES: 0,
    "hardem_jax.distributions": 1,
    "hardem_jax.solutions": 1,
    "hardem_jax.models": 2,
    "hardem_jax.data": 2,
    "hardem_jax.metrics": 2,
    "hardem_jax.retrieval": 3,
    "hardem_jax.tasks": 4,
    "hardem_jax.training": 4,
    "hardem_jax.analysis": 5,
    "experiments": 6,
}
OBJECTIVE_FILES = {
    "hardem_jax",  # hardem_jax/__init__.py, which re-exports the objectives
    "hardem_jax.losses",
    "hardem_jax.objectives",
    "hardem_jax.lazy",
    "hardem_jax.masked",
    "hardem_jax.posteriors",
}
ERRORS = "hardem_jax.errors"
# On the ground floor: any room may import them.
GROUND = {
    ERRORS,
    *(f"hardem_jax.{name}" for name in ("checksums", "extras", "hub", "locks")),
}

# Project and outside imports beyond the layers: DESIGN keeps these parts usable on their own.
ONLY_FROM_PROJECT = {
    "hardem_jax.masked": set(),
    "hardem_jax.losses": {"hardem_jax.masked"},
    "hardem_jax.lazy": set(),
    "hardem_jax.errors": set(),
    "hardem_jax.extras": set(),
    "hardem_jax.checksums": {ERRORS},
    "hardem_jax.hub": {ERRORS},
    "hardem_jax.locks": {ERRORS},
    "hardem_jax.solutions": {"hardem_jax.solutions", ERRORS},
}
ONLY_FROM_OUTSIDE = {
    "hardem_jax.losses": {"jax"},
    "hardem_jax.objectives": {"jax"},
    "hardem_jax.posteriors": {"jax"},
    "hardem_jax.masked": {"jax"},
    "hardem_jax.errors": set(),
    "hardem_jax.extras": set(),
    "hardem_jax.checksums": set(),
    "hardem_jax.locks": set(),
    "hardem_jax.solutions": {"numpy"},
    "hardem_jax.distributions": {"jax", "numpy"},
}

HEAVY = {"flax", "grain", "optax", "orbax", "tensorflow_datasets", "torch", "transformers"}
IMPORT_SECONDS = 0.1


@functools.cache
def project_sources() -> dict[str, str]:
    """Module name -> source, of every module of the project; a package's own is `x.__init__`."""
    sources = {}
    for folder in ("hardem_jax", "experiments"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            sources[name] = path.read_text(encoding="utf-8")
    return sources


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def room_of(module: str) -> str | None:
    if module.removesuffix(".__init__") in OBJECTIVE_FILES:
        return OBJECTIVES
    return next((room for room in LAYER_OF if inside(module, room)), None)


def imports_of(module: str, sources: dict[str, str]) -> set[str]:
    """Modules a module imports anywhere in its text, inside functions and type checks too."""
    found = set()
    for node in ast.walk(ast.parse(sources[module])):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: -node.level]
                base = ".".join([*above, base] if base else above)
            # `from package import name` imports a module if there is one of that name.
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in sources or f"{full}.__init__" in sources else base)
    return found


def violations(sources: dict[str, str]) -> list[str]:
    """Every import that breaks a rule above, as one line."""
    broken = []
    for module in sources:
        imported = imports_of(module, sources)
        ours = {name for name in imported if name.startswith(("hardem_jax", "experiments"))}
        outside = {name.partition(".")[0] for name in imported - ours}
        outside -= set(sys.stdlib_module_names)
        for name in sorted(ours - GROUND):
            if module not in GROUND and not may_import(module, name):
                broken.append(f"{module} imports {name}, which is not below it")
        for part, allowed in ONLY_FROM_PROJECT.items():
            if inside(module, part):
                stray = {name for name in ours if not any(inside(name, a) for a in allowed)}
                broken += [f"{module} imports {name}" for name in sorted(stray)]
        for part, allowed in ONLY_FROM_OUTSIDE.items():
            if inside(module, part):
                broken += [f"{module} imports {name}" for name in sorted(outside - allowed)]
    return broken


def may_import(module: str, name: str) -> bool:
    importer, imported = room_of(module), room_of(name)
    if importer is None or imported is None:  # a file in no room: name its layer above
        return False
    return importer == imported or LAYER_OF[imported] < LAYER_OF[importer]


def test_imports_point_one_way():
    assert violations(project_sources()) == []


@pytest.mark.parametrize(
    ("module", "source", "culprit"),
    [
        ("hardem_jax.losses", "from hardem_jax.posteriors import soft", "hardem_jax.posteriors"),
        ("hardem_jax.losses", "import optax", "optax"),
        ("hardem_jax.errors", "import hardem_jax.losses", "hardem_jax.losses"),
        ("hardem_jax.solutions.spans", "def f():\n    import jax.numpy as jnp", "jax"),
        ("hardem_jax.solutions.spans", "from hardem_jax import hard_em_loss", "hardem_jax"),
        ("hardem_jax.distributions.span", "from flax import nnx", "flax"),
        ("hardem_jax.distributions.span", "from ..models import bert", "hardem_jax.models"),
        (
            "hardem_jax.models.encoders.bert",
            "from hardem_jax.data import examples",
            "hardem_jax.data",
        ),
        ("hardem_jax.training.loop", "from hardem_jax import tasks", "hardem_jax.tasks"),
        ("hardem_jax.tasks.__init__", "from ..training import step", "hardem_jax.training"),
        ("hardem_jax.tasks.span_qa", "import experiments.triviaqa", "experiments.triviaqa"),
        ("hardem_jax.helpers", "import hardem_jax.losses", "hardem_jax.losses"),
    ],
)
def test_a_wrong_import_is_found(module, source, culprit):
    packages = ("hardem_jax", "hardem_jax.models", "hardem_jax.tasks", "hardem_jax.training")
    found = violations({f"{package}.__init__": "" for package in packages} | {module: source})
    assert found
    assert all(re.match(rf"{re.escape(module)} imports {re.escape(culprit)}\b", f) for f in found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hardem_jax.losses", "import dataclasses, jax.numpy"),
        ("hardem_jax.solutions.spans", "import numpy\nfrom hardem_jax.errors import InputError"),
        ("hardem_jax.solutions.spans", "from . import text"),
        ("hardem_jax.tasks.span_qa", "from hardem_jax import HardEM\nfrom ..models import bert"),
        ("experiments.triviaqa", "from hardem_jax.analysis import figures\nimport experiments.cli"),
    ],
)
def test_a_right_import_is_not(module, source):
    assert violations({"hardem_jax.__init__": "", module: source}) == []


def import_times(statement: str) -> dict[str, int]:
    """Microseconds each module took by itself while a fresh interpreter ran a statement."""
    command = [sys.executable, "-X", "importtime", "-c", statement]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", run.stderr, re.MULTILINE)
    return {name: int(own) for own, name in rows}


def modules_loaded_by(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys; {statement}; print(*sys.modules)"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_is_light():
    loaded = modules_loaded_by("import hardem_jax")
    assert "hardem_jax" in loaded and "jax" not in loaded
    loaded = modules_loaded_by("import hardem_jax; hardem_jax.hard_em_loss, hardem_jax.HardEM")
    assert {"hardem_jax.losses", "jax"} <= loaded
    assert not {name.partition(".")[0] for name in loaded} & HEAVY
    assert {name for name in loaded if inside(name, "hardem_jax")} <= OBJECTIVE_FILES | {ERRORS}


@pytest.mark.parametrize("name", hardem_jax.__all__)
def test_a_name_of_the_package_is_that_of_its_module(name):
    value = getattr(hardem_jax, name)
    assert value.__name__ == name and value is getattr(sys.modules[value.__module__], name)
    assert name in dir(hardem_jax)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="hardem_jax.*'hard_em'"):
        hardem_jax.hard_em  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'hard_em'"):
        exec("from hardem_jax import hard_em")


def test_import_takes_little_longer_than_jax():
    # What jax loads on its own account is free. Times by themselves, of the best of three runs,
    # because a busy machine slows some runs down as a whole.
    of_jax = set(import_times("import jax"))
    statement = "import hardem_jax.losses, hardem_jax.objectives"
    seconds = [
        sum(own for name, own in import_times(statement).items() if name not in of_jax) / 1e6
        for _ in range(3)
    ]
    assert 0 < min(seconds) < IMPORT_SECONDS
