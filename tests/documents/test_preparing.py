"""Commands that prepare: what they record, replace and refuse."""

import pytest

from experiments import squad_layout, triviaqa
from tests.commands import WINDOWS, call, fails, meta_of
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


def test_every_flag_that_determines_a_split_is_recorded(root, tmp_path):
    call(triviaqa, *flags(root, tmp_path / "a"))
    assert set(meta_of(tmp_path / "a")["sources"]) == {"qa_file", "evidence", "split", "windows"}
    call(triviaqa, *flags(root, tmp_path / "c", "--split", "dev"))
    file = min(path for path in (root / "evidence").rglob("*") if path.is_file())
    file.write_text(file.read_text() + " And so on.")
    call(triviaqa, *flags(root, tmp_path / "b"))
    one, evidence, split = (meta_of(tmp_path / name) for name in "abc")
    assert evidence != one != split

    file = write_squad_layout(root / "squad.json")
    metas = []
    for name, more in (("d", ()), ("e", ("--answers-are", "all required"))):
        call(squad_layout, "prepare", "--file", file, "--out", tmp_path / name,
             "--tokenizer", root / "bert", *WINDOWS, *more)  # fmt: skip
        metas.append(meta_of(tmp_path / name))
    assert metas[0] != metas[1]
    assert [meta["metric"] for meta in metas] == ["squad", "quoref"]


def test_a_split_is_replaced_only_if_asked(root, tmp_path, capsys):
    out = tmp_path / "out"
    call(triviaqa, *flags(root, out))
    line = fails(triviaqa, capsys, *flags(root, out))
    assert "out: exists; choose another folder, or add --force to replace it" in line
    call(triviaqa, *flags(root, out, "--force"))


def test_unknown_is_no_choice_where_all_answers_are_required(tmp_path, capsys):
    required = ("--answers-are", "all required", "--tokenizer", tmp_path, "--out", tmp_path / "a")
    flags = ("prepare", "--file", tmp_path / "squad.json", *required)
    line = fails(squad_layout, capsys, *flags, "--windows.choices", "yes", "unknown")
    assert "--windows.choices: expected no unknown" in line
