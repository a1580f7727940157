"""The settings of a run by dotted name, and which of them may change when it resumes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError

_MAY_CHANGE = "may change on resumption"
_MOST_SHOWN, _LONGEST = 12, 120


def may_change(because: str, **field: Any) -> Any:
    """A dataclass field that does not change what a run computes or chooses.

    Every other field belongs to the fingerprint, so that a new setting is compared on resumption
    unless someone says why it need not be.

    Args:
        because: the reason.
        **field: options of `dataclasses.field`.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Config:
        ...     rate: float = 0.1
        ...     progress: bool = may_change("only shown", default=True)
        >>> settings_of(Config(progress=False))
        {'rate': '0.1'}
    """
    return dataclasses.field(metadata={_MAY_CHANGE: because}, **field)


def settings_of(config: Any, name: str = "") -> dict[str, str]:
    """Every field of a dataclass as text, by dotted name; nested dataclasses add their type.

    Args:
        config: an instance of a dataclass; fields made by `may_change` are left out.
        name: dotted name of `config` itself, empty for the outermost.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class HardEM:
        ...     tau: float | None = None
        >>> @dataclasses.dataclass(frozen=True)
        ... class Config:
        ...     objective: HardEM
        ...     buckets: tuple[int, ...] = (64, 128)
        >>> settings_of(Config(HardEM(2.0)))
        {'objective': 'HardEM', 'objective.tau': '2.0', 'buckets': '[64, 128]'}
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return {name: config if isinstance(config, str) else json.dumps(config, default=_plain)}
    settings = {name: type(config).__name__} if name else {}
    for field in dataclasses.fields(config):
        if _MAY_CHANGE not in field.metadata:
            dotted = f"{name}.{field.name}" if name else field.name
            settings |= settings_of(getattr(config, field.name), dotted)
    return settings


def check_same(stored: Mapping[str, str], ours: Mapping[str, str], where: Path) -> None:
    """Compares the settings a run was started with to those it is to be resumed with.

    Raises:
        InputError: names every setting that differs, with both values.

    Example:
        >>> check_same({"seed": "1", "tau": "2"}, {"seed": "1", "tau": "3"}, Path("run"))
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: run: cannot resume with other settings (tau: 2 there, 3 \
here); use the same settings or another folder
    """
    there, here = _flat(stored), _flat(ours)
    differing = [
        f"{name}: {_shown(there.get(name))} there, {_shown(here.get(name))} here"
        for name in here | there
        if there.get(name) != here.get(name)
    ]
    if differing:
        more = f"; and {len(differing) - _MOST_SHOWN} more" if len(differing) > _MOST_SHOWN else ""
        raise InputError(
            f"{where}: cannot resume with other settings ({'; '.join(differing[:_MOST_SHOWN])}"
            f"{more}); use the same settings or another folder"
        )


def _flat(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings whose text is a JSON object, or a list of them, field by field."""

    def fields(name: str, value: Any) -> dict[str, str]:
        if isinstance(value, dict) and value:
            items = value.items()
        elif isinstance(value, list) and value and all(isinstance(x, dict) for x in value):
            items = enumerate(value)
        else:
            return {name: value if isinstance(value, str) else json.dumps(value)}
        return {k: v for key, x in items for k, v in fields(f"{name}.{key}", x).items()}

    flat = {}
    for name, text in settings.items():
        if text.startswith(("{", "[")):
            flat |= fields(name, _parsed(text))
        else:
            flat[name] = text
    return flat


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # text that only looks like JSON
        return text


def _shown(text: str | None) -> str:
    if text is None:
        return "absent"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return settings_of(value)
    return str(value)
