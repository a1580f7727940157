"""Streaming readers for JSON files, with actionable errors.

Functions take a path (`.gz` is decompressed on the fly), hold one item in memory at a time, and
raise a one-line `InputError` that names the file and the location. Bytes that are not UTF-8 are an
error with their offset; replacing them would hide the damage.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import ijson

from hardem_jax.data.json_fields import json_type
from hardem_jax.errors import LARGEST, InputError, found_by

PathLike = str | os.PathLike[str]

# Real layouts have at most a dozen levels, and the parser's memory grows quadratically.
MAX_DEPTH = 200
_BOM = "\ufeff"
HALF_A_PAIR = "half a surrogate pair (a damaged \\uXXXX escape)"
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SECOND_HALF = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_PAIR = 12  # bytes of both
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))

_EVENTS = {"start_map": "an object", "start_array": "a list", "string": "a string"}
_EVENTS |= {"number": "a number", "boolean": "true or false", "null": "null"}


class ByteStream(Protocol):
    """The part of a binary file that the JSON parser needs."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; an empty string at the end."""
        ...


class Utf8Stream:
    """Passes bytes through and raises `InputError` at the first that is not UTF-8.

    Args:
        stream: binary file object.
        name: its name in messages.

    Example:
        >>> import io
        >>> Utf8Stream(io.BytesIO(b"caf\\xe9!"), "menu.json").read()
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: menu.json: byte 3: expected UTF-8 text, found 0xe9
    """

    def __init__(self, stream: ByteStream, name: str):
        self.name = name
        self.offset = 0  # bytes passed on so far
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, checked."""
        try:
            chunk = self._stream.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.name}: byte {self.offset}: cannot be read: {error}") from error
        # The first bytes of a character that the chunk cuts in two stay in the decoder.
        waiting = len(self._decoder.getstate()[0])
        try:
            self._decoder.decode(chunk, final=not chunk and size != 0)
        except UnicodeDecodeError as error:
            offset = self.offset - waiting + error.start
            raise not_utf8(self.name, offset, error.object[error.start :]) from error
        self.offset += len(chunk)
        return chunk


class JsonStream(Utf8Stream):
    """A `Utf8Stream` of JSON that skips a byte order mark and rejects absurd nesting.

    Example:
        >>> import io
        >>> JsonStream(io.BytesIO("\ufeff[1]".encode()), "a.json").read()
        b'[1]'
        >>> JsonStream(io.BytesIO(b"[" * 1000), "a.json").read()
        Traceback (most recent call last):
        ...
        hardem_jax.errors.InputError: a.json: before byte 1000: expected JSON nested at most 200 \
deep, found more
    """

    def __init__(self, stream: ByteStream, name: str):
        super().__init__(stream, name)
        self._depth = 0
        self._in_string = False
        self._escape = b""  # a backslash whose character is in the next chunk
        self._unchecked = b""  # may hold the first half of a surrogate pair, without what follows

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, checked; the first call must request at least 3."""
        at_start = self.offset == 0
        chunk = super().read(size)
        if at_start:
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        text = self._escape + chunk
        backslashes = len(text) - len(text.rstrip(b"\\"))
        self._escape = b"\\" * (backslashes % 2)
        text = text[: len(text) - backslashes % 2].replace(b"\\\\", b"??").replace(b'\\"', b"??")
        self._check_pairs(text, at_end=not chunk)
        self._check_depth(text)
        return chunk

    def _check_pairs(self, text: bytes, *, at_end: bool) -> None:
        # The parser takes half a pair for "?", or for a part of the character that follows.
        text = self._unchecked + text
        checked = len(text) if at_end else max(0, len(text) - _PAIR + 1)
        for half in _FIRST_HALF.finditer(text):
            if half.start() < checked and not _SECOND_HALF.match(text, half.end()):
                raise InputError(
                    f"{self.name}: before byte {self.offset}: expected JSON, found {HALF_A_PAIR}"
                )
        self._unchecked = text[checked:]

    def _check_depth(self, text: bytes) -> None:
        # Pieces between quotation marks alternate between structure and strings.
        pieces = text.translate(None, _NOT_STRUCTURE).split(b'"')
        structure = b"".join(pieces[self._in_string :: 2])
        self._in_string ^= len(pieces) % 2 == 0
        opened = structure.count(b"[") + structure.count(b"{")
        if self._depth + opened <= MAX_DEPTH:
            self._depth += 2 * opened - len(structure)
            return
        for byte in structure:
            self._depth += 1 if byte in b"[{" else -1
            if self._depth > MAX_DEPTH:
                raise InputError(
                    f"{self.name}: before byte {self.offset}: expected JSON nested at most "
                    f"{MAX_DEPTH} deep, found more"
                )


