"""Run settings as dotted names, compared when a run resumes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError

_MAY_CHANGE = "may change on resumption"
_MOST_SHOWN, _LONGEST = 12, 120
# The digest of the contents says whether data are the same, in whichever format they are stored.
_OF_ONE_SEED = re.compile(r"loop\.seed|contents of (init_from\.content|.*\.format)")


def may_change(because: str, **field: Any) -> Any:
    """Declares a dataclass field that may change on resumption.

    Such a field must not affect what the run computes. All other fields belong to the
    fingerprint, so new settings are compared by default.

    Args:
        because: the reason.
        **field: passed to `dataclasses.field`.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Config:
        ...     rate: float = 0.1
        ...     progress: bool = may_change("only shown", default=True)
        >>> named_settings(Config(progress=False))
        {'rate': '0.1'}
    """
    return dataclasses.field(metadata={_MAY_CHANGE: because}, **field)


def named_settings(config: Any, name: str = "") -> dict[str, str]:
    """Returns the fields of a dataclass as text by dotted name, with the type of nested ones.

    Args:
        config: an instance of a dataclass; fields made by `may_change` are skipped.
        name: dotted name of `config` itself; empty for the outermost.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class HardEM:
        ...     tau: float | None = None
        >>> @dataclasses.dataclass(frozen=True)
        ... class Config:
        ...     objective: HardEM
        ...     buckets: tuple[int, ...] = (64, 128)
        >>> named_settings(Config(HardEM(2.0)))
        {'objective': 'HardEM', 'objective.tau': '2.0', 'buckets': '[64, 128]'}
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return {name: config if isinstance(config, str) else json.dumps(config, default=_plain)}
    settings = {name: type(config).__name__} if name else {}
    for field in dataclasses.fields(config):
        if _MAY_CHANGE not in field.metadata:
            dotted = f"{name}.{field.name}" if name else field.name
            settings |= named_settings(getattr(config, field.name), dotted)
    return settings


def check_same(stored: Mapping[str, str], ours: Mapping[str, str], where: Path) -> None:
    """Checks that a run is resumed with the settings it was started with, as `flatten` has them.

    Raises:
        InputError: names every setting that differs, with both values.

    Example:
        >>> check_same({"seed": "1", "tau": "2"}, {"seed": "1", "tau": "3"}, Path("run"))
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: run: cannot resume with different settings (tau: 2 \
originally, 3 now); use the same settings or another folder
    """
    before, now = flatten(stored), flatten(ours)
    differing = [
        f"{name}: {_shown(before.get(name))} originally, {_shown(now.get(name))} now"
        for name in now | before
        if before.get(name) != now.get(name)
    ]
    if differing:
        more = f"; and {len(differing) - _MOST_SHOWN} more" if len(differing) > _MOST_SHOWN else ""
        raise InputError(
            f"{where}: cannot resume with different settings ({'; '.join(differing[:_MOST_SHOWN])}"
            f"{more}); use the same settings or another folder"
        )


def flatten(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as they are compared.

    Those whose text is a JSON object, or a list of objects, are split into their fields. A whole
    number is written without a point: a flag reads as 2.0 what a default or Python may have as 2.

    Example:
        >>> flatten({"tau": "2.0", "rates": '[["a", 0.0]]', "rules": '{"cap": 8, "numbers": "x"}'})
        {'tau': '2', 'rates': '[["a", 0]]', 'rules.cap': '8', 'rules.numbers': 'x'}
    """

    def fields(name: str, value: Any) -> dict[str, str]:
        if isinstance(value, dict) and value:
            items = value.items()
        elif isinstance(value, list) and value and all(isinstance(x, dict) for x in value):
            items = enumerate(value)
        else:
            return {name: value if isinstance(value, str) else json.dumps(_whole(value))}
        return {k: v for key, x in items for k, v in fields(f"{name}.{key}", x).items()}

    flat = {}
    for name, text in settings.items():
        if text.startswith(("{", "[")):
            flat |= fields(name, _parsed(text))
        else:
            flat[name] = text
    return {name: re.sub(r"^(-?\d+)\.0$", r"\1", text) for name, text in flat.items()}


def without_seed(settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings, as `flatten` has them, that runs share which differ only in their seed.

    Leaves out the format in which data are stored, and the digest of initial parameters.

    Example:
        >>> without_seed({"loop.seed": "1", "contents of data": '{"format": "a", "run": "b"}'})
        {'contents of data.run': 'b'}
    """
    return {k: v for k, v in flatten(settings).items() if not _OF_ONE_SEED.fullmatch(k)}


def digest_without_seed(settings: Mapping[str, str]) -> str:
    """Identifies a run's settings but for its seed, on every machine.

    Example:
        >>> a, b = {"loop.seed": "0", "model.encoder": '"/a/bert"'}, {"model.encoder": '"/b/bert"'}
        >>> digest_without_seed(a) == digest_without_seed(b) != digest_without_seed({})
        True
    """
    content = json.dumps(without_seed(portable(settings)), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def portable(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings without the folders of a machine.

    Example:
        >>> portable({"model.encoder": '"/models/ada/bert"'})
        {'model.encoder': '"bert"'}
    """
    found = {}
    for name, text in settings.items():
        path = text.strip('"')  # a flag that is a path is in quotes
        found[name] = text.replace(path, Path(path).name) if os.path.isabs(path) else text
    return found


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
        return named_settings(value)
    return str(value)
