"""Files of one's own: ``hardem TASK prepare``, under any name, says what it cannot use and why."""

import json
import shutil
from types import SimpleNamespace

import pytest

from hardem_jax.data.built import open_build
from hardem_jax.documents.prepared import PreparedSplit
from hardem_jax.registry import task_module
from tests.commands import WINDOWS, call, fails
from tests.tiny import write_checkpoint, write_squad_layout

TASKS = {"equations": "number", "queries": "answer", "programs": "answer"}
PASSAGE = "Ada ran 41 yards. Then Bo ran 38 yards."


def commands(task):
    return SimpleNamespace(COMMANDS=task_module(task, "commands").COMMANDS)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("encoder") / "bert")


ROWS = "ask,reply,page\nWho lives in Oslo?,{},Ada saw Bo. Ada lives in Oslo.\n"
NAMED = ("--columns.question", "ask", "--columns.answer", "reply", "--columns.text", "page")


@pytest.mark.parametrize("task", ["spans", "taggings"])
def test_documents_in_a_file_of_any_name_and_layout(task, bert, tmp_path, capsys):
    flags = ("--tokenizer", bert, *WINDOWS)
    (tmp_path / "mine.txt").write_text(ROWS.format("Ada") + ROWS.format("Eva").partition("\n")[2])
    files = {"rows": tmp_path / "mine.txt", "squad": write_squad_layout(tmp_path / "other")}
    for layout, file in files.items():
        named = NAMED if layout == "rows" else ()
        command = ("prepare", "--file", file, "--out", tmp_path / layout, *flags, *named)
        call(commands(task), *command)
        kind = {} if task == "spans" else {"format": "taggings 4"}
        split = PreparedSplit(tmp_path / layout, **kind)
        assert split.meta["sources"]["layout"] == layout
        if layout == "rows":
            [question] = split.questions.values()
            assert (question.id, question.golds) == ("mine-0", ("Ada",))
            assert question.num_solutions == (2 if task == "spans" else 3)
            said = capsys.readouterr().out
            assert "answer not in the documents: 1 (mine-1: 'Eva')\n    check its spell" in said
    lacking = fails(commands(task), capsys, *command[:2], files["rows"], *command[3:4], "x", *flags)
    assert lacking.startswith(f"error: {files['rows']}: line 2: expected a column 'question'")


@pytest.fixture
def files(tmp_path):
    """Questions of each kind, of which one cannot be used, with a folder of tables beside them."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "runs.csv").write_text("who,yards\nAda,41\nBo,38\n")
    rows = [("How many more?", "3"), ("Who ran?", "many"), ("How many, both?", "79")]
    lines = [{"text": PASSAGE, "question": q, "number": number} for q, number in rows]
    (tmp_path / "equations.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = "question,table,answer\nWho ran 38 yards?,runs.csv,Bo\nWho won?,runs.csv,Zed\n"
    for task in ("queries", "programs"):
        (tmp_path / f"{task}.csv").write_text(table)
    return tmp_path


LEFT_OUT = {
    "equations": "answer is not a number: 1 (equations-1: 'many')\n    write digits",
    "queries": "no query gives the answer: 1 (queries-1: no cell is the text 'Zed')\n    compare",
    "programs": "no program gives the answer: 1 (programs-1)\n    compare",
}


@pytest.mark.parametrize("task", TASKS)
def test_a_build_of_own_files_is_found_again_wherever_they_lie(task, files, tmp_path, capsys):
    [file] = files.glob(f"{task}.*")
    moved = shutil.copytree(files, tmp_path / "moved") / file.name
    flags = ("prepare", "--out", tmp_path / "built")
    printed = []
    for train in (file, moved, file):
        call(commands(task), *flags, "--train", train, "--dev", train)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2] and LEFT_OUT[task] in printed[0]
    build = open_build(tmp_path / "built")
    assert build.kind == task and set(build.meta["splits"]) == {"train", "dev"}
    assert [x.id for x in build.examples("train")][0] == f"{task}-0"
    file.write_text(file.read_text().replace("Who", "Which one"))
    call(commands(task), *flags, "--train", file)
    assert capsys.readouterr().out.splitlines()[-1] != printed[0].splitlines()[-1]


@pytest.mark.parametrize("task", TASKS)
def test_what_is_wrong_with_a_file_is_said_with_its_line(task, files, tmp_path, capsys):
    [file] = files.glob(f"{task}.*")
    flags = ("prepare", "--out", tmp_path / "built")
    assert "expected a file of questions, found none" in fails(commands(task), capsys, *flags)
    said = fails(commands(task), capsys, *flags, "--train", file, "--columns.answer", "reply")
    line = 1 if task == "equations" else 2
    assert f"{file}: line {line}: expected a column 'reply'" in said
    missing = fails(commands(task), capsys, *flags, "--train", f"{file}x")
    asked = ("predict", "--run-dir", tmp_path, "--question", "Who?", "--columns.question", "ask")
    assert "columns: expected --questions, found none" in fails(commands(task), capsys, *asked)
    (sheet := files / "sheet.xlsx").write_bytes(b"PK\x03\x04\xff")
    assert "byte; export it as CSV" in fails(commands(task), capsys, *flags, "--train", sheet)
    assert f"{file}x: expected a file" in missing and f"(perhaps you meant {file.name})" in missing