@contextmanager
def json_errors(stream: JsonStream, read: Callable[[], str]) -> Iterator[None]:
    """Turns the parser's errors into `InputError`.

    Args:
        stream: the stream being parsed.
        read: returns what was read so far, such as "3 entries".
    """
    try:
        yield
    except (ijson.JSONError, UnicodeDecodeError) as error:
        # The bytes are valid UTF-8, so a decoding error comes from an escape.
        found = "broken or truncated text"
        found = (
            f"{found} ({_first_line(error)})" if isinstance(error, ijson.JSONError) else HALF_A_PAIR
        )
        raise InputError(
            f"{stream.name}: after {read()}, before byte {stream.offset}: expected JSON, "
            f"found {found}"
        ) from error


def not_utf8(name: str, offset: int, rest: bytes) -> InputError:
    """Returns the error for bytes at `offset` that are not UTF-8."""
    found = f"0x{rest[0]:02x}" + (" as the last byte" if len(rest) == 1 else "")
    return InputError(f"{name}: byte {offset}: expected UTF-8 text, found {found}")


@contextmanager
def open_bytes(path: PathLike) -> Iterator[ByteStream]:
    """Opens a file, decompressing `.gz`.

    Raises:
        InputError: it does not exist, is a folder, or cannot be opened.
    """
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
        yield stream


def read_text(path: PathLike) -> str:
    """Reads a text file, keeping line ends and dropping a byte order mark.

    Raises:
        InputError: as `open_bytes`, or a byte is not UTF-8.
    """
    with open_bytes(path) as stream:
        checked = Utf8Stream(stream, str(path))
        data = checked.read()
        checked.read()  # detect a character truncated at EOF
    return data.decode("utf-8").removeprefix(_BOM)


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
    """Yields (index, object) for the list under the top-level `key` of one large JSON object.

    The file is streamed. Items before a defect are yielded before it raises.

    Raises:
        InputError: as `open_bytes`; broken or truncated JSON; no list under `key`; an
            item that is not an object.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "qa.json")
        ...     _ = file.write_text('{"Data": [{"Question": "Why?"}], "Version": 1.0}')
        ...     list(iter_json_items(file, "Data"))
        [(0, {'Question': 'Why?'})]
    """
    count = 0
    with open_bytes(path) as stream:
        checked = JsonStream(stream, str(path))
        try:
            with json_errors(checked, lambda: f"{count} items of {key!r}"):
                for index, item in parse_json_items(checked, key):
                    count = index + 1
                    yield index, item
        except InputError:
            if count == 0:
                _require_list(path, key)  # raises a more specific error
            raise
    if count == 0:
        _require_list(path, key)


def first_list(path: PathLike) -> str:
    """The keys, joined by dots, that lead to the first list in the first JSON value of a file.

    It tells layouts apart. "" if there is none, the value is a list itself, or it is broken.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "qa.json")
        ...     _ = file.write_text('{"version": "1.1", "data": [{"id": "a", "answers": []}]}')
        ...     first_list(file)
        'data'
    """
    with open_bytes(path) as stream:
        try:
            for keys, event, _ in ijson.parse(JsonStream(stream, str(path)), use_float=True):
                if event == "start_array" or (event == "end_map" and not keys):
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
    return text.partition("\n")[0].strip()


