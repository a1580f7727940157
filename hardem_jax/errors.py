"""Errors that a command prints as one line: bad input, and a signal that ended it."""

import errno
import numbers
import re
import unicodedata
from typing import Any

# Long enough for a path and two lists of names, short enough to read.
MAX_MESSAGE = 1_000
MAX_QUOTED = 160
# Controls, formats (zero-width, bidirectional), surrogates, line and paragraph separators.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_QUOTED = re.compile(f"'[^']{{{MAX_QUOTED},}}'|\"[^\"]{{{MAX_QUOTED},}}\"")
# What a path leads to, as the end of "expected a file, found ...".
_FOUND = {
    errno.ENOENT: "nothing of that name",
    errno.EEXIST: "a file",
    errno.EISDIR: "a folder",
    errno.ENOTDIR: "a file in its path",
    errno.ENAMETOOLONG: "a name that is too long",
    errno.EACCES: "no permission",
    errno.EROFS: "a read-only disk",
}
#: No count or size of this project is larger: what is drawn from it must fit 32 bits.
LARGEST = 2**31 - 1


class InputError(ValueError):
    """Bad input, in one line: the culprit, what was expected, what was found.

    The culprit is a file, a line, an example id or a flag. Whatever the message quotes, it
    stays on one line of bounded length, with control characters escaped.

    Experiment modules print the message and exit with code 2; everything else
    that goes wrong is a defect and keeps its stack trace.

    Example:
        >>> raise InputError("train.json: expected a list under 'Data', found a string")
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: train.json: expected a list under 'Data', found a string
    """

    def __init__(self, message: str = ""):
        super().__init__(one_line(message))


class Stopped(KeyboardInterrupt):
    """A signal ended the program in an orderly way.

    Attributes:
        signum: the signal; a command exits with 128 plus its number.
    """

    def __init__(self, signum: int, message: str) -> None:
        self.signum = signum
        super().__init__(message)


def one_line(message: str) -> str:
    """A message as one line that is safe to print: see `printable`, and long data is cut.

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
    """What an operation on a path met, to complete "expected a file, found ...".

    Example:
        >>> found_by(IsADirectoryError(errno.EISDIR, "Is a directory"))
        'a folder'
        >>> found_by(OSError(errno.EIO, "Input/output error"))
        'an error (Input/output error)'
    """
    return _FOUND.get(error.errno or 0, f"an error ({error.strerror or error})")


def printable(text: str) -> str:
    """The text with every character that a terminal obeys or hides written as an escape.

    Line ends and tabs are among them; an ordinary text is returned as it is.

    Example:
        >>> printable("caf\\u00e9 \\x1b[31m\\u202e\\ud800")
        'café \\\\x1b[31m\\\\u202e\\\\ud800'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in _UNPRINTABLE else c
        for c in text
    )


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters: both ends, and between them how many are left out."""
    if len(text) <= limit:
        return text
    note = f" ...({len(text)} characters)... "
    room = limit - len(note)
    return text[: room - room // 2] + note + text[len(text) - room // 2 :]


def require(
    config: Any,
    *names: str,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    integer: bool = False,
) -> None:
    """Checks that attributes of a configuration are finite numbers within bounds.

    A value of None is absent and passes; of a tuple, each element is checked. An integer must
    fit 32 bits unless `at_most` or `below` says otherwise.

    Args:
        config: the configuration, usually the ``self`` of a ``__post_init__``.
        names: its attributes.
        at_least: least legal value.
        above: the values must be larger.
        at_most: largest legal value.
        below: the values must be smaller.
        integer: 2.0 is refused as well.

    Raises:
        InputError: naming the attribute, what was expected and what was found.

    Example:
        >>> import types
        >>> config = types.SimpleNamespace(top=0, rate=0.1, sweep=(1, 2), limit=None)
        >>> require(config, "sweep", "limit", at_least=1)
        >>> require(config, "top", at_least=1)
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: top: expected at least 1, found 0
    """
    bounds = [f"at least {at_least}"] * (at_least is not None)
    bounds += [f"more than {above}"] * (above is not None)
    bounds += [f"at most {at_most}"] * (at_most is not None)
    bounds += [f"less than {below}"] * (below is not None)
    expected = " and ".join(bounds) or "a finite number"
    for name in names:
        values = getattr(config, name)
        for value in values if isinstance(values, (tuple, list)) else (values,):
            if value is None:
                continue
            is_integer = issubclass(type(value), numbers.Integral)  # numpy's are integers, too
            is_number = is_integer if integer else issubclass(type(value), numbers.Real)
            if isinstance(value, bool) or not is_number:
                wanted = "an integer" if integer else "a number"
                raise InputError(f"{name}: expected {wanted}, found {value!r}")
            if is_integer and at_most is None and below is None and value > LARGEST:
                raise InputError(f"{name}: expected at most {LARGEST}, found {value}")
            inside = (
                abs(value) < float("inf")  # false for NaN, too
                and (at_least is None or value >= at_least)
                and (above is None or value > above)
                and (at_most is None or value <= at_most)
                and (below is None or value < below)
            )
            if not inside:
                raise InputError(f"{name}: expected {expected}, found {value}")
