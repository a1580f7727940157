"""The paths of a command that lie in a bucket, replaced by local folders while it runs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.buckets.names import address
from hardem_jax.errors import InputError

#: Flags that may name a bucket: what is read, the run that is read (and gets files, such as
#: scores), the run that another one starts from, what is written.
READ, RUN, STARTED_FROM, WRITTEN = ("data", "dev"), "run_dir", "init_from", "out"


@contextlib.contextmanager
def on_this_disk(command: Any) -> Iterator[Any]:
    """The command with local folders for those in buckets; uploads what it has written.

    Args:
        command: a dataclass, or anything else, which is left alone.

    Raises:
        InputError: a bucket cannot be used, or another flag than those above names one.

    Example:
        >>> with on_this_disk("train") as command:
        ...     command
        'train'
    """
    named = _named(command)
    if not named:
        yield command
        return
    from hardem_jax.buckets.copies import CHECKPOINTS, copy, run_to_read
    from hardem_jax.buckets.mirror import mirror

    allowed = (*READ, RUN, STARTED_FROM, WRITTEN)
    for name, value in named.items():
        if name not in allowed:
            parts = value if isinstance(value, tuple) else (value,)
            found, flag = next(filter(None, map(address, parts))), name.replace("_", "-")
            raise InputError(f"--{flag}: expected a path on this disk, found {found}")
    local: dict[str, Any] = {}
    with contextlib.ExitStack() as open:
        for name, value in named.items():
            if name in (*READ, STARTED_FROM):
                parts = value if isinstance(value, tuple) else (value,)
                without = ["last"] if name == STARTED_FROM else []
                paths = tuple(
                    part if (at := address(part)) is None else copy(at, without=without)
                    for part in parts
                )
                local[name] = paths if isinstance(value, tuple) else paths[0]
            elif where := address(value):
                if name == RUN:
                    used = getattr(command, "checkpoint", None)
                    unused = [each for each in CHECKPOINTS if used in CHECKPOINTS and each != used]
                    local[name] = open.enter_context(run_to_read(where, without=unused))
                else:
                    local[name] = open.enter_context(mirror(where))
        yield dataclasses.replace(command, **local)


def _named(command: Any) -> dict[str, Any]:
    """The fields of a command that name a bucket, with their values."""
    if not dataclasses.is_dataclass(command):
        return {}
    values = {field.name: getattr(command, field.name) for field in dataclasses.fields(command)}
    return {name: value for name, value in values.items() if any(map(address, _paths(value)))}


def _paths(value: Any) -> list[Path]:
    parts = value if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, Path)]