def parse_json_items(stream: Utf8Stream, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Like `iter_json_items`, from an open stream; reads no further than it needs to.

    Raises:
        InputError: an item is not an object, or a byte is not UTF-8.
        ijson.JSONError: the JSON is broken.
    """
    for index, item in enumerate(ijson.items(stream, f"{key}.item", use_float=True)):
        if not isinstance(item, dict):
            place = f"{stream.name}: item {index} of {key!r}"
            raise InputError(f"{place}: expected an object, found {json_type(item)}")
        yield index, item


def _require_list(path: PathLike, key: str) -> None:
    """Raises a specific `InputError` if `path` has no list under the top-level `key`."""
    expected = f"expected an object with a list under {key!r}"
    keys: list[str] = []
    with open_bytes(path) as stream:
        events = ijson.parse(JsonStream(stream, str(path)), use_float=True)
        try:
            _, first, _ = next(events)
            if first != "start_map":
                raise InputError(f"{path}: {expected}, found {_EVENTS.get(first, first)}")
            for prefix, event, name in events:
                if prefix or event != "map_key":
                    continue
                keys.append(name)
                if name == key:
                    _, event, _ = next(events)
                    if event == "start_array":
                        return
                    found = _EVENTS.get(event, event)
                    raise InputError(f"{path}: {expected}, found {found} under it")
        except (ijson.JSONError, UnicodeDecodeError, StopIteration):
            if not keys:
                return  # broken from the start, which the caller reports
    listing = ", ".join(map(repr, keys[:6])) + (", ..." if len(keys) > 6 else "")
    raise InputError(f"{path}: {expected}, found " + (f"the keys {listing}" if keys else "no keys"))


def iter_json_entries(path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (key, object) for every entry of one large JSON object whose values are objects.

    The file is streamed. Entries before a defect are yielded before it raises, except the last
    one, because the parser yields an entry only when it reaches the next key.

    Raises:
        InputError: as `open_bytes`; broken or truncated JSON; no top-level object; a value
            that is not an object.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "drop.json")
        ...     _ = file.write_text('{"nfl_1": {"passage": "..."}, "nfl_2": {}}')
        ...     list(iter_json_entries(file))
        [('nfl_1', {'passage': '...'}), ('nfl_2', {})]
    """
    count = 0
    with open_bytes(path) as stream:
        checked = JsonStream(stream, str(path))
        with json_errors(checked, lambda: f"{count} entries"):
            for key, value in ijson.kvitems(checked, "", use_float=True):
                if not isinstance(value, dict):
                    raise InputError(
                        f"{path}: {key!r}: expected an object, found {json_type(value)}"
                    )
                count += 1
                yield key, value
    if count == 0:
        _require_object(path)


def _require_object(path: PathLike) -> None:
    """Raises `InputError` if the JSON file `path` has no top-level object."""
    with open_bytes(path) as stream:
        _, event, _ = next(ijson.parse(JsonStream(stream, str(path)), use_float=True))
    if event != "start_map":
        raise InputError(f"{path}: expected an object, found {_EVENTS.get(event, event)}")


def read_json_object(path: PathLike) -> dict[str, Any]:
    """Reads a small file that holds one JSON object.

    Raises:
        InputError: as `open_bytes`, or the file is not UTF-8, not JSON, or not an object.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "config.json")
        ...     _ = file.write_text('{"model_type": "bert"}')
        ...     read_json_object(file)
        {'model_type': 'bert'}
    """
    return _parse(read_text(path), str(path), _PYTHON)


def iter_json_records(path: PathLike) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields (number from 1, place, object) for a JSON list or for a file of JSON lines.

    Objects are counted, not lines, so that both layouts give the same numbers. Neither may hold
    NaN or Infinity, which JSON lacks.

    Raises:
        InputError: as `iter_json_lines`, or the file is empty, or a number is NaN or infinite.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "qa.json")
        ...     _ = file.write_text('[{"id": "a"}, {"id": "b"}]')
        ...     [(number, record) for number, _, record in iter_json_records(file)]
        [(1, {'id': 'a'}), (2, {'id': 'b'})]
    """
    if _first_character(path) != b"[":
        for number, (line, record) in enumerate(_json_lines(path, _STRICT), start=1):
            yield number, f"{path}: line {line}", record
        return
    number = 0
    with open_bytes(path) as stream:
        checked = JsonStream(stream, str(path))
        with json_errors(checked, lambda: f"{number} items"):
            for record in ijson.items(checked, "item", use_float=True):
                number += 1
                place = f"{path}: item {number}"
                if not isinstance(record, dict):
                    raise InputError(f"{place}: expected an object, found {json_type(record)}")
                yield number, place, record


def _first_character(path: PathLike) -> bytes:
    with open_bytes(path) as stream:
        checked = JsonStream(stream, str(path))
        while chunk := checked.read(1 << 12):
            if text := chunk.lstrip():
                return text[:1]
    raise InputError(f"{path}: expected records, found an empty file")


def iter_json_lines(path: PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) for a file with one JSON object per line.

    Blank lines are skipped. NaN and Infinity are read, as Python writes them.

    Raises:
        InputError: as `open_bytes`, or a line is not UTF-8, not JSON, or not an object.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "qa.jsonl")
        ...     _ = file.write_text('{"id": "a"}\\n\\n{"id": "b"}\\n')
        ...     list(iter_json_lines(file))
        [(1, {'id': 'a'}), (3, {'id': 'b'})]
    """
    return _json_lines(path, _PYTHON)


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is not a JSON number")


_PYTHON = json.JSONDecoder()
_STRICT = json.JSONDecoder(parse_constant=_refuse)  # as the parser of lists is


def _json_lines(path: PathLike, decoder: json.JSONDecoder) -> Iterator[tuple[int, dict[str, Any]]]:
    offset = 0
    with open_bytes(path) as stream:
        for number, line in enumerate(_lines(stream, str(path)), start=1):
            place = f"{path}: line {number}"
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                start = error.start
                raise not_utf8(place, offset + start, line[start:]) from error
            offset += len(line)
            if number == 1:
                text = text.removeprefix(_BOM)
            if text.strip():
                yield number, _parse(text, place, decoder)


def _lines(stream: Any, name: str) -> Iterator[bytes]:
    try:
        yield from stream
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read: {error}") from error


def _parse(text: str, place: str, decoder: json.JSONDecoder) -> dict[str, Any]:
    try:
        record = decoder.decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        found = f"{error.msg} at {line}column {error.colno}"
        raise InputError(f"{place}: expected a JSON object, found broken JSON: {found}") from error
    except (ValueError, RecursionError) as error:  # absurd numbers, absurd nesting
        raise InputError(f"{place}: expected a JSON object, cannot be parsed: {error}") from error
    if not isinstance(record, dict):
        raise InputError(f"{place}: expected an object, found {json_type(record)}")
    return record
