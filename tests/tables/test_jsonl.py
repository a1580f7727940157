"""The file of questions on tables: what is written is read, and what is wrong is named."""

import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.jsonl import read_table, read_table_questions
from hardem_jax.tables.table import Table
from tests.tiny import write_table_questions

TABLE = Table("1-1", ("player", "no."), ("text", "real"), (('an"n', 7.0), (None, 9), ("", None)))
OTHER = Table("1-2", ("x", "x"), ("text", "text"), ())


def question(id="train-0", table=TABLE, answer=("an\u2028n",), **changes):
    return TableQuestion(id, "Who wears\n7?", table, answer, **changes)


@pytest.fixture
def read(tmp_path):
    """Writes objects, or raw text, one a line, and reads the questions."""

    def run(*records, raw=None):
        file = tmp_path / "train.jsonl"
        lines = "".join(json.dumps(record) + "\n" for record in records) if raw is None else raw
        file.write_text(lines, encoding="utf-8")
        skips = ExclusionCounts()
        return list(read_table_questions(file, skips=skips)), skips

    return run


def test_what_is_written_is_read(tmp_path):
    questions = [
        question("a"),
        question("b", OTHER, (None,)),
        question("c", answer=()),
        question("d", answer=("7", "x"), match="denotation", values=("7.0", "x")),
        question("e", answer=(7, 7.5, float("inf"))),
    ]
    file = write_table_questions(tmp_path / "train.jsonl", questions)
    skips = ExclusionCounts()
    found = list(read_table_questions(file, skips=skips))
    assert found == questions and skips.total == 0
    assert [type(cell) for cell in found[4].answer] == [int, float, float]
    assert found[0].table is found[2].table


def test_answers_as_texts():
    assert question(answer=("a", "")).answer_texts == ("a", "")
    with pytest.raises(TypeError, match="train-0: expected texts, found .'a', 7"):
        _ = question(answer=("a", 7)).answer_texts


def table(**changes):
    record = {"id": "1-1", "header": ["p", "n"], "types": ["text", "real"], "rows": [["a", 7]]}
    return {"table": {key: value for key, value in (record | changes).items() if value is not ...}}


def line(name="q", **changes):
    record = {"id": name, "question": "Who?", "table_id": "1-1", "answer": ["a"]}
    return {key: value for key, value in (record | changes).items() if value is not ...}


def test_a_denotation_needs_an_answer(read):
    questions, skips = read(table(), line("a"), line("bad", answer=[], match="denotation"))
    assert [question.id for question in questions] == ["a"]
    assert skips.left_out == [("bad", "no answer given")]


def test_a_table_may_stand_there_twice_but_not_change(read):
    questions, _ = read(table(), line("a"), table(), line("b"))
    assert questions[0].table is questions[1].table
    with pytest.raises(InputError, match="line 3: expected one table '1-1', found a second one"):
        read(table(), line("a"), table(rows=[]), line("b"))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ((line(),), r"line 1 \(q\): expected a table '1-1' in a line before, found none"),
        ((table(), line(table_id=...)), "line 2 .*expected a table None"),
        ((table(), line(match="f1")), "expected 'match' to be one of .*found f1"),
        ((table(), line(values=["1", "2"])), "expected 1 under 'values', found 2"),
        ((table(), line(answer=[7], match="denotation")), "each element of 'answer' to be a str"),
        ((table(id=...),), "line 1: expected a table with 'id', found one without"),
        ((table(rows=[["a"]]),), r"line 1 \(1-1\): table 1-1, row 0: expected 2 cells, found 1"),
        ((table(types=["text"]),), "line 1 .*2 names, 1 types"),
        ((table(types=["text", "date"]),), "expected text or real columns, found"),
    ],
)
def test_another_layout_is_an_error(read, records, message):
    with pytest.raises(InputError, match=message) as caught:
        read(*records)
    assert "train.jsonl: line" in str(caught.value) and "\n" not in str(caught.value)


