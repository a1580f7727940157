"""Errors that a command prints as one line, such as invalid input, and checks of input."""

import dataclasses
import difflib
import errno
import functools
import importlib.util
import numbers
import operator
import os
import re
import signal
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

# Room for a path and two lists of names.
MAX_MESSAGE = 1_000
MAX_QUOTED = 160
# Control, format (zero-width, bidirectional) and surrogate characters; line and paragraph breaks.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # part of the spelling of Persian and Hindi, and of emoji
_QUOTED = re.compile(f"'[^']{{{MAX_QUOTED},}}'|\"[^\"]{{{MAX_QUOTED},}}\"")
# Completes "expected a file, found ...".
_FOUND = {
    errno.ENOENT: "nothing of that name",
    errno.EEXIST: "a file",
    errno.EISDIR: "a folder",
    errno.ENOTDIR: "a file in its path",
    errno.ENAMETOOLONG: "a name that is too long",
    errno.EACCES: "no permission",
    errno.EROFS: "a read-only disk",
}
#: Signals before the end: of a scheduler that takes the machine back (SLURM can warn with SIGUSR1),
#: or of a terminal that is closed, unless `nohup` has said to ignore that. Windows has SIGTERM.
TERMINATION = (signal.SIGTERM, *filter(None, [getattr(signal, "SIGUSR1", None)]))
if (hangup := getattr(signal, "SIGHUP", None)) and signal.getsignal(hangup) != signal.SIG_IGN:
    TERMINATION += (hangup,)
#: Upper bound of every count and size, so that it fits 32 bits.
LARGEST = 2**31 - 1


class InputError(ValueError):
    """Invalid input, in one line: the culprit, what was expected, what was found.

    The culprit is a file, a line, an example id or a flag. The message is one line of bounded
    length with control characters escaped, whatever it quotes. Commands print it and exit with code
    2; any other exception is a defect and keeps its stack trace.
    """

    def __init__(self, message: str = ""):
        super().__init__(one_line(message))


class Stopped(KeyboardInterrupt):
    """A signal ended the program, after it had cleaned up; it exits with 128 plus `signum`.
    `recorded`: the program stops even if this is raised where Python ignores exceptions."""

    def __init__(self, signum: int, message: str, *, recorded: bool = False) -> None:
        self.signum = signum
        self.recorded = recorded
        super().__init__(message)


class MissingPackageError(ImportError):
    """Packages of an extra are not installed; commands print it as one line."""


def require_packages(extra: str, *modules: str) -> None:
    """Raises a one-line error if packages of an extra are not installed; imports none of them."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise MissingPackageError(
            f"{names}: not installed (pip install '.[{extra}]' in a checkout)"
        )


def one_line(message: str) -> str:
    """Turns a message into one line that is safe to print, with long quotes shortened.

    Example:
        >>> one_line("a.json:\\n  expected 'id', found '\\x1b[2J'")
        "a.json: expected 'id', found '\\\\x1b[2J'"
        >>> len(one_line("x" * 10**6))
        1000
    """
    line = printable(" ".join(message.split()))
    line = _QUOTED.sub(lambda match: _cut(match.group(), MAX_QUOTED), line)
    return _cut(line, MAX_MESSAGE)


def found_by(error: OSError) -> str:
    """Describes what an operation on a path found, to complete "expected a file, found ...". If
    nothing has that name, it names a file or folder beside it with a similar one."""
    found = _FOUND.get(error.errno or 0, f"an error ({error.strerror or error})")
    return found + (similar_path(error.filename) if error.errno == errno.ENOENT else "")


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggests what an unknown word may have meant, to complete a message; or nothing."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f" (perhaps you meant {found[0]})" if found else ""


def similar_path(path: Any) -> str:
    """Suggests what a path that does not exist may have meant, by what lies beside it; or ""."""
    if not isinstance(path, (str, os.PathLike)) or os.path.exists(path):
        return ""
    missing = os.path.normpath(os.fspath(path))
    while (folder := os.path.dirname(missing)) and not os.path.isdir(folder):
        missing = folder
    try:
        names = os.listdir(folder or ".")
    except OSError:  # it may not be read: no advice
        return ""
    return nearest(os.path.basename(missing), map(os.fsdecode, names))


def offered(path: Any, *marks: str) -> str:
    """Completes a message about a path that is not there, or not what is expected: a similar name
    beside it, or folders below or beside it that hold one of these files."""
    if similar := similar_path(path):
        return similar
    for place in (Path(path), Path(path).parent):
        try:
            inside = sorted(place.iterdir())
            found = [x for x in inside if any((x / mark).exists() for mark in marks)]
        except OSError:  # no folder, or one that may not be read
            continue
        if found:
            return f"; there is {', '.join(map(str, found[:5]))}{', ...' if found[5:] else ''}"
    return ""


def printable(text: str) -> str:
    """Escapes every character that a terminal would interpret or hide, newlines included."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if unicodedata.category(c) in _UNPRINTABLE and c not in _JOINERS
        else c
        for c in text
    )


