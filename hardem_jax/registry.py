"""The tasks, a line each, and their modules by name.

A task is a package whose modules are called alike. With its line here it has train, compare,
evaluate, predict, inspect, build and benchmark; what it lacks (no ``builds.py``, say), it does not
have. A package of your own names its tasks by entry points of the group "hardem_jax.tasks", or adds
a line to `TASKS`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from hardem_jax.errors import InputError

#: Name of a task, as runs record it -> its package.
TASKS = {
    "spans": "hardem_jax.spans",
    "taggings": "hardem_jax.span_sets",
    "equations": "hardem_jax.equations",
    "queries": "hardem_jax.queries",
    "programs": "hardem_jax.programs",
}


def tasks() -> dict[str, str]:
    """All tasks with their packages: those of `TASKS` and of other packages that are installed."""
    return {**_installed(), **TASKS}


def check_task(task: Any, where: object) -> str:
    """The name of a task; raises InputError, which says what to do, if there is none of it."""
    if not isinstance(task, str) or task not in tasks():
        raise InputError(
            f"{where}: expected a task that is there ({', '.join(tasks())}), found {task!r}; "
            "install its package, or name it in hardem_jax.registry.TASKS"
        )
    return task


def task_module(task: str, name: str) -> ModuleType:
    """A module of a task, or of a room that tasks share, such as "documents".

    Example:
        >>> task_module("queries", "solutions").__name__
        'hardem_jax.queries.solutions'
    """
    return importlib.import_module(f"{_package(task)}.{name}")


def task_type(task: str) -> Any:
    """The `hardem_jax.task.base.Task` of this name: the ``TASK`` of its module ``task``."""
    return task_module(task, "task").TASK


def has_module(task: str, name: str) -> bool:
    """Whether a task has a module of this name.

    Example:
        >>> has_module("queries", "search"), has_module("spans", "search")
        (True, False)
    """
    return importlib.util.find_spec(f"{_package(task)}.{name}") is not None


def tasks_with(name: str) -> list[str]:
    """The tasks that have a module of this name.

    Example:
        >>> tasks_with("builds")
        ['spans', 'equations', 'queries', 'programs']
    """
    return [task for task in tasks() if has_module(task, name)]


def _package(task: str) -> str:
    return tasks().get(task, f"hardem_jax.{task}")


@functools.cache
def _installed() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group="hardem_jax.tasks")}
