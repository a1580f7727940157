"""What a run folder says about itself: ``config.json`` and the checksums of its files."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union

from hardem_jax.checksums import has_checksums, verify_checksums
from hardem_jax.data.files import kind_of
from hardem_jax.data.json_fields import json_type
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError, offered
from hardem_jax.settings import from_json

T = TypeVar("T")


def check_run(run_dir: Path) -> None:
    """Checks that a folder holds a run whose configuration and vocabulary are intact."""
    if not os.path.isfile(run_dir / "config.json"):
        kind = kind_of(run_dir)  # "a run" if it has lost this file
        found = kind if kind and kind != "a run" else "no config.json in it"
        found += offered(run_dir, "best", "last")
        raise InputError(f"{run_dir}: expected the folder of a run, found {found}")
    if has_checksums(run_dir):  # none if it was killed before it wrote them
        verify_checksums(run_dir)


class RunConfig:
    """``config.json`` of a run in ``folder``: what its ``model`` saved, and the ``settings`` it was
    trained with (none if it was converted); ``place`` is the file, for messages."""

    def __init__(self, folder: Path, task: str):
        check_run(folder)
        file = folder / "config.json"
        self._content = read_json_object(file)
        version = self._content.get("version")
        self.place = f"{file} (of version {version})" if version else str(file)
        found = self._content.get("task")
        if found != task:
            # Encoders and exported readers have such a file, too.
            advice = f"; use the same command of `hardem {found}`, or of its data set"
            found = f"a run of {found}{advice}" if isinstance(found, str) else "no run"
            raise InputError(f"{self.place}: expected a run of {task}, found {found}")
        self.folder = folder
        self.model = self._object(self._content, "model")
        settings = self._object({"settings": {}, **self._content}, "settings")
        self.settings = {name: str(text) for name, text in settings.items()}

    def flags(self, name: str, *kinds: type[Any]) -> Any:
        """A configuration among the flags, of one of these classes."""
        content = self._object(self._object(self._content, "flags"), name)
        return from_json(Union[kinds], content, f"{self.place}: flags.{name}")  # noqa: UP007

    def part(self, name: str) -> dict[str, Any]:
        """An object that the model saved."""
        return dict(self._object(self.model, name))

    def section(self, name: str, kind: type[T]) -> T:
        """A configuration that is not among the flags; a run has all of its fields."""
        content = self._object(self._content, name)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.name not in content:
                raise InputError(f"{self.place}: {name}.{field.name}: expected a value, found none")
        return self.restore(kind, content, name)

    def restore(self, kind: type[T], fields: Mapping[str, Any], name: str) -> T:
        """A configuration with these fields."""
        return from_json(kind, dict(fields), f"{self.place}: {name}")

    def _object(self, content: Mapping[str, Any], name: str) -> dict[str, Any]:
        if not isinstance(value := content.get(name), dict):
            found = json_type(value) if name in content else "nothing"
            raise InputError(f"{self.place}: expected an object under {name!r}, found {found}")
        return value
