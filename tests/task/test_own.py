"""Examples in a program become a trained reader, in a run folder as the commands write it."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas
import pytest

from hardem_jax import Reader, TableReader
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.rows import Columns
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.locks import InUse, locked
from hardem_jax.objectives import MML, FirstOnly
from hardem_jax.spans.commands import COMMANDS
from hardem_jax.tables.jsonl import read_table_questions
from hardem_jax.task.own import json_lines, rows_of
from hardem_jax.training.config import LoopConfig
from tests.cli.test_own_data import commands
from tests.commands import call
from tests.tiny import PEOPLE, PLACES, write_checkpoint

PAGE = "{0} saw Bo. {0} lives in {1}."
DOCUMENTS = [
    {"question": f"Who lives in {place}?", "answer": person, "text": PAGE.format(person, place)}
    for person, place in zip(PEOPLE, PLACES, strict=True)
]
SMALL = {"windows": WindowConfig(max_tokens=np.int64(32), stride=8, max_question_tokens=8)}


def contents(folder):
    """Every file below a folder, with the time it was last written."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("encoder") / "bert", positions=512, layers=3)


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        (DOCUMENTS, "expected at least 10, or others as dev, found 8 and 0 as dev"),
        ([], "found 0 and 0 as dev"),
        ([1] * 10, "example 0: expected a mapping, such as a dict, found int"),
        ("mine.csv", "examples: expected a list of rows or a DataFrame (of a file: hardem"),
        (None, "examples: expected a list of rows or a DataFrame"),
        ({"question": ["Who?"]}, "hardem TASK prepare), found dict"),
        ([{"question": "Who?", "text": "A"}] * 10, "example 'example-0': expected a column"),
        ([DOCUMENTS[0] | {"answer": "Zed"}] * 10, "answer not in the documents: 9 ("),
    ],
)
def test_examples_that_cannot_be_used_are_told(examples, said, bert, tmp_path):
    with pytest.raises(InputError) as error:
        Reader.from_examples(examples, encoder=bert, out=tmp_path / "run", **SMALL)
    assert said in str(error.value)
    assert not contents(tmp_path / "run")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"out": __file__}, "test_own.py.*: expected a folder"),
        ({"out": "gs://bucket/run"}, "out: expected a folder on a disk, found gs://bucket/run"),
        ({"num_steps": 2.5}, "num_steps: expected a whole number, found 2.5"),
        ({"columns": {"answer": "reply"}}, r"columns: .* such as Columns\(id=.*found dict {'an"),
        ({"objective": MML}, "objective: expected a dataclass, such as HardEM"),
    ],
)
def test_flags_of_a_wrong_kind_are_told(flags, said, bert, tmp_path):
    flags = {"encoder": bert, "dev": DOCUMENTS, "out": tmp_path / "run"} | flags
    with pytest.raises(InputError, match=said):
        Reader.from_examples(DOCUMENTS, **flags)


def test_a_flag_that_there_is_not_and_a_question_without_a_table_are_told(bert, tmp_path):
    options = {"encoder": bert, "out": tmp_path / "run"}
    with pytest.raises(InputError, match="batchs: expected one of .*perhaps you meant batches"):
        Reader.from_examples(DOCUMENTS, dev=DOCUMENTS, batchs=1, **options)
    with pytest.raises(InputError, match="example 0: expected a table under 'table', found quest"):
        TableReader.from_examples(DOCUMENTS, dev=DOCUMENTS, **options)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"num_steps": 80}, (80, 20)),
        ({"num_steps": 80, "loop": LoopConfig(9, monitor="em", eval_every=7)}, (80, 7)),
        ({"loop": LoopConfig(9, monitor="em", eval_every=3)}, (9, 3)),
    ],
)
def test_a_loop_that_is_given_is_evaluated_as_it_says(flags, expected, bert, tmp_path, monkeypatch):
    class Ended(Exception):
        """Instead of a training."""

    def run(command):
        raise Ended(command.loop.num_steps, command.loop.eval_every)

    monkeypatch.setattr(COMMANDS["train"], "run", run)
    with pytest.raises(Ended) as ended:
        Reader.from_examples(DOCUMENTS, dev=DOCUMENTS, encoder=bert, out=tmp_path, **flags, **SMALL)
    assert ended.value.args == expected


def test_rows_are_those_of_a_list_a_frame_or_whatever_yields_them():
    named = [row | {"id": f"example-{n}"} for n, row in enumerate(DOCUMENTS)]
    assert rows_of(pandas.DataFrame(DOCUMENTS)) == rows_of(iter(DOCUMENTS)) == named
    assert rows_of([{"query_id": 7}, {"id": "a"}, {}]) == [
        *({"query_id": 7}, {"id": "a"}, {"id": "example-2"})
    ]


def test_what_json_cannot_hold_is_left_out_or_told_if_it_is_needed():
    week = pandas.Timedelta(days=7)
    row = {"question": "Who?", "seen": week, "n": np.int64(3), "text": pandas.NA}
    text = json_lines([row | {"answer": x} for x in (["Ann", pandas.NaT], pandas.NaT)])
    kept = {"question": "Who?", "n": 3, "text": None}
    answers = (["Ann", None], None)
    assert [*map(json.loads, text.splitlines())] == [kept | {"answer": x} for x in answers]
    for columns, name in ((Columns(), "answer"), (Columns(answer="seen"), "seen")):
        with pytest.raises(InputError, match=f"example 'Who.': '{name}': expected .* a Timedelta"):
            json_lines([row | {"answer": [week]}], columns)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal("1.10"), "1.10"),
        (Decimal("inf"), "Infinity"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (pandas.Timestamp("2026-01-02"), "2026-01-02"),
        (np.datetime64("2026-01-02T03:04", "ns"), "2026-01-02 03:04:00"),
    ],
)
def test_decimals_and_dates_are_written_as_texts(value, written):
    assert json.loads(json_lines([{"answer": [value]}])) == {"answer": [written]}


