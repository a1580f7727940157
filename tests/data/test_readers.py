"""What every reader makes of a poor record, which it counts, and of a malformed one, an error.

Each layout is a file of three records; a case changes the second, or what lies around it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.squad import read_squad_layout, read_squad_rows
from hardem_jax.equations.readers import read_drop
from hardem_jax.errors import InputError
from hardem_jax.queries.readers import read_wikisql
from hardem_jax.spans.readers.dpr import read_contexts
from hardem_jax.spans.readers.open_questions import read_nq_open
from hardem_jax.spans.readers.triviaqa import read_triviaqa
from hardem_jax.tables.jsonl import read_table_questions

IDS = ("a", "bad", "b")
BLANK = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": []}
TABLE = {"id": "1-1", "header": ["who", "no."], "types": ["text", "real"], "rows": [["bo", 7]]}
SQL = {"sel": 0, "agg": 0, "conds": [[1, 0, 7]]}
ROME = {"text": "Rome", "answer_start": 0}


class Layout(NamedTuple):
    """A file of this content, a list for lines, how errors name its second record, and the files
    beside it."""

    read: Callable[..., Iterable[Any]]
    content: Any
    second: str = "1"
    place: str = "line 2"
    beside: Mapping[str, str] = {}
    name: str = "dev.json"

    def files(self, content: Any) -> dict[str, str]:
        """Name -> text, with this content of the file."""
        lines = content if isinstance(content, list) else [content]
        return {**self.beside, self.name: "\n".join(map(json.dumps, lines))}


def write_files(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


SQUAD = [{"id": id, "question": "?", "answers": [ROME]} for id in IDS]
DROP = [
    {"query_id": id, "question": "?", "answer": BLANK | {"number": "3"}}
    | {"validated_answers": [BLANK | {"spans": ["3"]}]}
    for id in IDS
]
TRIVIAQA = [
    {"QuestionId": id, "Question": "?", "EntityPages": [{"Filename": "Rome.txt"}]}
    | {"SearchResults": [], "Answer": {"NormalizedAliases": ["rome"]}}
    for id in IDS
]
LAYOUTS = {
    "drop": Layout(
        read_drop,
        {"nfl": {"passage": "A 41-yard goal.", "qa_pairs": DROP}},
        "nfl/qa_pairs/1",
        "nfl, question 1",
    ),
    "squad": Layout(
        read_squad_layout,
        {"data": [{"title": "T", "paragraphs": [{"context": "Rome fell.", "qas": SQUAD}]}]},
        "data/0/paragraphs/0/qas/1",
        "item 0 of 'data', paragraph 0, question 1",
    ),
    "squad rows": Layout(
        read_squad_rows,
        [
            {"id": id, "context": "Rome fell.", "question": "?"}
            | {"answers": {"text": ["Rome"], "answer_start": [0]}}
            for id in IDS
        ],
    ),
    "triviaqa": Layout(
        lambda file, **options: read_triviaqa(file, file.parent, **options),
        {"Data": TRIVIAQA, "Domain": "Wikipedia", "VerifiedEval": False},
        "Data/1",
        "item 1 of 'Data'",
        {"wikipedia/Rome.txt": "Rome is old.", "wikipedia/blank.txt": " \n"},
    ),
    "tables": Layout(
        read_table_questions,
        [
            {"table": TABLE},
            *(
                {"id": id, "question": "?", "table_id": "1-1", "answer": ["a"], "values": ["a"]}
                for id in IDS
            ),
        ],
        "2",
        "line 3",
    ),
    "wikisql": Layout(
        lambda file, **options: read_wikisql(file.parent, "dev", **options),
        [{"phase": 1, "table_id": "1-1", "question": "?", "sql": SQL} for _ in IDS],
        beside={"dev.tables.jsonl": json.dumps(TABLE)},
        name="dev.jsonl",
    ),
    "nq open": Layout(
        read_nq_open, [{"id": id, "question": "who", "answer": ["Ada"]} for id in IDS]
    ),
    "dpr": Layout(
        read_contexts,
        [
            {"id": id, "question": "who", "answers": ["Ada"], "ctxs": [{"id": "7", "text": "x"}]}
            for id in IDS
        ],
    ),
}


def read(folder, name, path, value, **options):
    """Reads the layout with this value, or none for `...`, at a path of the record or the file."""
    layout = LAYOUTS[name]
    keys = path[1:] if path.startswith("/") else f"{layout.second}/{path}".rstrip("/")
    content = at = json.loads(json.dumps(layout.content))
    *parents, last = (int(key) if key.isdecimal() else key for key in keys.split("/"))
    for key in parents:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    write_files(folder, layout.files(content))
    skips = ExclusionCounts()
    return list(layout.read(folder / layout.name, skips=skips, **options)), skips


def cases(table):
    """Each row of a table of layouts, behind the layout's name."""
    return [(name, *row) for name, rows in table.items() for row in rows]


