"""The file of questions on tables: what is written is read, and what is wrong is named."""

import dataclasses
import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.jsonl import read_table_questions
from hardem_jax.tables.table import Table
from tests.tiny import write_table_questions

TABLE = Table("1-1", ("player", "no."), ("text", "real"), (('an"n', 7.0), (None, 9), ("", None)))
OTHER = Table("1-2", ("x", "x"), ("text", "text"), ())

PLAYERS = 'player,goals\n"Ann ""A"", Jr.",3\nBo,5\n'
HEAD = "question,table,answer\n"
IN_CSV = """question,table,answer,note
"Who scored 5 goals, if any?",players.csv,Bo,x

Who scored?,players.csv,"Ann ""A"", Jr.|Bo",
How many by Bo?,more/clubs.tsv,5
"""


def question(id="train-0", table=TABLE, answer=("an\u2028n",), **changes):
    return TableQuestion(id, "Who wears\n7?", table, answer, **changes)


@pytest.fixture
def read(tmp_path):
    """Writes questions, as objects one a line or as text, beside table files, and reads them."""

    def run(*records, name="train.jsonl", text=None):
        (tmp_path / "tables" / "more").mkdir(parents=True, exist_ok=True)
        (tmp_path / "tables" / "players.csv").write_text(PLAYERS)
        (tmp_path / "tables" / "more" / "clubs.tsv").write_text('who\tn\n"Bo\t5\n')
        lines = "".join(json.dumps(record) + "\n" for record in records) if text is None else text
        (tmp_path / name).write_text(lines, encoding="utf-8")
        skips = ExclusionCounts()
        return list(read_table_questions(tmp_path / name, skips=skips)), skips

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
    read = [dataclasses.replace(question, question="Who wears 7?") for question in questions]
    read[0] = dataclasses.replace(read[0], answer=("an n",))
    assert found == read and skips.total == 0
    assert [type(cell) for cell in found[4].answer] == [int, float, float]
    assert found[0].table is found[2].table


def table(**changes):
    record = {"id": "1-1", "header": ["p", "n"], "types": ["text", "real"], "rows": [["a", 7]]}
    return {"table": {key: value for key, value in (record | changes).items() if value is not ...}}


def line(name="q", **changes):
    record = {"id": name, "question": "Who?", "table_id": "1-1", "answer": ["a"]}
    return {key: value for key, value in (record | changes).items() if value is not ...}


def test_a_table_may_stand_there_twice_but_not_change(read):
    questions, _ = read(table(), line("a"), table(), line("b"))
    assert questions[0].table is questions[1].table
    with pytest.raises(InputError, match="line 3: expected one table '1-1', found a second one"):
        read(table(), line("a"), table(rows=[]), line("b"))


def test_cells_have_one_blank_for_white_space_as_those_of_csv(read):
    lines = (line(match, answer=["Bo  Li "], match=match) for match in ("cells", "execution"))
    (asked, exact), _ = read(table(rows=[["Bo  Li ", 7]]), *lines)
    assert asked.table.rows == (("Bo Li", 7),)
    assert (asked.answer, exact.answer) == (("Bo  Li ",), ("Bo Li",))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ((line(),), r"line 1 \(q\): expected a table '1-1' in a line before, found none"),
        ((table(), line(table_id=...)), "line 2: expected a column 'table' "),
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


def test_questions_and_tables_may_be_csv_files(read):
    found, _ = read(name="train.csv", text=IN_CSV)
    assert [(q.id, q.answer, q.match) for q in found] == [
        ("train-0", ("Bo",), "cells"),
        ("train-1", ('Ann "A", Jr.', "Bo"), "cells"),
        ("train-2", ("5",), "cells"),
    ]
    assert found[0].question == "Who scored 5 goals, if any?"
    assert found[0].table is found[1].table and found[0].table.id == "players.csv"
    assert found[0].table.rows == (('Ann "A", Jr.', 3.0), ("Bo", 5.0))
    assert found[2].table.rows == (('"Bo', 5.0),)


def test_columns_of_csv_are_the_names_of_json_lines(read):
    header = "Match\tid\tQuestion\tTABLE\tanswer\tvalues\n"
    row = "denotation\tmine\tHow long?\tplayers.csv\ttwo years\t2.0\n"
    [in_tsv], _ = read(name="dev.tsv", text=header + row)
    fields = {"id": "mine", "question": "How long?", "table": "players.csv"}
    fields |= {"answer": ["two years"], "values": ["2.0"], "match": "denotation"}
    assert [in_tsv] == read(fields)[0]
    assert in_tsv.values == ("2.0",) and in_tsv.match == "denotation"


def test_ids_are_those_of_documents(read):
    """Frames have NaN for a missing one, and make others floats."""
    found, _ = read(table(), *(line(id=id) for id in (..., None, "", float("nan"), 7.0, "x")))
    assert [question.id for question in found] == [*(f"train-{n}" for n in range(1, 5)), "7", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,answer\nWho?,Bo\n", "line 2: expected a column 'table' .*found 'question'"),
        (HEAD + "Who?,no.csv,Bo\n", "line 2: expected a table file .*no.csv, found none"),
        (HEAD + "Who?,,Bo\n", "line 2: expected a path inside .* found ''"),
        (HEAD + "Who?,/etc/passwd,Bo\n", "line 2: expected a path inside"),
        (HEAD + "Who?,../a,Bo\n", "line 2: expected a path inside"),
        (f"match,{HEAD}f1,Who?,players.csv,Bo\n", "line 2 .*'match' to be one of"),
    ],
)
def test_broken_files_of_files_are_one_line(read, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read(name="a.csv", text=text)
    assert "a.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_questions_without_an_answer_are_counted(read):
    found, skips = read(table(), line("a"), line("bad", answer=[], match="denotation"))
    assert [question.id for question in found] == ["a"]
    assert skips.left_out == [("bad", "no answer given")]
    _, skips = read(table(), line(answer=float("nan")))
    assert skips.left_out == [("q", "no answer given")]
    rows = ",players.csv,Bo\nWho?, players.csv ,\n,,\n"  # spreadsheets leave empty ones at the end
    _, skips = read(name="train.csv", text=HEAD + rows)
    reasons = ("empty question", "no answer given", "empty question")
    assert skips.left_out == [(f"train-{n}", reason) for n, reason in enumerate(reasons)]
    with pytest.raises(TypeError, match="train-0: expected texts, found .'a', 7"):
        _ = question(answer=("a", 7)).answer_texts
