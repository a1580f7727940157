"""Files and folders that hold records: checked before work, complete or absent after it."""

import os

import pytest

from hardem_jax.data.records import check_writable
from hardem_jax.errors import InputError


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("missing/report.json", "its folder does not exist"),
        ("folder", "expected the name of a file, found a folder"),
        ("file/report.json", "expected a folder before the name, found a file|Not a directory"),
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    with pytest.raises(InputError, match="no permission"):
        check_writable(tmp_path / "locked" / "report.json")
