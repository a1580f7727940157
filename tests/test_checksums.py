"""Every kind of damage to a recorded folder is named; an undamaged folder passes."""

import pytest

from hardem_jax.checksums import (
    MANIFEST,
    has_checksums,
    recorded_files,
    verify_checksums,
    write_checksums,
)
from hardem_jax.errors import InputError
from tests.damages import DAMAGES


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 16)
    (tmp_path / "deep" / "b.json").write_text('{"x": 1}')
    write_checksums(tmp_path)
    return tmp_path


def test_an_undamaged_folder_passes_and_is_not_changed(folder):
    before = (folder / MANIFEST).read_bytes()
    verify_checksums(folder)
    assert has_checksums(folder)
    assert recorded_files(folder) == {"a.bin", "deep/b.json"}
    write_checksums(folder)  # again, with the record already there
    assert (folder / MANIFEST).read_bytes() == before


def test_files_beyond_the_record_are_ignored(folder):
    (folder / ".DS_Store").write_bytes(b"x")
    verify_checksums(folder)
    assert ".DS_Store" not in recorded_files(folder)


@pytest.mark.parametrize("name", ["a.bin", "deep/b.json"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named(folder, name, damage):
    damage(folder / name)
    with pytest.raises(InputError, match=f"{name}: (damaged|cannot be read)"):
        verify_checksums(folder)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_to_the_record_is_an_error(folder, damage):
    damage(folder / MANIFEST)
    with pytest.raises(InputError, match=f"{MANIFEST}: (damaged|cannot be read)"):
        verify_checksums(folder)


@pytest.mark.parametrize("content", ["[]", "{}[", '{"a.bin": 3}', '{"a.bin": {"bytes": 1}}'])
def test_a_record_of_another_form_is_an_error(folder, content):
    (folder / MANIFEST).write_text(content)
    with pytest.raises(InputError, match=f"{MANIFEST}: damaged, expected"):
        verify_checksums(folder)


def test_only_the_given_files_are_recorded_and_never_the_record_itself(tmp_path):
    for name in ("config.json", "metrics.jsonl", MANIFEST):
        (tmp_path / name).write_text("{}")
    for _ in range(2):
        write_checksums(tmp_path, [tmp_path / "config.json", tmp_path / MANIFEST])
        (tmp_path / "metrics.jsonl").write_text("grows")
        verify_checksums(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InputError, match="config.json: damaged"):
        verify_checksums(tmp_path)