# The fields of the id, the question and the answers; None where a record may lack one.
FIELDS = {
    "drop": ("query_id", "question", "answer"),
    "squad": ("id", "question", "answers"),
    "triviaqa": ("QuestionId", "Question", "Answer"),
    "tables": (None, "question", "answer"),
    "wikisql": (None, "question", None),
}
NO_WORD = "no word left in the question after normalisation"
NO_NUMBERS = ("three", "12 yards", "12%", "nan", "inf", "1_000", "1,00", "--3", "²", ".")
OUTSIDE = "query for columns or operators that there are not"
POOR = {
    "drop": [
        *(("answer", a, "no answer given") for a in ({}, BLANK, BLANK | {"number": " "})),
        ("answer", BLANK | {"spans": ["three"]}, "answer is a text span"),
        ("answer", BLANK | {"spans": ["a", "b"]}, "several answer spans required"),
        ("answer", BLANK | {"date": {"month": "May"}}, "answer is a date"),
        ("answer", BLANK | {"date": {"year": "1990"}}, "answer is a date"),
        *(("answer/number", n, "answer is not a number") for n in NO_NUMBERS),
        *(("answer/number", n, "answer too large for float64") for n in ("-1e999", "9" * 400)),
    ],
    "squad": [
        *(("answers", a, "no answer given") for a in ([], [{"text": " ", "answer_start": 5}])),
        ("is_impossible", True, "marked impossible to answer"),
    ],
    "squad rows": [
        ("question", None, "empty question"),
        ("context", None, "empty document"),
        ("answers", {"text": [], "answer_start": []}, "no answer given"),
    ],
    "triviaqa": [
        ("QuestionId", " ", "no question id"),
        ("Answer/NormalizedAliases", ["", " "], "no answer given"),
        ("EntityPages", ..., "no document left"),
        ("EntityPages/0/Filename", "Nowhere.txt", "no document left"),
        ("EntityPages/0/Filename", "blank.txt", "no document left"),
    ],
    "wikisql": [
        *(("table_id", id, "no such table") for id in ("1-9", ...)),
        *(("sql/sel", column, OUTSIDE) for column in (2, -1)),
        ("sql/agg", 6, OUTSIDE),
        ("sql/conds", [[2, 0, 1]], OUTSIDE),
        ("sql/conds", [[1, 3, 1]], OUTSIDE),
    ],
    "nq open": [
        ("question", " ", "empty question"),
        *(("question", text, NO_WORD) for text in ("... ?", "the a")),
        ("answer", [" "], "no answer given"),
    ],
    "dpr": [
        ("question", " ", "empty question"),
        ("question", "?!", NO_WORD),
        ("answers", [], "no answer given"),
        ("ctxs", [], "no document left"),
        ("ctxs/0/text", " ", "no document left"),
    ],
}
for _name, (_id, *_fields) in FIELDS.items():
    _rows = [(_id, ..., "no question id")] if _id else []
    for _field, _reason in zip(_fields, ("empty question", "no answer given"), strict=True):
        _values = (..., None, " \n") if _reason == "empty question" else (..., None)
        if _name == "tables" and _field == "question":  # rows must have it
            _values = _values[1:]
        _rows += [(_field, value, _reason) for value in _values if _field]
    POOR[_name] = _rows + POOR.get(_name, [])


@pytest.mark.parametrize(("name", "path", "value", "reason"), cases(POOR))
def test_a_poor_record_is_counted_and_the_others_are_read(tmp_path, name, path, value, reason):
    examples, skips = read(tmp_path, name, path, value)
    ids = IDS if name != "wikisql" else ("dev-0", "dev-1", "dev-2")
    assert [example.id for example in examples] == [ids[0], ids[2]]
    assert skips.as_dict() == {reason: 1}
    place = LAYOUTS[name].place if reason == "no question id" else ids[1]
    assert place in skips.ids(reason)[0]


