"""Help and mistyped flags wait for no library that only the work itself needs.

Seconds would measure the machine; what is loaded before a command line is parsed is what costs
them, and it is the same everywhere.
"""

from __future__ import annotations

import ast
import json

import pytest

from tests.processes import ROOT, python

# Each takes at least a third of a second to import, alone or by what it imports.
HEAVY = {
    *("apache_beam", "bm25s", "flax", "grain", "jax", "jaxlib", "matplotlib", "optax", "orbax"),
    *("pandas", "scipy", "sklearn", "tensorboardX", "tensorflow", "tensorflow_datasets", "torch"),
    *("transformers",),
}
TYPO = "--no-such-flag"

# Runs command lines of JSON lines in one process, as `python -m` does, and reports each: exit code,
# stderr, and which packages are loaded by then. What one of them loads stays, so that nothing is
# loaded by any of them if nothing is in the end.
RUNNER = """
import contextlib, io, json, runpy, sys, warnings

# A module that was imported before it runs as `__main__`.
warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
heavy = set(json.loads(sys.argv[1]))

def run(module, *arguments):
    sys.argv[1:] = arguments
    said, code = io.StringIO(), None
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            if module == "hardem":
                from hardem_jax.cli.main import main
                main()
                raise SystemExit
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as stop:
            code = stop.code or 0
    loaded = sorted(heavy & set(sys.modules))
    line = [module, *arguments]
    print(json.dumps({"line": line, "code": code, "said": said.getvalue(), "loaded": loaded}))

for module in json.loads(sys.argv[2]):
    run(module, "--help")
    run(module, "--no-such-flag")
    imported = sys.modules.get(module) or __import__(module, fromlist=["COMMANDS"])
    for command in getattr(imported, "COMMANDS", ()):
        run(module, command, "--help")
        run(module, command, "--no-such-flag")

from hardem_jax import registry

run("hardem", "--help")
for task in registry.tasks():
    for command in registry.task_module(task, "commands").COMMANDS:
        run("hardem", task, command, "--help")
"""


def is_main_test(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def runnable_modules() -> list[str]:
    """All modules of `experiments` that do something under ``python -m``."""
    found = []
    for path in sorted((ROOT / "experiments").rglob("*.py")):
        if any(map(is_main_test, ast.parse(path.read_text(encoding="utf-8")).body)):
            found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


@pytest.fixture(scope="module")
def runs() -> list[dict]:
    run = python("-c", RUNNER, json.dumps(sorted(HEAVY)), json.dumps(runnable_modules()))
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_every_command_is_tried(runs):
    lines = {" ".join(run["line"]) for run in runs}
    assert {f"{module} --help" for module in runnable_modules()} <= lines
    assert {
        "experiments.triviaqa train --help",
        f"experiments.wikisql prepare {TYPO}",
        "experiments.build build --help",
        "experiments.retrieve index --help",
        f"experiments.benchmark.compiled {TYPO}",
        "experiments.quickstart.__main__ --help",
        "hardem --help",
        "hardem spans predict --help",
    } <= lines
    assert len(lines) > 100


def test_no_command_loads_what_only_its_work_needs(runs):
    loaded: set[str] = set()
    culprits = {}
    for run in runs:
        if new := set(run["loaded"]) - loaded:
            culprits[" ".join(run["line"])] = sorted(new)
            loaded |= new
    assert culprits == {}


def test_help_ends_with_0_and_a_typo_with_2(runs):
    for run in runs:
        if run["line"][-1] == TYPO:
            assert run["code"] == 2 and "For full helptext" in run["said"], run
        else:
            assert (run["code"], run["said"]) == (0, ""), run
