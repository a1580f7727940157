"""Reader for WikiTableQuestions: the two formats and their escapes, defects, and the real data."""

import dataclasses
import re

import pytest

from hardem_jax.data.csv import parse_csv
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.tables.csv import read_csv_table
from hardem_jax.tables.metrics import Denotation
from hardem_jax.tables.wikitablequestions import read_wikitablequestions, unescape

HEADER = ("id", "utterance", "context", "targetValue")
TABLE = '"Year","City"\n"2004","Bonn"\n"2008","Rome"\n'


@pytest.fixture
def read(tmp_path):
    """Writes lines of fields, or raw bytes, and tables, and reads them back."""

    def run(*lines, tables=None, raw=None, header=HEADER, split="dev", tagged=False):
        file = tmp_path / "data" / f"{split}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join("\t".join(fields) + "\n" for fields in (header, *lines))
        file.write_bytes(text.encode() if raw is None else raw)
        for name, content in ({"csv/1.csv": TABLE} if tables is None else tables).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        skips = ExclusionCounts()
        return list(read_wikitablequestions(tmp_path, split, skips=skips, tagged=tagged)), skips

    return run


def line(id="nt-0", question="which city in 2004?", context="csv/1.csv", answer="Bonn"):
    return id, question, context, answer


def test_reads_a_question(read):
    [question, again], skips = read(line(), line("a", r"AC\pDC\nor?", answer=r"x\py|c\\|d"))
    assert (question.id, question.question) == ("nt-0", "which city in 2004?")
    assert (again.question, again.answer) == ("AC|DC\nor?", ("x|y", "c\\", "d"))
    assert question.table.id == "csv/1.csv" and question.table.header == ("Year", "City")
    assert question.table.types == ("real", "text")
    assert question.table.rows == ((2004.0, "bonn"), (2008.0, "rome"))
    assert (question.answer, question.match, question.values) == (("Bonn",), "denotation", None)
    assert skips.total == 0 and skips.warnings_as_dict() == {}


def test_unescape():
    texts = {r"a\nb": "a\nb", r"a\pb": "a|b", r"a\\b": "a\\b", r"a\\\nb": "a\\\nb", "a\\": "a\\"}
    texts |= {r"a\\nb": r"a\nb", r"\x\ ": r"\x\ ", "": ""}  # a backslash and an n; neither
    assert {field: unescape(field) for field in texts} == texts


def test_poor_tables_are_warned_of_once(read):
    ragged = '"A","B"\n"1"\n"2","x","y"\n'
    tables = {"csv/1.csv": ragged, "csv/2.csv": '"A","B"\n'}
    questions, skips = read(line("a"), line("b"), line("b", context="csv/2.csv"), tables=tables)
    assert [question.id for question in questions] == ["a", "b", "b"]
    assert questions[0].table.header == ("A", "B", "")
    assert questions[0].table.rows == ((1.0, "", ""), (2.0, "x", "y"))
    assert questions[2].table.rows == () and questions[2].table.types == ("text", "text")
    assert skips.warnings_as_dict() == {
        "table with rows of different lengths, padded": 1,
        "table without rows": 1,
    }
    assert questions[0].table is questions[1].table


def test_what_is_left_out_is_counted_and_the_others_are_read(read):
    bad = [line(id=""), line("no", question=" "), line("bad", answer=" ")]
    questions, skips = read(line("a"), *bad, line("none", context="csv/9.csv"), line("b"))
    assert [question.id for question in questions] == ["a", "b"]
    reasons = ("no question id", "empty question", "no answer given", "table file missing")
    assert skips.as_dict() == dict.fromkeys(reasons, 1)
    assert skips.ids("no question id")[0].endswith("line 3")
    assert skips.ids("table file missing") == ("none",)


