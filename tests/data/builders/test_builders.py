"""Builds hold what readers and enumeration give, are found again only if nothing changed, and
appear only when they are complete."""

import hashlib
import os
import resource
import signal

import numpy as np
import pytest
import tensorflow_datasets as tfds

from hardem_jax.checksums import write_checksums
from hardem_jax.data.builders import base, shards
from hardem_jax.data.builders.base import SolutionBuilder, quiet
from hardem_jax.data.built import open_build
from hardem_jax.data.exclusions import NOT_ENUMERABLE
from hardem_jax.documents.records import SpanSolver
from hardem_jax.equations.builds import DropNum
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.errors import InputError
from hardem_jax.queries.records import QuerySolver, to_query_question
from hardem_jax.queries.solutions.enumeration import Table
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.records import table_of
from tests.damages import DAMAGES
from tests.data.builders import inputs
from tests.processes import python

quiet()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("builders")


def built(name, root, out, **more):
    builder = inputs.make(name, root, out, **more)
    builder.download_and_prepare()
    return open_build(builder.data_dir)


def contents(folder):
    """Name -> digest of every file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", inputs.NAMES)
def test_a_build_holds_what_readers_and_enumeration_give(name, root, tmp_path):
    build = built(name, root, tmp_path / "built", shard_size=5)
    expected = inputs.expected(name, root)
    examples = build.examples("train")
    assert len(examples) == len(expected) > 5  # several shards
    assert list(map(inputs.plain, examples)) == list(map(inputs.plain, expected))
    assert "work" not in os.listdir(build.folder)
    with pytest.raises(IndexError):
        examples[len(expected)]

    sizes = [
        len(getattr(example, {"documents": "mentions"}.get(build.kind, build.kind)))
        if build.kind not in ("queries", "programs")
        else getattr(example, f"num_{build.kind}")
        for example in expected
    ]
    found = build.meta["splits"]["train"]
    solved = np.count_nonzero(sizes)
    counts = dict(found["counts"])
    # What is trained on as it is has no use for questions without a solution.
    assert counts["questions"] == (len(sizes) if build.kind == "documents" else solved)
    assert counts["questions with a solution"] == solved > 0
    assert found["solutions per question"]["max"] == max(sizes)


@pytest.mark.parametrize("name", ("nq_open", "drop", "wikisql"))
def test_records_are_those_that_tfds_reads(name, root, tmp_path):
    build = built(name, root, tmp_path)
    theirs = tfds.builder_from_directory(build.folder).as_data_source("train")

    def text(value):
        return value.decode() if isinstance(value, bytes) else value

    for ours, other in zip(build.records("train"), theirs, strict=True):
        assert ours.keys() == other.keys()
        for key, value in ours.items():
            if isinstance(value, list):
                assert value == [text(item) for item in other[key]]
            else:
                np.testing.assert_array_equal(value, text(other[key]))
                if isinstance(value, np.ndarray):
                    assert value.dtype == other[key].dtype


def test_the_same_again_is_not_built_again(root, tmp_path, monkeypatch):
    before = built("drop", root, tmp_path)
    monkeypatch.delattr(shards, "write_shard")
    assert built("drop", root, tmp_path) == before


def other_options(root, monkeypatch):
    return {"data_set": DropNum(rules=EquationRules(negative=True))}


def other_source(root, monkeypatch):
    file = root / "drop" / "drop_dataset_train.json"
    file.write_text(file.read_text().replace("Then ", "then "))
    return {}


def other_format(root, monkeypatch):
    monkeypatch.setattr(base, "FORMAT", "build 0")
    return {}


def other_shards(root, monkeypatch):
    return {"shard_size": 2}


@pytest.mark.parametrize("change", [other_options, other_source, other_format, other_shards])
def test_any_change_gives_another_version(change, tmp_path, monkeypatch):
    first = inputs.make("drop", tmp_path, tmp_path / "built")
    again = inputs.make("drop", tmp_path, tmp_path / "built")
    other = inputs.make("drop", tmp_path, tmp_path / "built", **change(tmp_path, monkeypatch))
    assert first.data_dir == again.data_dir != other.data_dir


def test_a_build_that_fails_leaves_nothing(root, tmp_path, monkeypatch):
    def fail(self, examples):
        yield from list(complete(self, examples))[:2]
        raise OSError("disk full")

    complete = SpanSolver.records
    monkeypatch.setattr(SpanSolver, "records", fail)
    builder = inputs.make("triviaqa", root, tmp_path)
    with pytest.raises(OSError, match="disk full"):
        builder.download_and_prepare()
    with pytest.raises(InputError, match="expected one complete build .*, found 0"):
        open_build(tmp_path)
    monkeypatch.undo()
    assert len(built("triviaqa", root, tmp_path).examples("train")) == 8


KILLED = """
import os, signal, sys
from hardem_jax.data.builders import base
from hardem_jax.equations.builds import DropNum
def write_two(write, pairs, **options):
    list(map(write, pairs[:2]))
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "kill":
    base.map_in_order = write_two
