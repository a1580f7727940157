"""Shared by all ``prepare`` commands: what determined a split, and its summary."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import file_digest
from hardem_jax.data.json_config import to_json

#: Flags that do not determine the content of a split, and the tokenizer, which has its own digest.
_NOT_RECORDED = {"out", "force", "processes", "tokenizer"}


def determined_by(command: Any, **digests: Any) -> dict[str, Any]:
    """Every flag of a ``prepare`` command that determines its split; files by name and digest.

    Args:
        command: the dataclass of the command.
        digests: field -> digest, for folders.

    Raises:
        InputError: a file cannot be read.

    Example:
        >>> @dataclasses.dataclass
        ... class Prepare:
        ...     folder: Path = Path("official")
        ...     out: Path = Path("prepared")
        ...     split: str = "train"
        >>> determined_by(Prepare(), folder="4f2a")
        {'folder': '4f2a', 'split': 'train'}
    """
    values = {}
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        if field.name in digests:
            values[field.name] = digests[field.name]
        elif field.name not in _NOT_RECORDED:
            is_file = isinstance(value, Path)
            values[field.name] = {value.name: file_digest(value)} if is_file else to_json(value)
    return values


def print_summary(meta: Mapping[str, Any], exclusions: ExclusionCounts) -> None:
    """Prints counts, |Z| and what was left out."""
    for name, count in meta["counts"].items():
        print(f"{count:>9}  {name}")
    print(sizes(meta["solutions per question"]))
    print(exclusions)


def sizes(summary: Mapping[str, Any]) -> str:
    """Statistics of |Z| in a line.

    Example:
        >>> sizes({"mean": None, "median": None, "max": None})
        '|Z| per question: no question has a solution'
    """
    if summary["max"] is None:
        return "|Z| per question: no question has a solution"
    figures = (f"{name} {summary[name]}" for name in ("mean", "median", "max"))
    return f"|Z| per question: {', '.join(figures)}"
