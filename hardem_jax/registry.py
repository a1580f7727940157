"""The tasks, a line each, and their modules by name.

A task is a package whose modules are called alike. With its line here it has train, compare,
evaluate, predict, inspect, build and benchmark; what it lacks (no ``builds.py``, say), it does not
have.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

#: Name of a task, as runs record it -> its package.
TASKS = {
    "spans": "hardem_jax.spans",
    "taggings": "hardem_jax.span_sets",
    "equations": "hardem_jax.equations",
    "queries": "hardem_jax.queries",
    "programs": "hardem_jax.programs",
}


def task_module(task: str, name: str) -> ModuleType:
    """A module of a task, or of a room that tasks share, such as "documents".

    Example:
        >>> task_module("queries", "solutions").__name__
        'hardem_jax.queries.solutions'
    """
    return importlib.import_module(f"{TASKS.get(task, f'hardem_jax.{task}')}.{name}")


def tasks_with(name: str) -> list[str]:
    """The tasks that have a module of this name.

    Example:
        >>> tasks_with("builds")
        ['spans', 'equations', 'queries', 'programs']
    """
    return [
        task
        for task, package in TASKS.items()
        if importlib.util.find_spec(f"{package}.{name}") is not None
    ]