def _cut(text: str, limit: int) -> str:
    """Keeps both ends of a long text, at most `limit` characters, and notes its length."""
    if len(text) <= limit:
        return text
    note = f" ...({len(text)} characters)... "
    room = limit - len(note)
    return text[: room - room // 2] + note + text[len(text) - room // 2 :]


def check_unicode(text: str, place: str = "text") -> None:
    """Raises `InputError` if a text holds half a surrogate pair, as bytes that are not UTF-8 do."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.end]
        raise InputError(f"{place}: expected UTF-8 text, found {around!r}") from error


def require(
    config: Any,
    *names: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    optional: bool = True,
) -> None:
    """Checks that attributes of a configuration are finite numbers within bounds, integers if it is
    a dataclass that says so, and those whose type is a `Literal` one of its options.

    None passes if it is `optional`; every element of a tuple is checked. Integers must fit 32 bits
    unless `at_most` or `below` sets another limit.

    Example:
        >>> import types
        >>> require(types.SimpleNamespace(top=0, limit=None), "limit", "top", at_least=1)
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: top: expected at least 1, found 0
    """
    hints = _hints(type(config))
    bounds = [
        (f"{word} {bound}", bound, inside)
        for word, bound, inside in (
            ("at least", at_least, operator.ge),
            ("more than", above, operator.gt),
            ("at most", at_most, operator.le),
            ("less than", below, operator.lt),
        )
        if bound is not None
    ]
    for name, hint in hints.items():
        if get_origin(hint) is Literal:
            check_choice(getattr(config, name), hint, name)
    expected = " and ".join(text for text, *_ in bounds) or "a finite number"
    for name in names:
        found = getattr(config, name)
        values: Sequence[Any] = found if isinstance(found, (tuple, list)) else (found,)
        integer = _mentions(hints.get(name), int) and not _mentions(hints.get(name), float)
        kind, wanted = (numbers.Integral, "an integer") if integer else (numbers.Real, "a number")
        for value in values:
            if value is None and optional:
                continue
            if value is None or isinstance(value, bool) or not issubclass(type(value), kind):
                raise InputError(f"{name}: expected {wanted}, found {value!r}")
            is_integer = issubclass(type(value), numbers.Integral)  # includes numpy integers
            if is_integer and at_most is None and below is None and value > LARGEST:
                raise InputError(f"{name}: expected at most {LARGEST}, found {value}")
            # Of NaN the first is false.
            if not (abs(value) < float("inf") and all(f(value, x) for _, x, f in bounds)):
                raise InputError(f"{name}: expected {expected}, found {value}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The type of each field of a dataclass; nothing for another class."""
    return get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}


def _mentions(hint: Any, kind: type) -> bool:
    """Whether a type is that class, or a union or tuple with it."""
    return hint is kind or any(_mentions(part, kind) for part in get_args(hint))


def require_different(config: Any, *names: str) -> None:
    """Checks that no attribute of a configuration lists a value twice."""
    for name in names:
        values = getattr(config, name)
        if len(set(values)) < len(values):
            found = " ".join(map(str, values))
            raise InputError(f"{name}: expected different values, found {found}")


# Of what Python passes. They catch, for example, a string in place of a list of strings: it is
# itself a sequence of strings, so its letters would be used one by one.


def check_text(value: object, name: str) -> None:
    """Raises TypeError unless the argument is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a string, found {_describe(value)}")


def check_texts(values: Iterable[str], name: str) -> tuple[str, ...]:
    """Returns the strings of any iterable except a string.

    Example:
        >>> check_texts("Schumann", "aliases")
        Traceback (most recent call last):
        ...
        TypeError: aliases: expected a list of strings, found the string 'Schumann'
    """
    check_many(values, name, "strings")
    texts = tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected a list of strings, found {_describe(text)} in it")
    return texts


def check_many(values: object, name: str, items: str) -> None:
    """Raises TypeError unless the argument is iterable and not a string."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: expected a list of {items}, found {_describe(values)}")


def check_choice(value: object, choices: object, name: str) -> None:
    """Raises InputError unless the value is one of the options of a `Literal`."""
    if value not in get_args(choices):
        raise InputError(f"{name}: expected one of {get_args(choices)}, found {value!r}")


def _describe(value: object) -> str:
    if value is None:
        return "None"
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return f"the string {text}" if isinstance(value, str) else f"{type(value).__name__} {text}"
