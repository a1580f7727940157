"""The digests of source files and folders."""

import hashlib
import os

from hardem_jax.data.builders.base import digest


def test_the_digest_of_a_folder_is_of_its_names_and_contents(tmp_path):
    (tmp_path / "web").mkdir()
    names = [b"Rome.txt", "Zürich.txt".encode(), b"web/Beyonc\xe9.txt"]  # the last is Latin-1
    lines = []
    for name in names:
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(name)
        lines.append(f"{hashlib.sha256(name).hexdigest()} ".encode() + name + b"\n")
    assert digest(tmp_path) == hashlib.sha256(b"".join(lines)).hexdigest()


def test_the_digest_of_a_folder_is_also_of_linked_folders(tmp_path):
    folder, elsewhere = tmp_path / "evidence", tmp_path / "large disk"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "wikipedia").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(folder)  # which would have no end
    found = []
    for text in ("Rome is old.", "Bonn is old."):
        (elsewhere / "Rome.txt").write_text(text)
        found.append(digest(folder))
    assert found[0] != found[1]
    (folder / "wikipedia").unlink()
    (folder / "wikipedia").mkdir()
    (folder / "wikipedia" / "Rome.txt").write_text("Bonn is old.")
    assert digest(folder) == found[1]
