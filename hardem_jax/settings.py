"""Configurations as JSON, in which runs and results keep the flags they were made with."""

from __future__ import annotations

import dataclasses
import numbers
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hardem_jax.buckets.names import shown
from hardem_jax.errors import InputError


def to_json(config: Any, keep: Callable[[dataclasses.Field], bool] = lambda _: True) -> Any:
    """A configuration as nested plain values; dataclasses by type and fields, tuples as lists,
    numbers of NumPy as Python's, functions by name.

    Example:
        >>> from hardem_jax.objectives import HardEM
        >>> to_json(HardEM(tau=8.0))
        {'type': 'HardEM', 'tau': 8.0, 'cap': 1.0, 'schedule': 'linear'}
    """
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        fields = filter(keep, dataclasses.fields(config))
        content = {field.name: to_json(getattr(config, field.name), keep) for field in fields}
        return {"type": type(config).__name__, **content}
    if isinstance(config, (tuple, list)):
        return [to_json(item, keep) for item in config]
    if isinstance(config, types.FunctionType):  # not by its address
        return f"{config.__module__}.{config.__qualname__}"
    if isinstance(config, numbers.Number):
        config = getattr(config, "item", lambda: config)()  # of NumPy
    return config if isinstance(config, (int, float, str, bool, type(None))) else shown(config)


def from_json(hint: Any, content: Any, place: str) -> Any:
    """The configuration that `to_json` has turned into plain values.

    Fields that the content lacks get their defaults, for an older version may have written it.

    Example:
        >>> from hardem_jax.objectives import HardEM, MML
        >>> from_json(HardEM | MML, {"type": "HardEM", "tau": 8.0}, "config.json")
        HardEM(tau=8.0, cap=1.0, schedule='linear')
    """
    kinds = _alternatives(hint)
    if isinstance(content, dict) and (classes := [k for k in kinds if dataclasses.is_dataclass(k)]):
        return _of_class(classes, content, place)
    for kind in kinds:
        if _fits(content, kind):
            return _value(kind, content, place)
    expected = f"expected {' | '.join(map(_name, kinds))}"
    found = "an object" if isinstance(content, dict) else repr(content)
    raise InputError(f"{place}: {expected}, found {found}")


def _of_class(classes: list[Any], content: Mapping[str, Any], place: str) -> Any:
    named = {kind.__name__: kind for kind in classes}
    name = content.get("type", classes[0].__name__ if len(classes) == 1 else None)
    if not isinstance(name, str) or name not in named:
        raise InputError(f"{place}: expected one of {', '.join(named)}, found {name!r}")
    kind, given = named[name], {key: value for key, value in content.items() if key != "type"}
    hints = get_type_hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}
    for key in given:
        if key not in known:
            raise InputError(
                f"{place}.{key}: expected a field of {name}, found one that this version does not "
                "know"
            )
    for key, field in known.items():
        if key not in given and field.default is field.default_factory:  # both are missing
            raise InputError(f"{place}.{key}: expected a value, found none")
    values = {key: from_json(hints[key], x, f"{place}.{key}") for key, x in given.items()}
    try:
        return kind(**values)
    except InputError as error:  # it names the field
        raise InputError(f"{place}.{error}") from error


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of a kind; lists stand for tuples, and strings for paths."""
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return any(type(value) is type(known) and value == known for known in get_args(kind))
    if get_origin(kind) is tuple:
        arguments = get_args(kind)
        return isinstance(value, list) and (arguments[-1] is ... or len(value) == len(arguments))
    if kind is float:
        return type(value) in (int, float)
    return type(value) is (str if kind is Path else kind)


def _value(kind: Any, value: Any, place: str) -> Any:
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        inner = inner[:1] * len(value) if inner[-1] is ... else inner
        pairs = enumerate(zip(inner, value, strict=True))
        return tuple(from_json(hint, item, f"{place}[{i}]") for i, (hint, item) in pairs)
    return kind(value) if kind in (Path, float) else value


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(map(repr, get_args(kind)))
    if kind is type(None):
        return "None"
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
