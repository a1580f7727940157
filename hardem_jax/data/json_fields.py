"""Type-checked access to fields of parsed JSON.

A missing value is left to the caller, who counts it; a wrong type means that the file has another
layout, and is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from hardem_jax.errors import InputError

T = TypeVar("T")

_KINDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_KINDS |= {list: "a list", dict: "an object", type(None): "null"}


def json_type(value: object) -> str:
    """The JSON name of the type of `value`, for messages."""
    return _KINDS.get(type(value), type(value).__name__)


def get_field(record: Mapping[str, Any], key: str, kind: type[T], place: str) -> T | None:
    """`record[key]`, checked to be of `kind`; None if absent or null. `place` begins the
    message."""
    value = record.get(key)
    if value is None:
        return None
    return check_kind(value, kind, f"{place}: expected {key!r} to be")


def check_kind(value: object, kind: type[T], expected: str) -> T:
    """`value` if it is of `kind`: booleans are not integers, and 22.0 is 22, as pandas writes
    integers where one is missing. `expected` is the message up to the name of `kind`."""
    if kind is int and isinstance(value, float) and value.is_integer():
        return check_kind(int(value), kind, expected)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{expected} {_KINDS[kind]}, found {json_type(value)}")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            found = f"half a surrogate pair at character {error.start}"
            raise InputError(f"{expected} {_KINDS[kind]}, found one with {found}") from error
    return value


def get_strings(record: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    """The list of strings under `key`; empty if it is absent or null."""
    values = get_field(record, key, list, place) or []
    expected = f"{place}: expected each element of {key!r} to be"
    return tuple(check_kind(value, str, expected) for value in values)


def get_objects(
    record: Mapping[str, Any], key: str, place: str, *, required: bool = False
) -> list[dict[str, Any]]:
    """The list of objects under `key`; empty if it is absent or null and not required."""
    values = get_field(record, key, list, place)
    if values is None and required:
        raise lacks(record, f"a list under {key!r}", place)
    expected = f"{place}: expected each element of {key!r} to be"
    return [check_kind(value, dict, expected) for value in values or []]


def lacks(keys: Iterable[str], expected: str, place: str) -> InputError:
    """The error for a record that has these keys, or itself, and not what is expected."""
    given = keys if isinstance(keys, Mapping) else dict.fromkeys(keys, "")
    names = [repr(key) for key, value in given.items() if value is not None]
    more = ", ..." if len(names) > 6 else ""
    found = f"the keys {', '.join(names[:6])}{more}" if names else "no keys"
    return InputError(f"{place}: expected {expected}, found {found}")


def get_id(record: Mapping[str, Any], key: str, place: str) -> str | None:
    """The id under `key`, a string or an integer, as a string; None if absent or blank."""
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return (get_field(record, key, str, place) or "").strip() or None


def distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """The non-blank texts without duplicates, in order of first occurrence."""
    return tuple(dict.fromkeys(text for text in texts if text.strip()))
