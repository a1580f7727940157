"""Reader for passage collections: DPR's TSV, JSON lines, or a JSON list.

    id<TAB>text<TAB>title                       after a header; quoted fields may have line breaks
    {"id": ..., "title": ..., "text": ...}      one per line; `contents` (Pyserini) for `text`,
                                                which may have the title in its first line

A file without these columns is an error. A bad row in an otherwise good file is counted, and
reading continues with the next line, even after a quotation mark that is never closed.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Container, Iterator

from hardem_jax.data.exclusions import EMPTY_DOCUMENT, ExclusionCounts
from hardem_jax.data.json_fields import get_field, get_id, lacks
from hardem_jax.data.json_stream import PathLike, iter_json_records, iter_lines, long_csv_fields
from hardem_jax.documents.examples import Passage
from hardem_jax.errors import InputError

# Reasons of `ExclusionCounts`, for passages left out:
NO_PASSAGE_ID = "no passage id"
BAD_FIELDS = "row with another number of fields"
BAD_QUOTES = "row with a quotation mark out of place or never closed"
REPEATED_ID = "passage id occurs again"

_COLUMNS = ("id", "text", "title")
# Of one row, if a quotation mark was not closed in its first line.
_MOST_LINES = 1000
# With which Pyserini begins the passages of DPR's Wikipedia.
_TITLE_LINE = re.compile(r'"(?P<title>[^\n]*)"\n')


def read_passages(
    path: PathLike,
    *,
    skips: ExclusionCounts,
    only: Container[str] | None = None,
) -> Iterator[Passage]:
    """Streams the passages of a file: JSON if named `.jsonl` or `.json`, else TSV, also ``.gz``.

    `skips` counts what is left out: another number of fields than the header, misplaced quotation
    marks, no id, no text, an id seen before. Passages that are not in `only` take no memory.
    """
    name = str(path).removesuffix(".gz")
    is_json = name.endswith((".jsonl", ".json"))
    rows = _json_rows(path) if is_json else _tsv_rows(path, skips)
    seen: set[str] = set()
    for place, passage in rows:
        if not passage.id:
            skips.add(NO_PASSAGE_ID, place)
        elif only is not None and passage.id not in only:
            continue
        elif not passage.text.strip():
            skips.add(EMPTY_DOCUMENT, passage.id)
        elif passage.id in seen:
            skips.add(REPEATED_ID, passage.id)
        else:
            seen.add(passage.id)
            yield passage


def _json_rows(path: PathLike) -> Iterator[tuple[str, Passage]]:
    for _, place, record in iter_json_records(path):
        key = "text" if "text" in record else "contents"
        if key not in record:
            raise lacks(record, "'text' or 'contents'", place)
        id = get_id(record, "id", place) or get_id(record, "_id", place) or ""
        text = get_field(record, key, str, place) or ""
        title = get_field(record, "title", str, place) or ""
        if key == "contents" and not title and (first := _TITLE_LINE.match(text)):
            title, text = first["title"], text[first.end() :]
        yield place, Passage(id, title, text)


def _tsv_rows(path: PathLike, skips: ExclusionCounts) -> Iterator[tuple[str, Passage]]:
    lines = iter_lines(path)
    waiting: deque[tuple[int, str]] = deque()

    def take() -> tuple[int, str] | None:
        return waiting.popleft() if waiting else next(lines, None)

    def parse(first: str) -> list[str] | None:
        """The fields of the row that begins with a line; None if its quoting is broken, and the
        lines behind it come again."""
        if '"' not in first:
            return first.rstrip("\r\n").split("\t")
        pulled: list[tuple[int, str]] = []

        def row() -> Iterator[str]:
            yield first
            while len(pulled) < _MOST_LINES and (line := take()) is not None:
                pulled.append(line)
                yield line[1]

        try:
            with long_csv_fields():
                return next(csv.reader(row(), delimiter="\t", strict=True))
        except csv.Error:
            waiting.extendleft(reversed(pulled))
            return None

    header = parse((take() or (0, ""))[1].removeprefix("\ufeff")) or []
    if missing := [column for column in _COLUMNS if column not in header]:
        expected = f"expected the columns {', '.join(_COLUMNS)} in the first line"
        raise InputError(f"{path}: {expected}, found none named {missing[0]}")
    places = [header.index(column) for column in _COLUMNS]
    while (line := take()) is not None:
        number, text = line
        if not text.strip("\r\n"):
            continue
        fields = parse(text)
        if fields is None:
            skips.add(BAD_QUOTES, f"line {number}")
        elif len(fields) != len(header):
            skips.add(BAD_FIELDS, f"line {number}")
        else:
            id, passage, title = (fields[column] for column in places)
            yield f"{path}: line {number}", Passage(id.strip(), title, passage)
