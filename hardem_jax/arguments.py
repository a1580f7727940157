"""Argument checks whose errors name the argument and what was passed instead.

They catch, for example, a string passed instead of a list of strings: it is itself a sequence of
strings, so its letters would be used one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from hardem_jax.errors import InputError


def check_text(value: object, name: str) -> None:
    """Raises TypeError unless the argument is a string.

    Example:
        >>> check_text(None, "question")
        Traceback (most recent call last):
        ...
        TypeError: question: expected a string, found None
    """
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
    """Raises InputError unless the value is one of the options of a `Literal`.

    Example:
        >>> from typing import Literal
        >>> check_choice("hole", Literal["whole", "exact"], "numbers")
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: numbers: expected one of ('whole', 'exact'), found 'hole'
    """
    if value not in get_args(choices):
        raise InputError(f"{name}: expected one of {get_args(choices)}, found {value!r}")


def _describe(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the string {_short(value)}"
    return f"{type(value).__name__} {_short(value)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
