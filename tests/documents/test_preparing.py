"""Commands that prepare: what they record, replace and refuse."""

import json

import pytest

from experiments import squad_layout, triviaqa
from hardem_jax.documents.prepared import PreparedSplit
from tests.commands import WINDOWS, call, fails
from tests.tiny import write_checkpoint, write_squad_layout, write_triviaqa


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("preparing")
    write_checkpoint(root / "bert")
    write_triviaqa(root)
    return root


def flags(root, out, *more):
    return [
        *("prepare", "--qa-file", root / "qa" / "wikipedia-train.json"),
        *("--evidence", root / "evidence", "--out", out),
        *("--tokenizer", root / "bert", *WINDOWS, *more),
    ]


def meta_of(folder):
    return json.loads((folder / "meta.json").read_text())


def test_every_flag_that_determines_a_split_is_recorded(root, tmp_path):
    call(triviaqa, *flags(root, tmp_path / "a"))
    assert set(meta_of(tmp_path / "a")["sources"]) == {"qa_file", "evidence", "split", "windows"}
    call(triviaqa, *flags(root, tmp_path / "b", "--processes", 2))
    assert meta_of(tmp_path / "a") == meta_of(tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name
    call(triviaqa, *flags(root, tmp_path / "c", "--split", "dev"))
    assert meta_of(tmp_path / "a") != meta_of(tmp_path / "c")

    file = write_squad_layout(root / "squad.json")
    metas = []
    for name, more in (("d", ()), ("e", ("--answers-are", "all required"))):
        call(squad_layout, "prepare", "--file", file, "--out", tmp_path / name,
             "--tokenizer", root / "bert", *WINDOWS, *more)  # fmt: skip
        metas.append(meta_of(tmp_path / name))
    assert metas[0] != metas[1]
    assert [meta["metric"] for meta in metas] == ["squad", "quoref"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--layout", "qa-hard-em"), "--answers-are: expected alternatives"),
        (("--windows.choices", "yes", "unknown"), "--windows.choices: expected no unknown"),
    ],
)
def test_what_does_not_go_with_answers_that_are_all_required(tmp_path, capsys, more, message):
    required = ("--answers-are", "all required", "--tokenizer", tmp_path, "--out", tmp_path / "a")
    flags = ("prepare", "--file", tmp_path / "squad.json", *required, *more)
    assert message in fails(squad_layout, capsys, *flags)


def test_other_evidence_gives_another_record(root, tmp_path):
    call(triviaqa, *flags(root, tmp_path / "before"))
    file = min(path for path in (root / "evidence").rglob("*") if path.is_file())
    text = file.read_text()
    try:
        file.write_text(text + " And so on.")
        call(triviaqa, *flags(root, tmp_path / "after"))
    finally:
        file.write_text(text)
    assert meta_of(tmp_path / "before") != meta_of(tmp_path / "after")


def test_only_a_split_is_replaced_and_only_if_asked(root, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    call(triviaqa, *flags(root, out))  # into an empty folder
    line = fails(triviaqa, capsys, *flags(root, out))
    assert "out: exists; choose another folder, or add --force to replace it" in line
    call(triviaqa, *flags(root, out, "--force"))
    (out / "thesis.txt").write_text("precious")
    line = fails(triviaqa, capsys, *flags(root, out, "--force"))
    assert "out: exists and holds thesis.txt, which this command did not write" in line
    assert (out / "thesis.txt").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_split_of_another_kind_is_not_replaced(root, tmp_path, capsys):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "meta.json").write_text("{}")
    (tmp_path / "x" / "thesis.txt").write_text("precious")
    line = fails(triviaqa, capsys, *flags(root, tmp_path / "x", "--force"))
    assert "x: exists and was not written by this command" in line
    assert (tmp_path / "x" / "thesis.txt").read_text() == "precious"


def test_a_long_name_and_no_question_are_one_line(root, tmp_path, capsys):
    assert "File name too long" in fails(triviaqa, capsys, *flags(root, tmp_path / ("x" * 300)))
    empty = {"version": "1.1", "data": []}
    (tmp_path / "empty.json").write_text(json.dumps(empty))
    line = fails(
        squad_layout,
        capsys,
        *("prepare", "--file", tmp_path / "empty.json", "--out", tmp_path / "dev"),
        *("--split", "dev", "--tokenizer", root / "bert", *WINDOWS),
    )
    assert "nothing to evaluate on" in line or "empty.json" in line
    assert [path.name for path in tmp_path.iterdir()] == ["empty.json"]


def test_a_damaged_split_is_one_line(root, tmp_path, capsys):
    call(triviaqa, *flags(root, tmp_path / "train"))
    assert PreparedSplit(tmp_path / "train").questions
    (tmp_path / "train" / "positives.array_record").write_bytes(b"")
    line = fails(
        triviaqa, capsys,
        *("train", "--data", tmp_path / "train", "--dev", tmp_path / "train"),
        *("--out", tmp_path / "run", "--model.encoder", root / "bert", "objective:mml"),
    )  # fmt: skip
    assert "positives.array_record: damaged, expected" in line
