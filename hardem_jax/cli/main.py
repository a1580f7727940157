"""The command ``hardem``, which an installed package brings: ``hardem TASK COMMAND flags``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from hardem_jax.cli.command import exit_with_one_line, listing, run_command
from hardem_jax.errors import InputError, nearest
from hardem_jax.registry import task_module, tasks
from hardem_jax.version import __version__


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a command of a task, which may be another package's. ``argv`` has the words after
    ``hardem``; None takes those of the process."""
    task, *words = (sys.argv[1:] if argv is None else argv) or ["--help"]
    known = tasks()
    with exit_with_one_line():
        if task == "--version":
            print(f"hardem_jax {__version__}")
        elif task in ("-h", "--help"):
            about = {name: importlib.import_module(home).__doc__ for name, home in known.items()}
            print(listing("hardem TASK", about))
        elif task in known:
            run_command(task_module(task, "commands").COMMANDS, prog=f"hardem {task}", argv=words)
        else:
            expected = f"expected one of {', '.join(known)}"
            raise InputError(f"hardem: {expected}, found {task!r}{nearest(task, known)}")
