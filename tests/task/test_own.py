"""Examples in a program become a trained reader, in a run folder as the commands write it."""

import json

import pandas
import pytest

from hardem_jax import Reader, TableReader
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.rows import Columns
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.objectives import MML, FirstOnly
from hardem_jax.tables.jsonl import read_table_questions
from hardem_jax.task.own import rows_of, write_lines
from tests.cli.test_own_data import commands
from tests.commands import call
from tests.tiny import PEOPLE, PLACES, write_checkpoint

PAGE = "{0} saw Bo. {0} lives in {1}."
DOCUMENTS = [
    {"question": f"Who lives in {place}?", "answer": person, "text": PAGE.format(person, place)}
    for person, place in zip(PEOPLE, PLACES, strict=True)
]
SMALL = {"windows": WindowConfig(max_tokens=32, stride=8, max_question_tokens=8)}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("encoder") / "bert", positions=512, layers=3)


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        (DOCUMENTS, "expected at least 10, or others as dev, found 8 and 0 as dev"),
        ([], "found 0 and 0 as dev"),
        ([1] * 10, "example 0: expected a mapping, such as a dict, found int"),
        ([{"question": "Who?", "text": "Ann."}] * 10, "line 1: expected a column 'answer'"),
        ([DOCUMENTS[0] | {"answer": "Zed"}] * 10, "answer not in the documents: 9 ("),
    ],
)
def test_examples_that_cannot_be_used_are_told(examples, said, bert, tmp_path):
    with pytest.raises(InputError) as error:
        Reader.from_examples(examples, encoder=bert, out=tmp_path / "run", **SMALL)
    assert said in str(error.value)


def test_a_flag_that_there_is_not_and_a_question_without_a_table_are_told(bert, tmp_path):
    options = {"encoder": bert, "out": tmp_path / "run"}
    with pytest.raises(InputError, match="batchs: expected one of .*perhaps you meant batches"):
        Reader.from_examples(DOCUMENTS, dev=DOCUMENTS, batchs=1, **options)
    with pytest.raises(InputError, match="example 0: expected a table under 'table', found quest"):
        TableReader.from_examples(DOCUMENTS, dev=DOCUMENTS, **options)


def test_rows_are_those_of_a_list_a_frame_or_whatever_yields_them():
    assert rows_of(pandas.DataFrame(DOCUMENTS)) == rows_of(iter(DOCUMENTS)) == DOCUMENTS


@pytest.mark.slow
def test_documents_become_a_reader_that_the_commands_read(bert, tmp_path, capsys):
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
    dev = tmp_path / "run" / "prepared" / "dev"
    call(commands("spans"), "evaluate", "--run-dir", tmp_path / "run", "--data", dev)
    with pytest.raises(InputError, match="objective"):
        Reader.from_examples(examples, **options | {"objective": FirstOnly()})


def test_a_table_is_a_file_a_frame_or_a_list(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("who,n\nAda,7\nBo,\n")
    frame = pandas.read_csv(file)
    rows = [["who", "n"], ["Ada", 7], ["Bo", None]]
    asked = [{"question": "Who?", "answer": "Ada", "table": x} for x in (file, frame, rows, rows)]
    other = {"question": "Who?", "answer": "Cy", "table": [["who", "n"], ["Cy", 1]]}
    write_lines(tmp_path / "train.jsonl", TableReader._lines([*asked, other], "table"))
    found = list(read_table_questions(tmp_path / "train.jsonl", skips=ExclusionCounts()))
    assert [question.answer for question in found] == [("Ada",)] * 4 + [("Cy",)]
    ada = (("Ada", 7.0), ("Bo", None))
    assert [question.table.rows for question in found] == [ada] * 4 + [(("Cy", 1.0),)]