base.SolutionBuilder(
    DropNum(), folder=sys.argv[1], data_dir=sys.argv[2], shard_size=2
).download_and_prepare()
"""


@pytest.mark.slow
def test_a_build_that_is_killed_is_made_again_with_the_same_bytes(root, tmp_path):
    folder = inputs.write("drop", root)
    command = ("-c", KILLED, folder, tmp_path / "killed")
    python(*command, "kill", code=-signal.SIGKILL)
    left = [path.name for path in (tmp_path / "killed").rglob("*.array_record*")]
    assert len(left) == 2  # of 4, in a folder with another name
    with pytest.raises(InputError, match="expected one complete build .*, found 0"):
        open_build(tmp_path / "killed")

    python(*command, "go on")
    here = built("drop", root, tmp_path / "here", shard_size=2)
    assert contents(open_build(tmp_path / "killed").folder) == contents(here.folder)
    assert not list((tmp_path / "killed").rglob("incomplete.*"))


def test_a_build_of_another_format_is_refused(tmp_path):
    (tmp_path / "build.json").write_text('{"format": "build 1"}')
    with pytest.raises(InputError, match="expected format build 11, found build 1; build it again"):
        open_build(tmp_path)


def test_every_damaged_file_is_named(root, tmp_path):
    folder = built("drop", root, tmp_path, shard_size=4).folder
    files = sorted(file.name for file in folder.iterdir())
    assert {"build.json", "dataset_info.json", "features.json", "train.index.json"} < set(files)
    for name in files:
        content = (folder / name).read_bytes()
        for kind, damage in DAMAGES.items():
            damage(folder / name)
            with pytest.raises(InputError) as refused:
                open_build(folder)
            assert str(refused.value).startswith(str(folder / name)), (name, kind)
            (folder / name).write_bytes(content)


def test_a_full_disk_is_one_line_and_leaves_nothing(root, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    builder = inputs.make("drop", root, tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, hard))
    try:
        with pytest.raises(InputError, match="cannot be written"):
            builder.download_and_prepare()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_of_several_builds_one_is_to_be_named(root, tmp_path):
    first = built("drop", root, tmp_path)
    built("drop", root, tmp_path, shard_size=2)
    with pytest.raises(
        InputError, match="expected one complete build .*, found 2 folders to choose"
    ):
        open_build(tmp_path)
    assert open_build(first.folder) == first
    with pytest.raises(InputError, match="a split out of train, found 'dev'"):
        first.records("dev")


def test_what_z_cannot_hold_is_kept_and_marked(tmp_path):
    table = Table("1", ("a",), ("real",), ((1.5,), (None,)))
    [record] = QuerySolver().records([TableQuestion("q", "Is it 1.5?", table, (2**70,))])
    assert record["defect"] == (
        f"{NOT_ENUMERABLE}: answer: expected integers of 64 bits or text, found {2**70}"
    )
    assert to_query_question(record).answer == [2**70]
    assert table_of(record) == table


def test_missing_files_are_named(root, tmp_path):
    with pytest.raises(InputError, match=r"expected drop_dataset_train.json, from https://"):
        SolutionBuilder(DropNum(), folder=tmp_path, data_dir=tmp_path)
    folder = inputs.write("drop", root)
    with pytest.raises(InputError, match=r"drop_dataset_test.json: expected a file or folder"):
        SolutionBuilder(DropNum(), folder=folder, data_dir=tmp_path, splits=["test"])
    with pytest.raises(InputError, match="shard_size: expected at least 1, found 0"):
        SolutionBuilder(DropNum(), folder=folder, data_dir=tmp_path, shard_size=0)


def test_a_split_without_questions_is_refused(tmp_path):
    (tmp_path / "drop_dataset_train.json").write_text("{}")
    builder = SolutionBuilder(DropNum(), folder=tmp_path, data_dir=tmp_path / "built")
    with pytest.raises(InputError, match="expected questions in 'train', found none"):
        builder.download_and_prepare()


def test_prepared_splits_and_runs_beside_a_build_are_no_builds(root, tmp_path):
    build = built("drop", root, tmp_path)
    for folder in (tmp_path / "prepared", tmp_path / "runs" / "mml"):
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text("{}")
        write_checksums(folder)
    (tmp_path / "tfds" / "mnist").mkdir(parents=True)
    (tmp_path / "tfds" / "mnist" / "dataset_info.json").write_text("{}")  # of other people
    assert open_build(tmp_path) == build
