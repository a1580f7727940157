"""A progress bar for iterables of known or unknown length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")


def counted(items: Iterable[T], label: str, *, total: int | None = None) -> Iterator[T]:
    """Yields the items, showing a progress bar that disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # On stderr, so that a command's output can be piped, and only in a terminal.
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield from progress.track(items, total=total, description=label)
