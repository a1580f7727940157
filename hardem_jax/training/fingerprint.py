"""Settings of a run as dotted names: what a run is resumed with, and what runs that differ say."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError
from hardem_jax.settings import to_json

_MAY_CHANGE = "may change on resumption"
_CONTENTS = "contents of "
#: Differences of a folder's contents that a refusal names.
_TOLD = 3


class Meaning(enum.Flag):
    """What it means to whoever compares two runs that they differ in a setting."""

    #: Nothing by itself: their objectives or other settings differ as well.
    FOLLOWS = 0
    #: They may be seeds of one row of a table.
    SEED = enum.auto()
    #: They are different rows of a table.
    ROW = enum.auto()
    #: They were scored on other questions.
    QUESTIONS = enum.auto()
    #: They were scored on other questions, or on the same ones with another Z.
    CONTENT = enum.auto()
    #: The questions that they were scored on have another Z, hence another content.
    RULES = enum.auto()
    #: They were trained on other questions, or on the same ones with another Z.
    TRAINED = enum.auto()
    #: The questions that they were trained on have another Z, hence another content.
    TRAINED_RULES = enum.auto()


# The digest of the contents says whether data are the same, in whichever format they are.
_TRAINED = {
    "format": Meaning.SEED,
    "content": Meaning.TRAINED,
    "scores of solutions": Meaning.ROW,  # in records alone
    **dict.fromkeys(("rules", "supervised"), Meaning.ROW | Meaning.TRAINED_RULES),
    "sources": dict.fromkeys(("rules", "supervised"), Meaning.ROW | Meaning.TRAINED_RULES),
}
_SCORED = {
    "format": Meaning.SEED,
    "content": Meaning.CONTENT,
    "rules": Meaning.ROW | Meaning.RULES,
    "supervised": Meaning.ROW,
    **dict.fromkeys(("data set", "number", "domain", "tagged", "documents"), Meaning.QUESTIONS),
    "counts": dict.fromkeys(("questions read", "examples read"), Meaning.QUESTIONS),
    "sources": {
        "rules": Meaning.ROW | Meaning.RULES,
        "supervised": Meaning.ROW,
        **dict.fromkeys(("file", "split"), Meaning.QUESTIONS),
    },
}
#: What settings mean: the flags of a run, of which all others are rows, and what identifies its
#: data and the run that it starts from, in which all else follows.
_MEANINGS: Mapping[str, Any] = {
    "objective": Meaning.FOLLOWS,  # rows have its label
    "dev_questions": Meaning.ROW | Meaning.QUESTIONS,
    "loop": {"seed": Meaning.SEED},
    "contents of data": _TRAINED,
    "contents of dev": _SCORED,
    "contents of init_from": {"content": Meaning.SEED, "run": Meaning.ROW},
}


def meaning(name: str) -> Meaning:
    """What a setting means, by its name as `flatten` has it."""
    found: Any = _MEANINGS
    for part in name.split("."):
        if isinstance(found, Meaning):
            break
        if not part.isdigit():  # the place of a split among several
            found = found.get(part, {})
    default = Meaning.FOLLOWS if name.startswith(_CONTENTS) else Meaning.ROW
    return found if isinstance(found, Meaning) else default


def may_change(because: str, *, metadata: Mapping[str, Any] | None = None, **field: Any) -> Any:
    """Declares a dataclass field that may change on resumption, and between two evaluations. Such a
    field must not affect what is computed, but for rounding: `because` says why not. All others
    belong to the fingerprint, so new settings are compared by default."""
    return dataclasses.field(metadata={_MAY_CHANGE: because, **(metadata or {})}, **field)


def named_settings(config: Any, name: str = "") -> dict[str, str]:
    """The fields of a dataclass as text by dotted name, with the type of nested ones."""
    return dict(_texts(compared(config), name))


def compared(config: Any) -> Any:
    """The JSON of a configuration without the fields made by `may_change`."""
    return to_json(config, keep=lambda field: _MAY_CHANGE not in field.metadata)


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key != "type":
                yield from _texts(part, f"{name}.{key}" if name else key)
            elif name:
                yield name, part
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)


def check_same(stored: Mapping[str, str], ours: Mapping[str, str], where: Path) -> None:
    """Raises `InputError`, naming every setting that differs, with both values, if any does."""
    before, now = flatten(stored), flatten(ours)
    differing = [name for name in now | before if before.get(name) != now.get(name)]
    # A command has what the loop calls "accumulate" among its batches.
    differing = [name for name in differing if f"batches.{name}" not in differing]
    if not differing:
        return
    of_flags: dict[str, list[str]] = {}
    for name in sorted(differing, key=lambda name: name.endswith(".content")):  # digests last
        flag, field = name, ""
        if name.startswith(_CONTENTS):  # of the folder that a flag names
            flag, _, rest = name.removeprefix(_CONTENTS).partition(".")
            field = re.sub(r"^\d+\.", "", rest) + " "
        found = f"{field}{before.get(name, 'absent')} originally, {now.get(name, 'absent')} now"
        of_flags.setdefault(f"--{flag.replace('_', '-')}", []).append(found)
    told = "; ".join(
        f"{flag}: {', '.join(found[:_TOLD])}" + (", and more" if found[_TOLD:] else "")
        for flag, found in of_flags.items()
    )
    advice = "repeat the original ones, name another --out, or delete this run"
    if differing == ["loop.num_steps"]:
        advice = "to train on, name this run as --init-from, and another --out"
    raise InputError(f"{where}: cannot resume with different settings ({told}); {advice}")


def flatten(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as they are compared. Those whose text is a JSON object, or a list of objects, are
    split into their fields. A whole number is written without a point: a flag reads as 2.0 what a
    default or Python may have as 2."""

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
        if text.startswith(("{", "[", '"')):  # earlier versions wrote paths in quotes
            flat |= fields(name, _parsed(text))
        else:
            flat[name] = text
    return {name: re.sub(r"^(-?\d+)\.0$", r"\1", text) for name, text in flat.items()}


def without_seed(settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings, as `flatten` has them, that runs share which differ only in their seed.

    Leaves out the format in which data are stored, and the digest of initial parameters.

    >>> without_seed({"loop.seed": "1", "contents of data": '{"format": "a", "run": "b"}'})
    {'contents of data.run': 'b'}
    """
    return {k: v for k, v in flatten(settings).items() if Meaning.SEED not in meaning(k)}


def digest_without_seed(settings: Mapping[str, str]) -> str:
    """Identifies a run's settings but for its seed, on every machine.

    >>> a, b = {"loop.seed": "0", "model.encoder": '"/a/bert"'}, {"model.encoder": "../bert"}
    >>> digest_without_seed(a) == digest_without_seed(b) != digest_without_seed({})
    True
    """
    content = json.dumps(without_seed(portable(settings)), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def portable(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings without the folders of a machine: '"/models/ada/bert"' becomes '"bert"'."""
    found = {}
    for name, text in settings.items():
        path = text.strip('"')  # earlier versions wrote paths in quotes
        is_folder = os.path.isabs(path) or path.startswith(("./", "../"))  # no name on the hub
        found[name] = text.replace(path, Path(path).name) if is_folder else text
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
