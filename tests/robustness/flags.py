"""Lists every command of the experiment modules and every numeric flag."""

import dataclasses
import importlib
import pkgutil
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import experiments
from experiments.benchmark.compiled import Compiled
from experiments.benchmark.correctness import Correctness
from experiments.benchmark.train_step import TrainStep
from experiments.download.__main__ import Download
from experiments.inspect.__main__ import Inspect
from experiments.paper.set_sizes import SetSizes
from experiments.quickstart.__main__ import Quickstart
from experiments.regimes.__main__ import Regimes
from experiments.reproduce.__main__ import Reproduce
from experiments.solution_sets import SolutionSets
from experiments.tabulate import Tabulate

_FILES = (file.name for file in pkgutil.iter_modules(experiments.__path__, "experiments."))
#: The modules with several commands, by name.
MODULES = [m for m in map(importlib.import_module, _FILES) if hasattr(m, "COMMANDS")]
COMMANDS = [
    *(command for module in MODULES for command in module.COMMANDS.values()),
    *(Correctness, Download, Inspect, Quickstart, Regimes, Reproduce, SetSizes),
    *(SolutionSets, Compiled, Tabulate, TrainStep),
]


@dataclasses.dataclass(frozen=True)
class Number:
    """A configuration field that holds numbers.

    Attributes:
        owner: a valid instance of the configuration or command it belongs to.
        name: name of the field.
        hint: its annotation, such as ``int | None`` or ``tuple[float, ...]``.
    """

    owner: Any
    name: str
    hint: Any

    def __str__(self) -> str:
        return f"{type(self.owner).__name__}.{self.name}"

    @property
    def kind(self) -> type:
        """int or float."""
        return float if "float" in str(self.hint) else int

    def set(self, value: float) -> Any:
        """Returns the owner with this value."""
        return dataclasses.replace(self.owner, **{self.name: _content(self.hint, value)})


def _content(hint: Any, value: float) -> Any:
    """Returns an object of the annotated type with every number set to this value."""
    if hint in (int, float):
        return value
    if hint is str:
        return "x"
    arguments = [a for a in typing.get_args(hint) if a not in (Ellipsis, type(None))]
    if typing.get_origin(hint) is tuple:
        return tuple(_content(argument, value) for argument in arguments)
    return _content(arguments[0], value)


def numbers() -> dict[str, Number]:
    """Returns all numeric fields by "Class.field", including those of nested configurations."""
    return {
        str(number): number for command in COMMANDS for number in _numbers(valid_instance(command))
    }


def valid_instance(kind: type) -> Any:
    """Returns an instance with default values, and placeholders for required fields."""
    hints = typing.get_type_hints(kind)
    required = {
        field.name: _placeholder(hints[field.name])
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return kind(**required)


def _placeholder(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return valid_instance(typing.cast(type, hint))
    if hint in (Path, str, int, float):
        return hint(1) if hint in (int, float) else hint("x")
    first = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        return first
    return (_placeholder(first),) if typing.get_origin(hint) is tuple else _placeholder(first)


def _numbers(owner: Any) -> Iterator[Number]:
    hints = typing.get_type_hints(type(owner))
    for field in dataclasses.fields(owner):
        options = [hints[field.name]]
        while options:
            hint = options.pop()
            if dataclasses.is_dataclass(hint):
                value = getattr(owner, field.name)
                known = type(value) is hint
                yield from _numbers(value if known else valid_instance(typing.cast(type, hint)))
            elif hint in (int, float):
                yield Number(owner, field.name, hints[field.name])
            else:
                options += typing.get_args(hint)
