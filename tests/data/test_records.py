"""Files and folders that hold records: checked before work, complete or absent after it."""

import dataclasses
import resource

import numpy as np
import pytest

from hardem_jax.data.files import check_writable, new_folder, write_json
from hardem_jax.data.records import Codec, RecordWriter
from hardem_jax.errors import InputError


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("missing/report.json", "its folder does not exist"),
        ("folder", "expected the name of a file, found a folder"),
        ("file/report.json", "to be a folder, found a file|Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_before_the_work(tmp_path, name, fault):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=fault) as refused:
        check_writable(tmp_path / name)
    assert str(refused.value).startswith(str(tmp_path / name))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_can_be_written_is_not_created(tmp_path):
    check_writable(tmp_path / "new.json")
    assert not list(tmp_path.iterdir())
    (tmp_path / "old.json").write_text("kept")
    check_writable(tmp_path / "old.json")
    assert (tmp_path / "old.json").read_text() == "kept"


FORMAT = "things 2"


def write(folder, content="new", **options):
    with new_folder(folder, format=FORMAT, **options) as new:
        (new / "data.txt").write_text(content)
        write_json(new / "meta.json", {"format": FORMAT})


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_complete_folder_is_replaced_only_if_asked(tmp_path):
    write(tmp_path / "out", "old")
    with pytest.raises(InputError, match="out: exists; choose another folder, or add --force"):
        write(tmp_path / "out")
    assert contents(tmp_path / "out")["data.txt"] == b"old"
    write(tmp_path / "out", replace=True)
    assert contents(tmp_path) == {f"out/{n}": c for n, c in contents(tmp_path / "out").items()}
    assert contents(tmp_path / "out")["data.txt"] == b"new"


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda out: (out / "thesis.txt").write_text("precious"), "was not written by this"),
        (lambda out: (out / "meta.json").write_text("{}"), "was not written by this"),
        (lambda out: write_other(out, "things 2", "thesis.txt"), "holds thesis.txt, which this"),
        (lambda out: write_other(out, "things 2", "deep/thesis.txt"), "holds deep/thesis.txt"),
        (lambda out: write_other(out, "stuff 2"), "holds 'stuff 2' instead of 'things 2'"),
    ],
)
def test_a_folder_with_anything_else_is_never_touched(tmp_path, make, fault):
    (tmp_path / "out").mkdir()
    make(tmp_path / "out")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=f"out: exists and {fault}"):
        write(tmp_path / "out", replace=True)
    assert contents(tmp_path) == before


def write_other(out, format, more=None):
    with new_folder(out, format=format) as new:
        write_json(new / "meta.json", {"format": format})
    if more:
        (out / more).parent.mkdir(exist_ok=True)
        (out / more).write_text("precious")


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_breaks_off_leaves_nothing_and_the_old_folder(tmp_path, stop):
    write(tmp_path / "out", "old")
    before = contents(tmp_path)
    for name in ("out", "other"):
        with pytest.raises(stop), new_folder(tmp_path / name, format=FORMAT, replace=True) as new:
            (new / "data.txt").write_text("half")
            raise stop
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_process_leaves_is_removed_by_the_next(tmp_path):
    write(tmp_path / "out", "old")
    (tmp_path / "out.partial" / "new").mkdir(parents=True)
    (tmp_path / "out.partial" / "new" / "data.txt").write_text("half")
    # Killed while it replaced the folder: the old one comes back if the new attempt fails.
    (tmp_path / "out").rename(tmp_path / "out.partial" / "old")
    with pytest.raises(ValueError), new_folder(tmp_path / "out", format=FORMAT, replace=True):
        raise ValueError
    assert contents(tmp_path / "out")["data.txt"] == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_foreign_partial_folder_is_not_removed(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "film.mkv").write_text("half")
    with pytest.raises(InputError, match="out.partial: expected a folder left by a killed run"):
        write(tmp_path / "out")
    assert set(contents(tmp_path)) == {"out.partial/film.mkv"}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("x" * 300, "File name too long"),
        ("x" * 250, "File name too long"),
        ("file", "expected the name of a new folder, found a file"),
        ("file/out", "Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, name, fault):
    (tmp_path / "file").write_text("text")
    with pytest.raises(InputError, match=fault):
        write(tmp_path / name)
    assert set(contents(tmp_path)) == {"file"}


@pytest.fixture
def little_room():
    """Files may not grow beyond 64 KiB, which a write notices as it does a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@dataclasses.dataclass
class Thing:
    data: np.ndarray


THINGS = Codec(Thing, {"data": ("<f8", (-1,))}, sizes=lambda thing: (len(thing.data), 0))


def write_records(new):
    writer = RecordWriter(new / "things", THINGS)
    for seed in range(10):  # noise, which cannot be compressed
        writer.write(Thing(np.random.default_rng(seed).random(10_000)))
    writer.close()


@pytest.mark.parametrize(
    "fill",
    [
        lambda new: (new / "data.txt").write_text("x" * 100_000),
        lambda new: np.save(new / "data.npy", np.zeros(100_000)),
        write_records,
    ],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, little_room, fill):
    with (
        pytest.raises(InputError, match=r"out.*: cannot be written"),
        new_folder(tmp_path / "out", format=FORMAT) as new,
    ):
        fill(new)
    assert not list(tmp_path.iterdir())
