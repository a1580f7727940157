"""Parses command lines and runs none of them; a program, so that no module is imported before it.

Reads a JSON list of ``[module, word, ...]`` and prints one of what is wrong with each, or null.
"""

import contextlib
import io
import json
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from hardem_jax.cli import command
from hardem_jax.errors import InputError
from tests.commands import unframed


def parse_only(commands: Any, *, prog: str, argv: Sequence[str] | None = None) -> None:
    command.parse(commands, prog=prog, argv=argv)


def error_of(module: str, words: Sequence[str]) -> str | None:
    sys.argv = [module, *words]
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except InputError as error:
        return str(error)
    except SystemExit:  # of tyro
        return unframed(said.getvalue())
    return None


if __name__ == "__main__":
    command.run_command = parse_only
    print(json.dumps([error_of(module, words) for module, *words in json.load(sys.stdin)]))