WRONG = {str: [], int: "7", list: {}, dict: [], bool: "no"}
KINDS = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "an object"}
KINDS |= {bool: "true or false", type(None): "null"}
# Not read, a cell, which may be a text or a number, or with a message of its own.
EXCEPT = {
    "wikisql": ["phase", "sql/conds/0"],
    "tables": ["/0/table/rows/0/1", "/0/table", "answer", "id"],
}
EXCEPT |= {"squad": ["/data"], "triviaqa": ["/Data"]}
EXCEPT["squad rows"] = ["answers"]  # a text or a list is read as well
# Values that are nearly right.
MORE = [
    ("squad", "answers/0/answer_start", 17.5, "an integer"),
    ("squad", "answers/0/answer_start", True, "an integer"),
    ("drop", "answer/number", True, "a string or a number"),
    ("triviaqa", "/Domain", 3, "a string"),
    ("tables", "answer/0", True, "a number, null or a string"),
    ("tables", "id", [], "a text"),
    ("wikisql", "sql/sel", None, "a position, which is an integer"),
    ("wikisql", "sql/agg", 1.5, "a position, which is an integer"),
    ("wikisql", "sql/conds/0/2", None, "a string or a number"),
    ("wikisql", "sql/conds/0/2", True, "a string or a number"),
]


def fields(value, path=""):
    """Every field below parsed JSON with its value, of lists the first element."""
    if isinstance(value, (dict, list)):
        parts = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, part in parts:
            yield f"{path}{key}", part
            yield from fields(part, f"{path}{key}/")


def wrong_types():
    """Each field of a record, and what lies around the records, with a value of another type."""
    for name, layout in LAYOUTS.items():
        content = at = json.loads(json.dumps(layout.content))
        for key in layout.second.split("/"):
            at = at[int(key) if key.isdecimal() else key]
        around = [(f"/{path}", value) for path, value in fields(content)]
        if isinstance(content, list):
            around = [(path, value) for path, value in around if path.startswith("/0/table")]
        for path, value in [*fields(at), *around]:
            if path not in EXCEPT.get(name, ()):
                yield name, path, WRONG[type(value)], KINDS[type(value)]
    yield from MORE


@pytest.mark.parametrize(("name", "path", "value", "expected"), list(wrong_types()))
def test_a_wrong_type_is_an_error_with_its_place(tmp_path, name, path, value, expected):
    with pytest.raises(InputError) as caught:
        read(tmp_path, name, path, value)
    message = str(caught.value)
    assert re.search(f"{expected}.*, found {KINDS[type(value)]}$", message)
    assert message.startswith(f"{tmp_path}/dev.") and "\n" not in message
    assert path.startswith("/") or LAYOUTS[name].place in message


@pytest.mark.parametrize("name", ["drop", "nq open", "dpr"])
def test_repeated_ids_are_warned_of(tmp_path, name):
    examples, skips = read(tmp_path, name, "query_id" if name == "drop" else "id", "a")
    assert [example.id for example in examples] == ["a", "a", "b"] and skips.total == 0
    assert skips.warnings_as_dict() == {"question id occurs again": 1}


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        *(("squad", "answers"), ("squad rows", "answers"), ("triviaqa", "Answer")),
        *(("nq open", "answer"), ("dpr", "answers")),
    ],
)
def test_prediction_needs_no_answers(tmp_path, name, answers):
    examples, skips = read(tmp_path, name, answers, ..., require_answers=False)
    assert [example.id for example in examples] == [*IDS] and skips.total == 0
    found = [x.answers if name == "nq open" else x.golds for x in examples]
    assert found[1] == () and found[0] and skips.warnings_as_dict() == {}


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name != "wikisql"])
def test_a_missing_file_is_an_error(tmp_path, name):
    file = tmp_path / "dev.json"
    write_files(tmp_path, LAYOUTS[name].beside)
    with pytest.raises(InputError, match=f"{file}: expected a file, found nothing of that name"):
        list(LAYOUTS[name].read(file, skips=ExclusionCounts()))