@pytest.mark.slow
def test_documents_become_a_reader_that_the_commands_read(bert, tmp_path, capsys, monkeypatch):
    examples = pandas.DataFrame(DOCUMENTS).rename(columns={"answer": "reply"})
    options = {"encoder": bert, "num_steps": 2, "objective": MML(), **SMALL}
    options |= {"columns": Columns(answer="reply"), "dev": examples, "out": tmp_path / "run"}
    options |= {"num_devices": 1}
    reader = Reader.from_examples(examples, **options)  # 20 windows a batch, of which there are 8
    used = json.loads((tmp_path / "run" / "config.json").read_text())["flags"]["batches"]
    assert used["batch_size"] == len(DOCUMENTS)
    capsys.readouterr()
    again = Reader.from_examples(examples, **options)
    assert "run had already ended at step 2" in "".join(capsys.readouterr())
    asked = DOCUMENTS[0]["question"], DOCUMENTS[0]["text"]
    assert again.answer(*asked) == reader.answer(*asked)
    for what, said in (
        ({"question": asked[0], "text": asked[1]}, "a text and what it is about, found {"),
        ((asked[0], {"text": asked[1]}), "texts, found {'text"),
        ((asked[0], ""), "text, found no character"),
        ((" ", asked[1]), "a question, found only blanks"),
    ):
        with pytest.raises(InputError, match=f"^question 1: expected {said}"):
            reader.answer_all([asked, what])
    [dev] = (tmp_path / "run" / "prepared").glob("*/dev")
    monkeypatch.setattr("hardem_jax.cli.evaluate._print_table", lambda *_: 1 / 0)  # as ``| head``
    with pytest.raises(ZeroDivisionError):
        call(commands("spans"), "evaluate", "--run-dir", tmp_path / "run", "--data", dev)
    assert len([*(tmp_path / "run").glob("scores-dev-*.json")]) == 1
    other = write_checkpoint(tmp_path / "other", positions=512, layers=1)
    refused = [
        ({"objective": FirstOnly()}, "objective"),
        ({"dev": examples[:4]}, "dev"),
        ({"dev": examples.drop(columns="reply")}, "expected a column 'reply'"),
        ({"encoder": other}, "encoder"),
    ]
    files = contents(tmp_path / "run")
    for flags, said in refused:
        with pytest.raises(InputError, match=said):
            Reader.from_examples(examples, **options | flags)
        assert contents(tmp_path / "run") == files
    with locked(tmp_path / "run"), pytest.raises(InUse):  # another process trains
        Reader.from_examples(examples[1:], **options)
    assert contents(tmp_path / "run") == files


def test_a_table_is_a_file_a_frame_or_a_list(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("who,n\nAda,7\nBo,\n")
    frame = pandas.read_csv(file)
    rows = [["who", "n"], ["Ada", 7], ["Bo", None]]
    asked = [{"question": "Who?", "answer": "Ada", "table": x} for x in (file, frame, rows, rows)]
    day = pandas.Index([pandas.Timestamp("2026-01-02")], name="day")
    frame = pandas.DataFrame({"who": ["Cy"], "n": [1e-5]}, day)
    other = {"question": "Who?", "answer": "Cy", "table": frame}
    (tmp_path / "train.jsonl").write_text(json_lines(TableReader._lines([*asked, other], "table")))
    found = list(read_table_questions(tmp_path / "train.jsonl", skips=ExclusionCounts()))
    assert [question.answer for question in found] == [("Ada",)] * 4 + [("Cy",)]
    ada, cy = (("Ada", 7.0), ("Bo", None)), (("2026-01-02", "Cy", 1e-5),)
    assert [question.table.rows for question in found] == [ada] * 4 + [cy]


def test_tables_of_one_name_are_all_kept(tmp_path):
    files = [tmp_path / name for name in ("scores.csv", "scores 2.csv", "b/scores.csv")]
    (tmp_path / "b").mkdir()
    for number, file in enumerate(files):
        file.write_text(f"n\n{number}\n")
    rows = [{"question": "n?", "answer": n, "table": file} for n, file in enumerate(files * 2)]
    with pytest.raises(InputError, match="example 6: table: expected a dict of columns"):
        list(TableReader._lines([*map(dict, rows), {"question": "n?", "table": 0.5}], "table"))
    lines = list(TableReader._lines(rows, "table"))
    tables = {x["table"]["id"]: x["table"]["rows"] for x in lines if "table" in x}
    assert sorted(x["table"]["rows"] for x in lines if "table" in x) == sorted(tables.values())
    assert sorted(tables.values()) == [((0.0,),), ((1.0,),), ((2.0,),)]
    asked = [line for line in lines if "table" not in line]
    assert [tables[line["table_id"]] for line in asked] == [((n,),) for n in (0.0, 1.0, 2.0) * 2]
