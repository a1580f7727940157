r"""Reader for WikiTableQuestions 1.0.2 in its official layout (Pasupat and Liang, 2015).

    data/{split}.tsv           id, utterance, context, targetValue
    csv/204-csv/590.csv        the table of that context
    tagged/data/{name}.tagged  the same questions with more columns, of which `targetCanon`; one
                               file, "training", for all random splits

In the TSV files, a backslash precedes what is not meant literally: ``\n`` is a line break, ``\p`` a
pipe, ``\\`` a backslash; items of an answer are separated by pipes. In the CSV files, it stands
before quotation marks and backslashes within quotes.

No query is given: one is right if its result matches the answer, see `hardem_jax.tables.metrics`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from hardem_jax.data.csv import parse_csv
from hardem_jax.data.exclusions import EMPTY_QUESTION, NO_ANSWER, NO_ID, ExclusionCounts
from hardem_jax.data.json_stream import PathLike, read_text
from hardem_jax.errors import InputError
from hardem_jax.tables.csv import file_inside, make_table
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.jsonl import RAGGED
from hardem_jax.tables.table import Table

# Reason of `ExclusionCounts`, for questions left out:
MISSING_TABLE = "table file missing"
# and warning, for questions kept:
EMPTY_TABLE = "table without rows"

_COLUMNS = ("id", "utterance", "context", "targetValue")
_ESCAPE = re.compile(r"\\([np\\])")
_ESCAPED = {"n": "\n", "p": "|", "\\": "\\"}


def read_wikitablequestions(
    folder: PathLike, split: str, *, skips: ExclusionCounts, tagged: bool = False
) -> Iterator[TableQuestion]:
    """Streams the questions of a split, such as "random-split-1-train", in the order of the file.

    Tables are those of `make_table`, which says what a column of numbers is. Cells are in lower
    case (the evaluator ignores case), and dates are text (a condition compares them with words of
    the question). ``tagged`` uses `targetCanon` of the same question in `tagged/data` as the
    `values`, which the official evaluator compares; otherwise they are read out of the answers.

    ``skips`` counts what is left out, by id or line: no question id, empty question, no answer
    given, table file missing. It is warned, by table, of rows of different lengths, which are
    filled up, and of a table without rows.

    Raises:
        InputError: a file is missing, broken or not in this layout, or a question is not tagged.
    """
    file = Path(folder, "data", f"{split}.tsv")
    tagged_file = Path(folder, tagged_name(split)) if tagged else None
    values = {} if tagged_file is None else _values(tagged_file)
    tables: dict[str, Table | None] = {}
    for number, record in _records(file, _COLUMNS):
        id, context = record["id"].strip(), record["context"]
        if not id:
            skips.add(NO_ID, f"{file}: line {number}")
            continue
        if context not in tables:
            tables[context] = _read_table(Path(folder), context, f"{file}: line {number}", skips)
        answer = unescape_list(record["targetValue"])
        if reason := _defect(record, tables[context]):
            skips.add(reason, id)
            continue
        if tagged_file is not None and len(values.get(id, ())) != len(answer):
            expected = f"expected {len(answer)} values under 'targetCanon' for question {id}"
            raise InputError(f"{tagged_file}: {expected}, found {len(values.get(id, ()))}")
        table = tables[context]
        assert table is not None
        question = unescape(record["utterance"])
        yield TableQuestion(id, question, table, answer, "denotation", values.get(id))


def tagged_name(split: str) -> str:
    """The tagged file that has the questions of a split, inside the data set."""
    name = "training" if split.startswith("random-split-") else split
    return f"tagged/data/{name}.tagged"


def _values(file: Path) -> dict[str, tuple[str, ...]]:
    """`targetCanon` by question id."""
    records = _records(file, ("id", "targetCanon"))
    return {record["id"].strip(): unescape_list(record["targetCanon"]) for _, record in records}


def unescape(field: str) -> str:
    r"""The text that a field of a TSV file stands for."""
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], field)


def unescape_list(field: str) -> tuple[str, ...]:
    """The items of a field that holds a list."""
    return tuple(unescape(item) for item in field.split("|"))


def _records(file: Path, wanted: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number from 1, the wanted columns) of every line of a TSV file that is not blank."""
    # Lines end at "\n" alone: what else Python treats as a line end may occur in a text.
    lines = read_text(file).split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if missing := [column for column in wanted if column not in header]:
        expected = f"expected the columns {', '.join(wanted)} in the first line"
        raise InputError(f"{file}: {expected}, found none named {missing[0]}")
    for number, line in enumerate(lines[1:], start=2):
        fields = line.rstrip("\r").split("\t")
        if fields == [""]:
            continue
        if len(fields) != len(header):
            expected = f"expected {len(header)} fields separated by tabs"
            raise InputError(f"{file}: line {number}: {expected}, found {len(fields)}")
        record = dict(zip(header, fields, strict=True))
        yield number, {column: record[column] for column in wanted}


def _read_table(folder: Path, context: str, place: str, skips: ExclusionCounts) -> Table | None:
    """The table of a context; None if there is no such file."""
    file = file_inside(folder, context, place)
    if not os.path.isfile(file):  # pathlib's own raises on an over-long name
        return None
    lines = parse_csv(read_text(file), str(file), escapechar="\\", doublequote=False)
    rows = [row for _, row in lines]
    if not rows:
        raise InputError(f"{file}: expected a line with the names of columns, found an empty file")
    if len({len(row) for row in rows}) > 1:
        skips.warn(RAGGED, context)
    if len(rows) == 1:
        skips.warn(EMPTY_TABLE, context)
    return make_table(context, rows[0], rows[1:], official=True)


def _defect(record: dict[str, str], table: Table | None) -> str | None:
    if not record["utterance"].strip():
        return EMPTY_QUESTION
    if not record["targetValue"].strip():
        return NO_ANSWER
    return MISSING_TABLE if table is None else None