@pytest.mark.parametrize("split", ["random-split-3-dev", "pristine-unseen-tables"])
def test_values_are_those_of_the_same_question_in_the_tagged_file(read, tmp_path, split):
    """The release has one tagged file for the questions of all random splits."""
    name = "training" if "random" in split else split
    tagged = tmp_path / "tagged" / "data" / f"{name}.tagged"
    tagged.parent.mkdir(parents=True)

    def write(*values):
        rows = [(*line(f"nt-{i}", answer="-"), "which|city", v) for i, v in enumerate(values)]
        lines = [(*HEADER, "tokens", "targetCanon"), *rows]
        tagged.write_text("".join("\t".join(row) + "\n" for row in lines))

    write("7.0", "10.0|xxxx-07-09")
    asked = line("nt-1", answer="10 years|July 9")
    (question,), _ = read(asked, split=split, tagged=True)
    assert question.answer == ("10 years", "July 9") and question.values == ("10.0", "xxxx-07-09")
    with pytest.raises(InputError, match="expected 1 values under 'targetCanon' for question nt-1"):
        read(line("nt-1"), split=split, tagged=True)
    write("7.0")
    with pytest.raises(InputError, match=f"{name}.tagged: expected 2 values .* nt-1, found 0"):
        read(asked, split=split, tagged=True)


PATH = "line 2: expected a path inside the data set, found"


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        (line(), {"header": HEADER[:3]}, "found none named targetValue"),
        (line(), {"raw": b""}, "dev.tsv: expected the columns id, utterance"),
        (line(), {"raw": b"\xff"}, "byte 0: expected UTF-8 text, found 0xff"),
        (line(), {"tables": {"csv/1.csv": ""}}, "1.csv: expected a line with the names of columns"),
        (line(), {"tables": {"csv/1.csv": '"a","b\n'}}, "1.csv: line 1: expected comma-separated"),
        (line(), {"tables": {"csv/1.csv": b'"caf\xe9"\n'}}, "1.csv: byte 4: expected UTF-8.*0xe9"),
        (line()[:3], {}, "line 2: expected 4 fields separated by tabs, found 3"),
        *((line(context=context), {}, PATH) for context in ("", "/etc/passwd", "../../secret.csv")),
    ],
)
def test_broken_files_are_one_line(read, fields, options, message):
    with pytest.raises(InputError, match=message) as caught:
        read(fields, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("part", "count"), [("train", 11321), ("dev", 2831)])
def test_real_data_is_read_whole(shared_dir, part, count):
    """And each table as `predict --table` reads it, but for the case of cells and for codes."""
    folder, skips = shared_dir / "data/wikitablequestions", ExclusionCounts()
    questions = list(read_wikitablequestions(folder, f"random-split-1-{part}", skips=skips))
    assert len(questions) == count and skips.total == 0 and skips.warnings_as_dict() == {}
    assert len({question.id for question in questions}) == count
    with_codes = 0
    for table in {question.table.id: question.table for question in questions}.values():
        found = read_csv_table(folder / table.id, id=table.id)
        rows = [[x.lower() if isinstance(x, str) else x for x in row] for row in found.rows]
        codes = [n for n, kind in enumerate(found.types) if kind != table.types[n]]
        for n in codes:
            assert any(re.fullmatch("0[0-9]{2,}", row[n]) for row in rows), (table.id, n)
        for row, expected in zip(rows, table.rows, strict=True):
            for n in codes:
                row[n] = expected[n]
        assert dataclasses.replace(found, types=table.types, rows=rows) == table
        with_codes += bool(codes)
    assert with_codes == {"train": 4, "dev": 2}[part]


def test_no_real_answer_is_lost_by_the_type_of_a_column(shared_dir):
    """Where a cell's text is the answer, so is the number it was turned into."""
    folder, skips = shared_dir / "data/wikitablequestions", ExclusionCounts()
    pairs = answers = 0
    for question in read_wikitablequestions(folder, "random-split-1-dev", skips=skips):
        target, table = Denotation(question.answer_texts), question.table
        text = (folder / table.id).read_bytes().decode()
        _, *rows = parse_csv(text, table.id, escapechar="\\", doublequote=False)
        for place in (place for place, kind in enumerate(table.types) if kind == "real"):
            for (_, texts), cells in zip(rows, table.rows, strict=True):
                if cells[place] is not None:
                    pairs += 1
                    if target.matches([texts[place]]):
                        answers += 1
                        assert target.matches([cells[place]]), (question.id, texts[place])
    assert pairs > 100_000 and answers > 1_000
