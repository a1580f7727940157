"""Imports point one way; `import hardem_jax` brings in nothing, and its names little but jax."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys

import pytest

import hardem_jax
from hardem_jax.registry import TASKS
from tests.processes import ROOT, modules_loaded_by, python

ARCHITECTURE = ROOT / "docs" / "architecture.md"
EXPERIMENTS = "experiments"
# The names that are light to import: with all of them, little more than jax is loaded.
OBJECTIVE_MODULES = ("loss_variants", "losses", "masked", "objectives", "posteriors")
OBJECTIVE_FILES = {
    "hardem_jax",  # hardem_jax/__init__.py, which re-exports the objectives
    *(f"hardem_jax.{name}" for name in OBJECTIVE_MODULES),
}
GROUND_FILES = {"hardem_jax.errors", "hardem_jax.version"}
# Outside packages of the parts that are usable on their own.
ONLY_FROM_OUTSIDE = {
    **{
        f"hardem_jax.{name}": {"jax"}
        for name in ("losses", "loss_variants", "sampled", "objectives", "masked")
    },
    "hardem_jax.posteriors": {"jax", "optax"},  # optax for one of them, when it is called
    **{f"hardem_jax.{name}": set() for name in ("errors", "settings", "checksums", "registry")},
    **{f"hardem_jax.{name}": {"numpy"} for name in ("words", "documents.mentions")},
    "hardem_jax.locks": {"filelock"},
    **{
        f"hardem_jax.{task}.solutions": {"numpy"}
        for task in ("spans", "span_sets", "equations", "queries", "programs")
    },
    **{
        f"hardem_jax.{task}.distribution": {"jax", "numpy"}
        for task in ("spans", "span_sets", "equations", "queries", "programs")
    },
}

HEAVY = {"flax", "grain", "optax", "orbax", "tensorflow_datasets", "torch", "transformers"}


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


def table() -> dict[str, set[str]]:
    """Room -> rooms that it may import, by the table of docs/architecture.md, in its order."""
    text = ARCHITECTURE.read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]
    rooms: dict[str, set[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or not cells[0].startswith("`"):
            continue
        allowed = set() if cells[2] == "nothing" else set(re.findall(r"`([^`]+)`", cells[2]))
        rooms |= {name.rstrip("/"): allowed for name in re.findall(r"`([^`]+)`", cells[0])}
    return rooms


ROOMS = table()
GROUND = {name for name in list(ROOMS)[: list(ROOMS).index("masked")]}


def room_of(module: str) -> str | None:
    """The room of a module of hardem_jax: `spans`, `losses`; None if it has none."""
    path = module.removesuffix(".__init__").split(".")[1:] or ["__init__"]
    for name in ("/".join(path[:2]), path[0]):
        if name in ROOMS:
            return name
    return None


@functools.cache
def import_statements(source: str) -> list[ast.Import | ast.ImportFrom]:
    nodes = ast.walk(ast.parse(source))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


def imports_of(module: str, sources: dict[str, str]) -> set[str]:
    """Modules a module imports anywhere in its text, inside functions and type checks too."""
    found = set()
    for node in import_statements(sources[module]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
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
        ours = {name for name in imported if name.startswith(("hardem_jax", EXPERIMENTS))}
        outside = {name.partition(".")[0] for name in imported - ours}
        outside -= set(sys.stdlib_module_names)
        for name in sorted(ours):
            if not may_import(module, name):
                broken.append(f"{module} imports {name}, which its room may not")
        for part, allowed in ONLY_FROM_OUTSIDE.items():
            if inside(module, part):
                broken += [f"{module} imports {name}" for name in sorted(outside - allowed)]
    return broken


def may_import(module: str, name: str) -> bool:
    if inside(module, EXPERIMENTS):
        return True
    importer, imported = room_of(module), room_of(name)
    if inside(name, EXPERIMENTS) or importer is None or imported is None:
        return False
    return importer == imported or imported in (below(importer) | GROUND)


def below(room: str) -> set[str]:
    """The rooms that a room may import: those of its row, and what these may import."""
    return ROOMS[room].union(*(below(name) for name in ROOMS[room]))


def test_a_room_imports_rooms_above_it_in_the_table_only():
    above: set[str] = set()
    for room, allowed in ROOMS.items():
        assert allowed <= above, f"{room}: {allowed - above}"
        above.add(room)
    assert len(ROOMS) > 20 and "losses" not in GROUND


def test_the_table_lists_no_import_that_nobody_needs():
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    sources = project_sources()
    for module in sources:
        room = None if inside(module, EXPERIMENTS) else room_of(module)
        if room is not None:
            ours = (name for name in imports_of(module, sources) if inside(name, "hardem_jax"))
            used[room] |= {room_of(name) or "" for name in ours}
    for room, allowed in ROOMS.items():
        assert allowed <= used[room], room
        implied = set().union(*(below(name) for name in allowed))
        assert not allowed & implied, f"{room}: implied by others {allowed & implied}"


def test_no_task_imports_another_and_no_shared_room_a_task():
    tasks = {package.rpartition(".")[2] for package in TASKS.values()} - {"sentences"}
    assert tasks == {"spans", "span_sets", "equations", "queries", "programs"}
    for room in ROOMS:
        assert room == "__init__" or not below(room) & tasks, room


def test_no_files_import_each_other_in_a_circle():
    assert circle(project_sources()) == []


def circle(sources: dict[str, str]) -> list[str]:
    """Modules of one circle of imports; none if there is none."""
    file_of = {name.removesuffix(".__init__"): name for name in sources}
    graph = {
        module: {file_of[name] for name in imports_of(module, sources) if name in file_of}
        - {module}
        for module in sources
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_every_import_is_in_the_table():
    assert violations(project_sources()) == []


@pytest.mark.parametrize(
    ("module", "source", "culprit"),
    [
        ("hardem_jax.losses", "from hardem_jax.posteriors import soft", "hardem_jax.posteriors"),
        ("hardem_jax.losses", "import optax", "optax"),
        ("hardem_jax.errors", "import hardem_jax.losses", "hardem_jax.losses"),
        ("hardem_jax.documents.mentions", "def f():\n    import jax.numpy as jnp", "jax"),
        ("hardem_jax.spans.distribution", "from flax import nnx", "flax"),
        ("hardem_jax.spans.distribution", "from ..queries import model", "hardem_jax.queries"),
        ("hardem_jax.training.loop", "from hardem_jax import task", "hardem_jax.task"),
        ("hardem_jax.task.__init__", "from ..cli import train", "hardem_jax.cli"),
        ("hardem_jax.task.base", "import experiments.triviaqa", "experiments.triviaqa"),
        ("hardem_jax.helpers", "import hardem_jax.losses", "hardem_jax.losses"),
    ],
)
def test_a_wrong_import_is_found(module, source, culprit):
    packages = ("hardem_jax", "hardem_jax.cli", "hardem_jax.queries", "hardem_jax.task")
    found = violations({f"{package}.__init__": "" for package in packages} | {module: source})
    assert found
    assert all(re.match(rf"{re.escape(module)} imports {re.escape(culprit)}\b", f) for f in found)


def test_import_is_light():
    loaded = modules_loaded_by("import hardem_jax")
    assert "hardem_jax" in loaded and "jax" not in loaded
    loaded = modules_loaded_by("import hardem_jax; hardem_jax.hard_em_loss, hardem_jax.HardEM")
    assert {"hardem_jax.losses", "jax"} <= loaded
    assert not {name.partition(".")[0] for name in loaded} & HEAVY
    assert {name for name in loaded if inside(name, "hardem_jax")} <= OBJECTIVE_FILES | GROUND_FILES


@pytest.mark.parametrize("name", hardem_jax.__all__)
def test_a_name_of_the_package_is_that_of_its_module(name):
    value = getattr(hardem_jax, name)
    assert value.__name__ == name and value is getattr(sys.modules[value.__module__], name)
    assert name in dir(hardem_jax)


def test_type_checkers_see_a_use_of_every_name():
    file = ROOT / "tests" / "typing" / "public_api.py"
    used = {node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)}
    assert {*hardem_jax.__all__} <= used
    python(file)


def test_other_names_are_unknown():
    with pytest.raises(AttributeError, match="hardem_jax.*'hard_em'"):
        hardem_jax.hard_em  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'hard_em'"):
        exec("from hardem_jax import hard_em")
