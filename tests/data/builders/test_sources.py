"""Releases: downloaded by TFDS from a stand-in server, compared with their digest, unpacked."""

import functools
import hashlib
import http.server
import os
import socket
import tarfile
import threading
import zipfile

import numpy as np
import pytest
from tensorflow_datasets.core.download.checksums import UrlInfo

from hardem_jax.data import builders
from hardem_jax.data.archives import unpack_new as unpack
from hardem_jax.data.builders.base import digest, download
from hardem_jax.data.data_sets import Release
from hardem_jax.equations.builds import DropNum
from hardem_jax.errors import InputError
from hardem_jax.registry import task_module, tasks_with
from tests.tiny import write_drop

builders.quiet()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def release(tmp_path, monkeypatch):
    """DROP's release, tiny, on a server of this machine, and the way to record its digest."""
    (tmp_path / "www").mkdir()
    archive = tmp_path / "www" / "drop_dataset.zip"
    with zipfile.ZipFile(archive, "w") as content:
        for split in DropNum.SPLITS:
            name = f"drop_dataset_{split}.json"
            content.write(write_drop(tmp_path / name, passages=2), f"drop_dataset/{name}")
    handler = functools.partial(_Silent, directory=tmp_path / "www")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/drop_dataset.zip"
        monkeypatch.setattr(DropNum, "RELEASE", Release("home", url, "drop_dataset"))

        def record(checksum):
            info = UrlInfo(archive.stat().st_size, checksum, archive.name)
            monkeypatch.setattr(builders.SolutionBuilder, "url_infos", {url: info})

        record(digest(archive))
        yield record
        server.shutdown()


def test_a_release_is_downloaded_compared_and_built(release, tmp_path):
    builder = builders.SolutionBuilder(DropNum(), data_dir=tmp_path / "built")
    builder.download_and_prepare()
    build = builders.open_build(builder.data_dir)
    assert len(build.examples("dev")) == len(build.examples("train")) == 4
    sources = build.meta["sources"]["train"]
    assert list(sources.values()) == [digest(tmp_path / "www" / "drop_dataset.zip")]

    other = builders.SolutionBuilder(DropNum(), data_dir=tmp_path / "built", shard_size=1)
    (tmp_path / "www" / "drop_dataset.zip").unlink()
    other.download_and_prepare()  # from what was unpacked
    assert len(builders.open_build(other.data_dir).examples("dev")) == 4


def test_a_release_that_changed_is_refused(release, tmp_path):
    release("0" * 64)
    builder = builders.SolutionBuilder(DropNum(), data_dir=tmp_path / "built")
    with pytest.raises(InputError, match="the release has changed: get it from home"):
        builder.download_and_prepare()


def test_a_release_that_is_gone_is_reported(release, tmp_path):
    (tmp_path / "www" / "drop_dataset.zip").unlink()
    builder = builders.SolutionBuilder(DropNum(), data_dir=tmp_path / "built")
    with pytest.raises(InputError, match="cannot be downloaded"):
        builder.download_and_prepare()


def test_without_a_network_nothing_is_tried_again(tmp_path):
    class Untouched:
        def download(self, url):
            raise AssertionError("asked although there is no server")

    with socket.socket() as taken:  # bound and not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        release = Release("home", f"http://127.0.0.1:{taken.getsockname()[1]}/a.zip", "a")
        with pytest.raises(InputError, match="a.zip: cannot be downloaded .*get it from home"):
            download(release, Untouched(), tmp_path / "a")


def test_every_release_that_can_be_downloaded_has_a_recorded_digest():
    data_sets = [task_module(task, "builds").DATA_SETS for task in tasks_with("builds")]
    urls = {kind.RELEASE.url for some in data_sets for kind in some.values()} - {None}
    assert urls == set(builders.SolutionBuilder.url_infos)
    assert all(len(info.checksum) == 64 for info in builders.SolutionBuilder.url_infos.values())


def test_archives_are_unpacked_or_refused(tmp_path):
    (tmp_path / "a.txt").write_text("Rome")
    with tarfile.open(tmp_path / "a.tar.bz2", "w:bz2") as content:
        content.add(tmp_path / "a.txt", "data/a.txt")
    unpack(tmp_path / "a.tar.bz2", tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "data" / "a.txt").read_text() == "Rome"

    with tarfile.open(tmp_path / "b.tar", "w") as content:
        content.add(tmp_path / "a.txt", "../b.txt")
    for archive in ("b.tar", "a.txt"):
        with pytest.raises(InputError, match=f"{archive}: expected a sound archive"):
            unpack(tmp_path / archive, tmp_path / "broken")
        assert not (tmp_path / "broken").exists() and not (tmp_path / "b.txt").exists()


def test_a_tar_archive_may_end_with_a_zip_file(tmp_path):
    (tmp_path / "a.txt").write_text("Rome")
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as content:
        content.writestr("inner.txt", "Bonn")
    with tarfile.open(tmp_path / "whole.tar", "w") as content:
        for name in ("a.txt", "inner.zip"):
            content.add(tmp_path / name, name)
    unpack(tmp_path / "whole.tar", tmp_path / "unpacked")
    assert sorted(path.name for path in (tmp_path / "unpacked").iterdir()) == ["a.txt", "inner.zip"]


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


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_an_archive_is_whole_or_refused(tmp_path, kind):
    file, texts = tmp_path / f"a.tar.{kind}", {}
    for name in ("a", "b"):
        texts[name] = np.random.default_rng(0).bytes(3000)
        (tmp_path / name).write_bytes(texts[name])
    with tarfile.open(file, f"w:{kind}") as content:
        for name in texts:
            content.add(tmp_path / name, f"data/{name}")
    whole = file.read_bytes()
    for n, place in enumerate(range(20, len(whole), 97)):
        damaged = bytearray(whole)
        damaged[place] ^= 255
        file.write_bytes(damaged if n % 2 else damaged[:place])
        try:
            unpack(file, tmp_path / f"{n}")
        except InputError as error:
            assert "a.tar." in str(error)
        else:
            found = {path.name: path.read_bytes() for path in (tmp_path / f"{n}/data").iterdir()}
            assert found == texts
