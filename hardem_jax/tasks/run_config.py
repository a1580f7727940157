"""What a run folder says about itself: ``config.json`` and the checksums of its files."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, Union

from hardem_jax.checksums import has_checksums, verify_checksums
from hardem_jax.data.json_config import from_json
from hardem_jax.data.json_fields import json_type
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.errors import InputError, similar_path

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
        settings: that it was trained with, see `training.fingerprint`; none if it was converted.
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
        settings = self._object({"settings": {}, **self._content}, "settings")
        self.settings = {name: str(text) for name, text in settings.items()}

    def flags(self, name: str, *kinds: type[Any]) -> Any:
        """A configuration among the flags, of one of these classes."""
        content = self._object(self._object(self._content, "flags"), name)
        # What an earlier version wrote may not name a class, or name one by another name.
        if content.get("type") not in [kind.__name__ for kind in kinds]:
            content = {**content, "type": kinds[0].__name__}
        return from_json(Union[kinds], content, f"{self.place}: flags.{name}")  # noqa: UP007

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
        return from_json(kind, dict(fields), f"{self.place}: {name}")

    def _object(self, content: Mapping[str, Any], name: str) -> dict[str, Any]:
        if not isinstance(value := content.get(name), dict):
            found = json_type(value) if name in content else "nothing"
            raise InputError(f"{self.place}: expected an object under {name!r}, found {found}")
        return value


def _of_this_version(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content, with what earlier versions stored elsewhere in its place."""
    for key, task in _VERSION_0_1.items():
        if "task" not in content and key in content:
            model = content if key == "windows" else content[key]
            if isinstance(model, dict) and "bert" in model:
                bert = model["bert"]
                bert = {"model_type": "bert", **bert} if isinstance(bert, dict) else bert
                model = {**model, "encoder": bert}
            return {**content, "task": task, "model": model}
    return content
