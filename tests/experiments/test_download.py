"""Downloads from a local server that loses connections, changes files and sends bad archives."""

import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

import numpy as np
import pytest

from experiments.download import __main__ as catalog
from experiments.download.__main__ import DATASETS, RETRIES, Dataset, Download, Source
from experiments.download.archives import unpack
from hardem_jax.errors import InputError


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ``server.files``; ``server.plan`` has "all", "busy" or bytes until it hangs up."""

    def do_GET(self):
        self.server.requests.append(self.path)
        plan = self.server.plan.pop(0) if self.server.plan else "all"
        content = self.server.files.get(self.path)
        if content is None or plan == "busy":
            self.send_error(404 if content is None else 503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if plan == "all" else content[:plan])

    def log_message(self, format, *args):
        del format, args


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.plan, server.requests = {}, [], []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(members, kind=tarfile.REGTYPE, compression="bz2"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{compression}") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(content), kind, "/etc/passwd"
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_archives_are_unpacked_without_their_folder(pack, tmp_path):
    (tmp_path / "archive").write_bytes(pack({"top/a.txt": b"a", "top/b/c.txt": b"c"}))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "own.txt").write_text("mine")
    unpack(tmp_path / "archive", tmp_path, strip=True)
    unpack(tmp_path / "archive", tmp_path, strip=True)  # again, over what is there
    found = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert found == {"archive", "a.txt", "b/c.txt", "b/own.txt"}


def encrypted():
    """A zip archive whose member claims to need a password."""
    content = bytearray(zipped({"a.txt": b"x"}))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + flags] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    "archive",
    [
        zipped({"../out.txt": b"x"}), zipped({"/out.txt": b"x"}), zipped({"C:\\out.txt": b"x"}),
        tarred({"../out.txt": b"x"}), tarred({"link": b""}, tarfile.SYMTYPE),
        zipped({"a.txt": b"x"})[:-30], encrypted(), b"not an archive",
    ],
    ids=["zip ..", "zip /", "zip drive", "tar ..", "tar link", "damaged", "encrypted", "none"],
)  # fmt: skip
def test_archives_that_write_elsewhere_or_are_none_are_refused(archive, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "archive").write_bytes(archive)
    with pytest.raises(InputError, match="archive: expected"):
        unpack(folder / "archive", folder, strip=False)
    assert [str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*")] == [
        "folder",
        "folder/archive",
    ]


@pytest.mark.parametrize("kind", ["zip", "bz2", "gz", "xz"])
def test_an_archive_that_is_damaged_is_refused_or_whole(kind, tmp_path):
    """What is no part of a member, such as a time stamp, is not noticed and does no harm."""
    members = {"train": np.random.default_rng(0).bytes(3000)}
    sound = zipped(members) if kind == "zip" else tarred(members, compression=kind)
    refused = 0
    for n, place in enumerate(range(20, len(sound), 97)):
        damaged = bytearray(sound)
        damaged[place] ^= 255
        (tmp_path / "archive").write_bytes(damaged if n % 2 else damaged[:place])
        try:
            unpack(tmp_path / "archive", tmp_path, strip=False)
        except InputError as error:
            assert "expected a sound archive" in str(error)
            assert [path.name for path in tmp_path.iterdir()] == ["archive"]
            refused += 1
        else:
            assert (tmp_path / "train").read_bytes() == members["train"]
            (tmp_path / "train").unlink()
    assert refused > 20


def test_a_tar_archive_may_end_with_a_zip_file(tmp_path):
    members = {"a.txt": b"Rome", "inner.zip": zipped({"inner.txt": b"Bonn"})}
    (tmp_path / "archive").write_bytes(tarred(members, compression=""))
    unpack(tmp_path / "archive", tmp_path, strip=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "archive", "inner.zip"]


@pytest.fixture
def toy(server, monkeypatch):
    server.files |= {"/toy.zip": zipped({"toy/train.json": b"{}"}), "/extra.json": b"[]"}
    sources = (Source("https://example.org/toy.zip", unpack=True), Source("https://x/extra.json"))
    toy = Dataset("Toy", "CC0", "https://example.org", sources, "toy prepare {out}", strip=True)
    monkeypatch.setitem(catalog.DATASETS, "toy", toy)
    return server


def test_the_command_downloads_unpacks_and_records(toy, tmp_path, capsys):
    command = Download(("toy",), tmp_path, mirror=toy.url)
    command.run()
    folder = tmp_path / "toy"
    assert (folder / "train.json").read_text() == "{}"
    assert not (folder / "toy.zip").exists()
    record = json.loads((folder / "downloads.json").read_text())
    assert record["extra.json"]["sha256"] == hashlib.sha256(b"[]").hexdigest()
    assert record["extra.json"]["url"] == "https://x/extra.json"
    said = capsys.readouterr().out
    assert "licence: CC0" in said and f"then: python -m toy prepare {folder} ..." in said
    del toy.requests[:]
    command.run()
    assert not toy.requests


def test_lost_connections_are_tried_again(toy, tmp_path):
    toy.plan = [50, "busy", 100, "all"]
    Download(("toy",), tmp_path, mirror=toy.url).run()
    assert toy.requests == ["/toy.zip"] * 4 + ["/extra.json"]
    found = {file.name for file in (tmp_path / "toy").iterdir()}
    assert found == {"train.json", "extra.json", "downloads.json"}


@pytest.mark.parametrize(
    ("name", "plan", "found"),
    [("toy.zip", [0] * 9, "IncompleteRead"), ("absent.zip", [], "404 Client Error: Not Found")],
)
def test_what_does_not_arrive_is_one_line_and_leaves_nothing(
    toy, tmp_path, monkeypatch, name, plan, found
):
    sources = (Source(f"{toy.url}/{name}", unpack=True),)
    monkeypatch.setitem(catalog.DATASETS, "toy", Dataset("Toy", "CC0", "x", sources, "toy"))
    toy.plan = plan
    with pytest.raises(InputError, match=f"^{toy.url}/{name}: cannot be downloaded: .*{found}"):
        Download(("toy",), tmp_path).run()
    assert toy.requests == [f"/{name}"] * (1 + RETRIES)
    assert not list((tmp_path / "toy").iterdir())


def test_a_file_that_differs_from_what_was_recorded_is_downloaded_again(toy, tmp_path):
    command, file = Download(("toy",), tmp_path, mirror=toy.url), tmp_path / "toy" / "extra.json"
    command.run()
    file.write_text("[1]")
    command.run()
    assert file.read_text() == "[]"
    file.write_text("[1]")
    toy.files["/extra.json"] = b"[2]"
    with pytest.raises(InputError, match="expected 4f53.* but got .* without downloads.json"):
        command.run()
    assert file.read_text() == "[1]"


@pytest.mark.parametrize("name", DATASETS)
def test_the_catalogue_is_complete(name):
    dataset = DATASETS[name]
    assert name in (Download.__doc__ or "")
    assert dataset.licence and dataset.home.startswith("https://") and "{out}" in dataset.then
    for source in dataset.sources:
        assert source.url.startswith("https://") and "." in source.name
        assert source.unpack == source.name.endswith((".zip", ".tar.gz", ".tar.bz2"))
    names = [source.name for source in dataset.sources]
    assert len(set(names)) == len(names)
    assert ("multi_span" in dataset.then) == (name == "quoref")  # all answers of which are needed
