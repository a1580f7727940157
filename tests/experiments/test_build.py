"""The commands for builds; what they prepare is what each data set's own module prepares."""

import functools
import json

import numpy as np
import pytest

from experiments import build, drop, narrativeqa, nq_open, triviaqa, wikisql, wikitablequestions
from tests import commands
from tests.commands import WINDOWS, call, output_of
from tests.data.builders import inputs
from tests.tiny import write_checkpoint

fails = functools.partial(commands.fails, build)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Official files, a checkpoint, and a build of each data set."""
    root = tmp_path_factory.mktemp("build")
    write_checkpoint(root / "bert")
    for name, data_set in (
        ("triviaqa", "triviaqa"),
        ("narrativeqa", "narrativeqa"),
        ("nq_open", "nq-open"),
        ("drop", "drop-num"),
        ("wikisql", "wikisql"),
        ("wtq", "wikitablequestions"),
        ("wtq_programs", "wikitableprograms"),
    ):
        folder = inputs.write(name, root)
        flags = ("--folder", folder, "--out", root / "built" / name, "--shard-size", 4)
        call(build, "build", *flags, f"data-set:{data_set}")
    return root


def same_files(one, other):
    other_sources = {"meta.json", "checksums.json"}
    names = {path.name for path in one.iterdir()} - other_sources
    assert names == {path.name for path in other.iterdir()} - other_sources != set()
    for name in names:
        if name.endswith(".npy"):
            np.testing.assert_array_equal(np.load(one / name), np.load(other / name))
        else:
            assert (one / name).read_bytes() == (other / name).read_bytes(), name


def meta(folder):
    content = json.loads((folder / "meta.json").read_text())
    return {key: content[key] for key in content if key not in ("sources", "warnings")}


@pytest.mark.parametrize(
    ("name", "module", "flags"),
    [
        ("triviaqa", triviaqa, ("--qa-file", "qa/wikipedia-train.json", "--evidence", "evidence")),
        ("narrativeqa", narrativeqa, ("--folder", ".")),
        ("nq_open", nq_open, ("--contexts", "train.json")),
    ],
)
def test_a_build_is_prepared_as_the_files_are(name, module, flags, root, tmp_path):
    files = root / name
    more = ("--tokenizer", root / "bert", *WINDOWS)
    flags = [flag if flag.startswith("--") else files / flag for flag in flags]
    call(module, "prepare", *flags, "--out", tmp_path / "direct", *more)
    source = ("--folder", root / "built" / name)
    call(build, "prepare", *source, "--out", tmp_path / "built", *more)
    same_files(tmp_path / "built", tmp_path / "direct")
    assert meta(tmp_path / "built") == meta(tmp_path / "direct")


@pytest.mark.parametrize(
    ("name", "module", "flags"),
    [
        ("drop", drop, ()),
        ("wikisql", wikisql, ()),
        ("wtq", wikisql, ("--layout", "wikitablequestions")),
        ("wtq_programs", wikitablequestions, ()),
    ],
)
def test_a_data_set_prepares_what_is_built(name, module, flags, root, tmp_path, capsys):
    flags = ("--folder", root / name, "--out", tmp_path, "--shard-size", 4, *flags)
    printed = output_of(module, capsys, "prepare", *flags)
    [ours], [theirs] = (
        list(where.rglob("build.json")) for where in (tmp_path, root / "built" / name)
    )
    assert ours.relative_to(tmp_path) == theirs.relative_to(root / "built" / name)
    same_files(ours.parent, theirs.parent)
    assert "questions with a solution" in printed and str(ours.parent) in printed
    line = fails(capsys, "prepare", "--folder", tmp_path, "--out", tmp_path / "windows")
    assert "expected a build of a reading data set" in line


def test_z_is_shown_to_people(root, capsys):
    shown = {}
    for name in ("triviaqa", "drop", "wikisql", "wtq", "wtq_programs"):
        call(build, "show", "--folder", root / "built" / name, "--count", 2, "--solutions", 2)
        shown[name] = capsys.readouterr().out.splitlines()
    assert shown["triviaqa"][:5] == [
        "q0  Who lives in Oslo?",
        "  answer: Ada",
        "  [0]  ...[Ada] saw Dov. Ada lives in O...               wikipedia/0.txt, 0-3",
        "  [1]  ...Ada saw Dov. [Ada] lives in Oslo. Dov met ...  wikipedia/0.txt, 13-16",
        "  ... and 1 more",
    ]
    assert "  [0]  40.1 - 31.1" in "".join(shown["drop"])
    assert any(line.startswith("  [0]  SELECT who WHERE") for line in shown["wikisql"])
    assert shown["wtq"][1] == shown["wtq_programs"][1] == "  answer: Ada"
    assert any(line.startswith("  [0]  values(Who) of first") for line in shown["wtq_programs"])


def test_what_was_built_is_summed_up(root, capsys):
    flags = ("--folder", root / "drop", "--out", root / "built" / "drop", "--shard-size", 4)
    printed = output_of(build, capsys, "build", *flags, "data-set:drop-num").splitlines()
    assert printed == [
        "train:",
        "       12  questions read",
        "        8  left out",
        "        4  questions",
        "        4  questions with a solution",
        "|Z| per question: mean 1.0, median 1.0, max 1",
        "8 examples left out",
        "  answer is a text span: 4 (q0-who, q1-who, q2-who, ...)",
        "  no equation gives the answer: 4 (q0-1, q1-1, q2-1, ...)",
        "    compare it with the passage; --rules.* allow more equations",
        printed[-1],
    ]
    assert printed[-1].startswith(str(root / "built" / "drop" / "hardem_drop_num"))


def test_what_a_person_got_wrong_is_told(root, tmp_path, capsys):
    out = ("--out", tmp_path / "built")
    files = ("--folder", root / "drop")
    twice = ("--splits", "train", "train", "data-set:drop-num")
    line = fails(capsys, "build", *out, *files, *twice)
    assert "splits: expected different values, found train train" in line
    assert "found 0" in fails(capsys, "show", "--folder", tmp_path)
    build_folder = ("--folder", root / "built" / "drop")
    assert "a split out of train" in fails(capsys, "show", *build_folder, "--split", "dev")
    build_folder = ("--folder", root / "built" / "triviaqa", "--tokenizer", root / "bert")
    assert "split out of train" in fails(capsys, "prepare", *build_folder, *out, "--split", "tset")