def test_rows_are_fitted_only_if_that_is_asked_for():
    record = table(rows=[["A"], ["B", 1, 2], []])["table"]
    skips = ExclusionCounts()
    found = read_table(record, "x", lower=True, skips=skips)
    assert found.rows == (("a", None), ("b", 1), (None, None))
    assert skips.warnings_as_dict() == {"table with rows of different lengths, padded": 1}
    with pytest.raises(InputError, match="expected 2 cells, found 1"):
        read_table(record, "x")


PLAYERS = 'player,goals\n"Ann ""A"", Jr.",3\nBo,5\n'
HEAD = "question,table,answer\n"
IN_CSV = """question,table,answer,note
"Who scored 5 goals, if any?",players.csv,Bo,x

Who scored?,players.csv,"Ann ""A"", Jr.|Bo",
How many by Bo?,more/clubs.tsv,5
"""


@pytest.fixture
def written(tmp_path):
    """Writes table files, and questions under some name, and reads these."""

    def run(name, content):
        (tmp_path / "tables" / "more").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tables" / "players.csv").write_text(PLAYERS)
        (tmp_path / "tables" / "more" / "clubs.tsv").write_text('who\tn\n"Bo\t5\n')
        (tmp_path / name).write_text(content)
        return list(read_table_questions(tmp_path / name, skips=ExclusionCounts()))

    return run


def test_questions_and_tables_may_be_csv_files(written):
    found = written("train.csv", IN_CSV)
    assert [(q.id, q.answer, q.match) for q in found] == [
        ("train-0", ("Bo",), "cells"),
        ("train-1", ('Ann "A", Jr.', "Bo"), "cells"),
        ("train-2", ("5",), "cells"),
    ]
    assert found[0].question == "Who scored 5 goals, if any?"
    assert found[0].table is found[1].table and found[0].table.id == "players.csv"
    assert found[0].table.rows == (('Ann "A", Jr.', 3.0), ("Bo", 5.0))
    assert found[2].table.rows == (('"Bo', 5.0),)


def test_columns_of_csv_are_the_names_of_json_lines(written):
    header = "Match\tid\tQuestion\tTABLE\tanswer\tvalues\n"
    row = "denotation\tmine\tHow long?\tplayers.csv\ttwo years\t2.0\n"
    [in_tsv] = written("dev.tsv", header + row)
    fields = {"id": "mine", "question": "How long?", "table": "players.csv"}
    fields |= {"answer": ["two years"], "values": ["2.0"], "match": "denotation"}
    assert [in_tsv] == written("dev.jsonl", json.dumps(fields))
    assert in_tsv.values == ("2.0",) and in_tsv.match == "denotation"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "question,answer\nWho?,Bo\n", "line 1: expected the columns .* named table"),
        ("a.csv", HEAD + "Who?,no.csv,Bo\n", "line 2: expected a table file .*no.csv, found none"),
        ("a.csv", HEAD + "Who?,,Bo\n", "line 2: expected a path inside .* found ''"),
        ("a.csv", HEAD + "Who?,/etc/passwd,Bo\n", "line 2: expected a path inside"),
        ("a.csv", HEAD + "Who, then?,players.csv,Bo\n", "line 2: expected at most 3 cells"),
        ("a.csv", f"match,{HEAD}f1,Who?,players.csv,Bo\n", "line 2 .*'match' to be one of"),
        ("a.csv", "", "expected a line with the names of columns"),
        ("a.csv", "question,answer,table,answer\n", "line 1: .* found 'answer' twice"),
        (
            "a.jsonl",
            '{"id": "q", "question": "?", "table": "../a"}',
            "line 1: expected a path inside",
        ),
    ],
)
def test_broken_files_of_files_are_one_line(written, name, content, message):
    with pytest.raises(InputError, match=message) as caught:
        written(name, content)
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_what_csv_lacks_is_counted(tmp_path, written):
    written("train.csv", HEAD + ",players.csv,Bo\nWho?,players.csv,\n")
    skips = ExclusionCounts()
    assert list(read_table_questions(tmp_path / "train.csv", skips=skips)) == []
    assert skips.left_out == [("train-0", "empty question"), ("train-1", "no answer given")]
