"""Streaming readers for JSON and text files, also ``.gz``, with one item in memory at a time.

Every error is an `InputError` that names the file and the place.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ijson

from hardem_jax.data.json_fields import json_type, lacks
from hardem_jax.errors import LARGEST, InputError, found_by

PathLike = str | os.PathLike[str]
#: What `open_bytes` opens.
ByteStream = io.BufferedReader | gzip.GzipFile

# Real layouts have at most a dozen levels, and the parser's memory grows quadratically.
MAX_DEPTH = 200
HALF_A_PAIR = "half a surrogate pair (a damaged \\uXXXX escape)"
_HALF_A_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")
_PAIR = 12  # bytes of both
#: An escape that goes on, or may be followed by the other half.
_OPEN = re.compile(
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?|\\(?:u[0-9a-fA-F]{0,3})?)\Z"
)
#: Bytes that are parsed before the depth of what they hold is looked at.
_CHUNK = 1 << 12

_EVENTS = {"start_map": "an object", "start_array": "a list", "string": "a string"}
_EVENTS |= {"number": "a number", "boolean": "true or false", "null": "null"}
# What Python writes, and the parser refuses.
_REMEDIES = {
    "integer overflow": "write integers beyond 64 bits as texts",
    "invalid char in json": "write null for NaN",
}
_DEEPER = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}


def json_events(path: PathLike) -> Iterator[tuple[str, str, Any]]:
    """ijson's events of a file, (the keys that lead there, joined by dots, event, value); its
    errors are for `json_errors`."""
    depth = 0
    with open_bytes(path) as stream:
        for event in ijson.parse(_Checked(stream, path), use_float=True, buf_size=_CHUNK):
            depth += _DEEPER.get(event[1], 0)
            if depth > MAX_DEPTH:
                raise ijson.JSONError(f"nested more than {MAX_DEPTH} deep")
            yield event


@dataclasses.dataclass
class _Checked:
    """Passes bytes of JSON on to the parser, which would take half a surrogate pair for "?"."""

    _stream: ByteStream
    _path: PathLike

    def read(self, size: int = -1, /) -> bytes:
        """About `size` bytes, which end outside of an escape."""
        chunk = _read(self._stream, self._path, size)
        while _OPEN.search(chunk[-_PAIR:]) and (more := _read(self._stream, self._path, 1)):
            chunk += more
        if _HALF_A_PAIR.search(chunk.replace(b"\\\\", b"??")):
            raise ijson.JSONError(HALF_A_PAIR)
        return chunk


@contextmanager
def json_errors(path: PathLike, read: Callable[[], str]) -> Iterator[None]:
    """Turns the parser's errors into `InputError`; `read` says what was read so far: "3
    entries"."""
    try:
        yield
    except (ijson.JSONError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            reason = f"not UTF-8, or {HALF_A_PAIR}"
        else:
            reason = _first_line(error)
        found = f"found broken or truncated text ({reason})"
        raise InputError(f"{path}: after {read()}: expected JSON, {found}") from error


def not_utf8(name: str, offset: int, rest: bytes) -> InputError:
    """Returns the error for bytes at `offset` that are not UTF-8."""
    found = f"0x{rest[0]:02x}" + (" as the last byte" if len(rest) == 1 else "")
    if Path(name).suffix in (".parquet", ".feather", ".xlsx", ".xls", ".ods"):
        found += "; export it as CSV or JSON lines"
    if Path(name).suffix in (".csv", ".tsv"):
        found += "; save it as UTF-8"
    return InputError(f"{name}: byte {offset}: expected UTF-8 text, found {found}")


@contextmanager
def open_bytes(path: PathLike) -> Iterator[ByteStream]:
    """Opens a file after its byte order mark, decompressing `.gz`."""
    path = Path(path)
    if os.path.isdir(path):  # pathlib's own raises on an over-long name
        raise InputError(f"{path}: expected a file, found a folder")
    try:
        stream = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: expected a file, found {found_by(error)}") from error
    except ValueError as error:  # a null character in its name
        raise InputError(f"{path}: cannot be opened: {error}") from error
    with stream:
        with _reading(path):
            if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
                stream.read(len(codecs.BOM_UTF8))
        yield stream


@contextmanager
def _reading(path: PathLike) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


def _read(stream: ByteStream, path: PathLike, size: int = -1) -> bytes:
    """Reads from an open file; `InputError` if the disk or the compression is damaged."""
    with _reading(path):
        return stream.read(size)


def read_text(path: PathLike) -> str:
    """Reads a text file, keeping line ends and dropping a byte order mark."""
    with open_bytes(path) as stream:
        data = _read(stream, path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(str(path), error.start, data[error.start :]) from error


def iter_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Yields (number from 1, line with its end) of a text file."""
    offset = 0
    with open_bytes(path) as stream, _reading(path):
        for number, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                place = f"{path}: line {number}"
                raise not_utf8(place, offset + error.start, line[error.start :]) from error
            offset += len(line)
            yield number, text


@contextmanager
def long_csv_fields() -> Iterator[None]:
    """Lifts the `csv` module's limit of 131,072 characters per field."""
    # The limit is global to the process, so restore it afterwards.
    limit = csv.field_size_limit(LARGEST)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def iter_json_items(path: PathLike, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (index, object) for the list under the top-level `key` of one large JSON object."""
    count = 0
    try:
        with json_errors(path, lambda: f"{count} items of {key!r}"):
            for count, item in enumerate(ijson.items(json_events(path), f"{key}.item"), start=1):
                yield count - 1, _object(item, f"{path}: item {count - 1} of {key!r}")
    finally:
        if count == 0:
            _require_list(path, key)  # raises a more specific error


def first_list(path: PathLike, name: str | None = None) -> str:
    """The keys, joined by dots, that lead to the first list in a file, or to the list of that name,
    which tells layouts apart; "" if there is none, the value is a list itself, or it is broken."""
    try:
        for keys, event, _ in json_events(path):
            if event == "start_array" and (name in (None, keys) or not keys):
                return keys
            if event == "end_map" and not keys:
                return keys
    except (ijson.JSONError, UnicodeDecodeError):  # who reads all of it says where
        return ""
    return ""


def is_pyserini_run(path: PathLike) -> bool:
    """Whether a JSON file is a run of Pyserini: ``{id: {"question", "answers", "contexts"}}``."""
    return first_list(path).endswith((".answers", ".contexts"))


def _first_line(error: ijson.JSONError) -> str:
    # The parser's message has several lines, and is bytes if it cuts a character in two.
    message = error.args[0] if error.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    text = text.partition("\n")[0].strip()
    return "; ".join([text, *(said for cause, said in _REMEDIES.items() if cause in text)])


def _require_list(path: PathLike, key: str) -> None:
    """Raises a specific `InputError` if `path` has no list under the top-level `key`."""
    expected = f"an object with a list under {key!r}"
    keys: list[str] = []
    try:
        for prefix, event, value in json_events(path):
            if not prefix and event == "map_key":
                keys.append(value)
            elif prefix == key and event == "start_array":
                return
            elif event in _EVENTS and (prefix == key or (not prefix and event != "start_map")):
                under = " under it" if prefix else ""
                raise InputError(f"{path}: expected {expected}, found {_EVENTS[event]}{under}")
    except (ijson.JSONError, UnicodeDecodeError):
        if not keys:
            return  # broken from the start, which the caller reports
    raise lacks(keys, expected, str(path))


def iter_json_entries(path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (key, object) for every entry of one large JSON object whose values are objects."""
    count = 0
    with json_errors(path, lambda: f"{count} entries"):
        for key, value in ijson.kvitems(json_events(path), ""):
            entry = _object(value, f"{path}: {key!r}")
            count += 1
            yield key, entry
    if count == 0 and (event := next(json_events(path))[1]) != "start_map":
        raise InputError(f"{path}: expected an object, found {_EVENTS[event]}")


def read_json_object(path: PathLike) -> dict[str, Any]:
    """Reads a small file that holds one JSON object."""
    return _parse(read_text(path), str(path), _PYTHON)


def iter_json_records(path: PathLike) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields (number from 1, place, object) for a JSON list or for a file of JSON lines. Objects
    are counted, not lines, so that both layouts give the same numbers."""
    first = first_character(path)
    if not first:
        raise InputError(f"{path}: expected records, found an empty file")
    if first != b"[":
        for number, (line, record) in enumerate(_json_lines(path, _STRICT), start=1):
            yield number, f"{path}: line {line}", record
        return
    number = 0
    with json_errors(path, lambda: f"{number} items"):
        for number, record in enumerate(ijson.items(json_events(path), "item"), start=1):
            place = f"{path}: item {number}"
            yield number, place, _object(record, place)


def first_character(path: PathLike) -> bytes:
    """The first one that is not blank; none of an empty file."""
    with open_bytes(path) as stream:
        while chunk := _read(stream, path, _CHUNK):
            if text := chunk.lstrip():
                return text[:1]
    return b""


def iter_json_lines(path: PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) for JSON lines; NaN and Infinity are read, as Python
    writes them."""
    return _json_lines(path, _PYTHON)


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is not a JSON number")


_PYTHON = json.JSONDecoder()
_STRICT = json.JSONDecoder(parse_constant=_refuse)  # as the parser of lists is


def _json_lines(path: PathLike, decoder: json.JSONDecoder) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in iter_lines(path):
        if line.strip():
            yield number, _parse(line, f"{path}: line {number}", decoder)


def _parse(text: str, place: str, decoder: json.JSONDecoder) -> dict[str, Any]:
    try:
        record = decoder.decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        found = f"{error.msg} at {line}column {error.colno}"
        raise InputError(f"{place}: expected a JSON object, found broken JSON: {found}") from error
    except (ValueError, RecursionError) as error:  # absurd numbers, absurd nesting
        raise InputError(f"{place}: expected a JSON object, cannot be parsed: {error}") from error
    return _object(record, place)


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected an object, found {json_type(value)}")
    return value
