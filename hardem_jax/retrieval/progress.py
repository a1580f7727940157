"""A progress bar that counts, for work of unknown length as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")


def counted(items: Iterable[T], label: str, *, total: int | None = None) -> Iterator[T]:
    """The items as they come, with a bar that disappears after the last.

    Example:
        >>> list(counted("abc", "letters"))
        ['a', 'b', 'c']
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # On stderr, so that what a command prints can be piped; only where somebody can see it move.
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield from progress.track(items, total=total, description=label)
