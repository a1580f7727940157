"""What a run folder says about itself: ``config.json`` and the checksums of its files."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from hardem_jax.checksums import has_checksums, verify_checksums
from hardem_jax.data.json_fields import json_type
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError, similar_path
from hardem_jax.models.config import Remat

T = TypeVar("T")

# What version 0.1 stored instead of "task" and "model", by the name of the task.
_VERSION_0_1 = {"windows": "spans", "equation_model": "equations", "parser": "queries"}


def check_run(run_dir: Path) -> None:
    """Checks that a folder holds a run whose configuration and vocabulary are intact.

    Raises:
        InputError: names what is missing or damaged.
    """
    if not os.path.isfile(run_dir / "config.json"):
        found = f"no config.json in it{similar_path(run_dir)}"
        raise InputError(f"{run_dir}: expected the folder of a run, found {found}")
    if has_checksums(run_dir):  # runs of version 0.1.0 have none
        verify_checksums(run_dir)


class RunConfig:
    """``config.json`` of a run.

    Args:
        folder: of the run.
        task: name of the task it must be a run of.

    Attributes:
        folder: as given.
        model: what the run's model saved.
        place: the file, for messages.

    Raises:
        InputError: if the folder holds no run or one of another task, or a file of it is damaged.
    """

    def __init__(self, folder: Path, task: str):
        check_run(folder)
        file = folder / "config.json"
        self._content = _of_this_version(read_json_object(file))
        found = self._content.get("task")
        if found != task:
            found = f"a run of {found}" if isinstance(found, str) else "a run of no task"
            raise InputError(f"{file}: expected a run of {task}, found {found}")
        version = self._content.get("version")
        self.place = f"{file} (of version {version})" if version else str(file)
        self.folder = folder
        self.model = self._object(self._content, "model")

    def flags(self, name: str, *kinds: type[Any]) -> Any:
        """A configuration among the flags, of one of these classes."""
        content = self._object(self._object(self._content, "flags"), name)
        named = [kind for kind in kinds if kind.__name__ == content.get("type")] or [kinds[0]]
        fields = {key: value for key, value in content.items() if key != "type"}
        return self.restore(named[0], fields, f"flags.{name}")

    def part(self, name: str) -> dict[str, Any]:
        """An object that the model saved."""
        return dict(self._object(self.model, name))

    def section(self, name: str, kind: type[T]) -> T:
        """A configuration that is not among the flags."""
        return self.restore(kind, self._object(self._content, name), name)

    def restore(self, kind: type[T], fields: Mapping[str, Any], name: str) -> T:
        """A configuration with these fields.

        Raises:
            InputError: one is unknown, missing, or out of place.
        """
        return restore(kind, fields, f"{self.place}: {name}")

    def _object(self, content: Mapping[str, Any], name: str) -> dict[str, Any]:
        if not isinstance(value := content.get(name), dict):
            found = json_type(value) if name in content else "nothing"
            raise InputError(f"{self.place}: expected an object under {name!r}, found {found}")
        return value


def restore(kind: type[T], fields: Mapping[str, Any], place: str) -> T:
    """A configuration with fields from JSON.

    Args:
        kind: a dataclass.
        fields: by name; those with defaults may be absent.
        place: of the fields, for messages.

    Raises:
        InputError: one is unknown, missing, or out of place.
    """
    hints = get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(cast(Any, kind))}
    for key in fields:
        if key not in known:
            raise InputError(
                f"{place}.{key}: expected a field of {kind.__name__}, found one that this version "
                "does not know"
            )
    for key, field in known.items():
        if key not in fields and field.default is field.default_factory:  # both are missing
            raise InputError(f"{place}.{key}: expected a value, found none")
    for key, value in fields.items():
        if not _fits(value, hints[key]):
            raise InputError(f"{place}.{key}: expected {hints[key]}, found {value!r}")
    values = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{place}.{error}") from error


def _of_this_version(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content, with what earlier versions stored elsewhere or left implicit in its place."""
    rules = content.get("rules")
    if isinstance(rules, dict) and "aggregates_of_one_row" in rules:
        # Up to version 0.2.0, Z of a parser always had them.
        content = {**content, "rules": {"aggregates_on_text": True, **rules}}
    for key, task in _VERSION_0_1.items():
        if "task" not in content and key in content:
            model = content if key == "windows" else content[key]
            if isinstance(model, dict) and "bert" in model:
                bert = model["bert"]
                bert = {"model_type": "bert", **bert} if isinstance(bert, dict) else bert
                model = {**model, "encoder": bert}
            return {**content, "task": task, "model": model}
    return content


def _fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value fits an annotation; lists stand for tuples, strings for paths."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint is float:
        return type(value) in (int, float)
    if hint is Path:
        return type(value) is str
    if origin is Literal:
        if hint == Remat and type(value) is bool:  # as runs of version 0.1 have it
            return True
        return any(type(value) is type(known) and value == known for known in arguments)
    if origin is tuple:
        inner = arguments[:1] if arguments[-1:] == (...,) else arguments
        return isinstance(value, list) and all(
            _fits(item, inner[i % len(inner)]) for i, item in enumerate(value)
        )
    if arguments:
        return any(_fits(value, argument) for argument in arguments)
    return type(value) is hint
