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

from experiments.download import catalog, transfer
from experiments.download.archives import unpack
from experiments.download.catalog import DATASETS, Dataset, Source
from experiments.download.command import Download
from experiments.download.transfer import fetch
from hardem_jax.errors import InputError

CONTENT = bytes(range(256)) * 2_000


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ``server.files``; ``server.plan`` has "all", "busy" or bytes until it hangs up."""

    def do_GET(self):
        self.server.requests.append(dict(self.headers))
        plan = self.server.plan.pop(0) if self.server.plan else "all"
        content = self.server.files.get(self.path)
        if content is None or plan == "busy":
            self.send_error(404 if content is None else 503)
            return
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        start = 0
        wanted = self.headers.get("Range")
        if wanted and self.headers.get("If-Range") == etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if plan == "all" else min(start + plan, len(content))
        self.wfile.write(content[start:end])

    def log_message(self, format, *args):
        del format, args


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.plan, server.requests = {"/data.bin": CONTENT}, [], []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def get(server, tmp_path, name="data.bin"):
    seen = []
    fetch(f"{server.url}/{name}", tmp_path / name, progress=lambda *x: seen.append(x), pause=0)
    return seen


def test_a_download_goes_on_where_connections_were_lost(server, tmp_path):
    server.plan = [100_000, "busy", 200_000, "all"]
    seen = get(server, tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    ranges = [request.get("Range") for request in server.requests]
    whole = [f"bytes={count * transfer.CHUNK}-" for count in (1, 1, 4)]
    assert ranges == [None, *whole]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_a_download_goes_on_in_the_next_call(server, tmp_path):
    server.plan = [100_000] + [0] * transfer.ATTEMPTS
    with pytest.raises(InputError, match="6 attempts.*; the same command continues"):
        get(server, tmp_path)
    assert not (tmp_path / "data.bin").exists()
    server.plan, server.requests[:] = [], []
    get(server, tmp_path)
    assert [request.get("Range") for request in server.requests] == [f"bytes={transfer.CHUNK}-"]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_download_whose_record_was_never_completed_begins_again(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:100])
    (tmp_path / "data.bin.part.json").write_text("")
    get(server, tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_another_version_of_the_file_is_not_appended_to_the_first(server, tmp_path):
    server.plan = [100_000] + [0] * transfer.ATTEMPTS
    with pytest.raises(InputError):
        get(server, tmp_path)
    server.files["/data.bin"], server.plan = CONTENT[::-1], []
    get(server, tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT[::-1]


def test_a_partial_file_that_is_too_long_is_begun_again(server, tmp_path):
    server.plan = [100_000] + [0] * transfer.ATTEMPTS
    with pytest.raises(InputError):
        get(server, tmp_path)
    with open(tmp_path / "data.bin.part", "ab") as partial:
        partial.write(CONTENT)
    server.plan = []
    get(server, tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_what_a_server_refuses_is_not_tried_again(server, tmp_path):
    with pytest.raises(InputError, match="expected a file, found 404 Not Found"):
        get(server, tmp_path, "absent.bin")
    assert len(server.requests) == 1


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(members, kind=tarfile.REGTYPE):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:bz2") as archive:
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
        zipped({"../out.txt": b"x"}),
        zipped({"/out.txt": b"x"}),
        zipped({"C:\\out.txt": b"x"}),
        tarred({"../out.txt": b"x"}),
        tarred({"link": b""}, tarfile.SYMTYPE),
        zipped({"a.txt": b"x"})[:-30],
        encrypted(),
        b"not an archive",
    ],
    ids=["zip ..", "zip /", "zip drive", "tar ..", "tar link", "damaged", "encrypted", "none"],
)
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


def test_an_archive_may_have_its_own_folder_as_a_member(tmp_path):
    (tmp_path / "archive").write_bytes(zipped({"./": b"", "./a.txt": b"a"}))
    unpack(tmp_path / "archive", tmp_path, strip=False)
    assert (tmp_path / "a.txt").read_bytes() == b"a"


def compressed(kind):
    """A tar archive of three members, as long as it takes to damage any of them."""
    rng, file = np.random.default_rng(0), io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{kind}") as archive:
        for name in ("dev", "test", "train"):
            content = rng.bytes(30_000)
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("kind", ["bz2", "gz", "xz"])
def test_an_archive_that_is_damaged_anywhere_is_refused(kind, tmp_path):
    sound = compressed(kind)
    for place in np.linspace(100, len(sound) - 5, 12).astype(int):
        damaged = bytearray(sound)
        damaged[place] ^= 1
        (tmp_path / "archive").write_bytes(bytes(damaged))
        with pytest.raises(InputError, match="expected a sound archive"):
            unpack(tmp_path / "archive", tmp_path, strip=False)
        assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_a_zip_that_is_damaged_anywhere_is_refused(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train", b"".join(b"%d, " % n for n in range(20_000)))
    sound = file.getvalue()
    for place in np.linspace(60, len(sound) - 1200, 12).astype(int):
        damaged = bytearray(sound)
        damaged[place : place + 1000] = np.random.default_rng(place).bytes(1000)
        (tmp_path / "archive").write_bytes(bytes(damaged))
        with pytest.raises(InputError, match="expected a sound archive"):
            unpack(tmp_path / "archive", tmp_path, strip=False)


def test_a_sound_archive_replaces_a_damaged_one(toy, tmp_path):
    sound = toy.files["/toy.zip"]
    toy.files["/toy.zip"] = sound[:-30]
    command = Download(("toy",), tmp_path, mirror=toy.url)
    with pytest.raises(InputError, match="expected a sound archive.*; it is now toy.zip.refused"):
        command.run()
    toy.files["/toy.zip"] = sound
    command.run()
    assert (tmp_path / "toy" / "train.json").read_text() == "{}"


@pytest.fixture
def toy(server, monkeypatch):
    archive = zipped({"toy/train.json": b"{}"})
    server.files |= {"/toy.zip": archive, "/extra.json": b"[]"}
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


def test_a_file_that_differs_from_what_was_recorded_is_refused(toy, tmp_path):
    command = Download(("toy",), tmp_path, mirror=toy.url)
    command.run()
    (tmp_path / "toy" / "extra.json").write_text("[1]")
    with pytest.raises(InputError, match=r"extra.json.refused: expected the SHA-256 4f53.*, found"):
        command.run()
    command.run()  # downloads it again
    assert (tmp_path / "toy" / "extra.json").read_text() == "[]"


def test_a_file_that_differs_from_the_published_one_is_refused(toy, tmp_path, monkeypatch):
    sources = (Source("https://x/extra.json", sha256="0" * 64),)
    monkeypatch.setitem(catalog.DATASETS, "toy", Dataset("Toy", "CC0", "x", sources, "toy"))
    with pytest.raises(InputError, match="expected the SHA-256 000"):
        Download(("toy",), tmp_path, mirror=toy.url).run()
    assert not (tmp_path / "toy" / "extra.json").exists()


def test_an_unknown_data_set_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="expected some of triviaqa, .*, found bert"):
        Download(("wikisql", "bert"), tmp_path / "out").run()
    with pytest.raises(InputError, match="found none"):
        Download((), tmp_path / "out").run()
    assert not (tmp_path / "out").exists()


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
