"""What goes wrong with a bucket is one line, without what a request holds."""

import contextlib
import importlib.util
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import gcsfs.core
import pytest
import s3fs

from experiments import triviaqa
from hardem_jax.buckets import store
from hardem_jax.buckets.names import VARIABLE
from hardem_jax.cli.command import on_this_disk, parse
from tests.commands import fails
from tests.emulators import BUCKET, SECRET
from tests.processes import modules_loaded_by


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """No emulator and no credentials; clients that were made before are not used."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "STORAGE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "copies"))
    clients = (s3fs.S3FileSystem, gcsfs.core.GCSFileSystem)
    for client in clients:
        client.clear_instance_cache()
    yield monkeypatch
    for client in clients:
        client.clear_instance_cache()


def evaluate(capsys, where):
    line = fails(triviaqa, capsys, "evaluate", "--run-dir", where, "--data", "data")
    assert SECRET not in line
    return line.removeprefix("error: ")


@contextlib.contextmanager
def refusing(status):
    """A server that answers everything with this status, and repeats what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.send_response(status)
            text = f"<Error><Code>AccessDenied</Code><Message>{SECRET}</Message></Error>".encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

        def log_message(self, format, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def lead_to(monkeypatch, cloud, host):
    if cloud == "gs":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
        return
    monkeypatch.setenv("AWS_ENDPOINT_URL", host)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def test_what_is_not_there(bucket, cloud, capsys):
    found = "expected a file or folder, found nothing of that name"
    assert evaluate(capsys, f"{bucket}/run") == f"{bucket}/run: {found}"
    assert evaluate(capsys, f"{cloud}://no-such-bucket/run").endswith("/run: no such bucket")


@pytest.mark.parametrize(
    ("cloud", "found"),
    [("s3", "no permission (wrong credentials"), ("gs", "cannot be used (Forbidden)")],
)
def test_no_permission(alone, capsys, cloud, found):
    with refusing(403) as host:
        lead_to(alone, cloud, host)
        line = evaluate(capsys, f"{cloud}://{BUCKET}/run")
    assert line.startswith(f"{cloud}://{BUCKET}/run: {found}")


@pytest.mark.parametrize(("cloud", "package"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_missing_package_is_one_line_that_names_its_extra(alone, capsys, cloud, package):
    find = importlib.util.find_spec
    alone.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    expected = f"{cloud}://: {package}: not installed (pip install '.[buckets]' in a checkout)"
    assert evaluate(capsys, f"{cloud}://{BUCKET}/run") == expected


def test_other_files_lie_on_the_disk(capsys):
    flags = ("evaluate", "--run-dir", "run", "--data", "data", "--by-question", "gs://bucket/a")
    expected = "error: --by-question: expected a path on this disk, found gs://bucket/a"
    assert fails(triviaqa, capsys, *flags) == expected


def test_the_run_that_another_one_starts_from_may_lie_in_a_bucket(bucket, tmp_path):
    (tmp_path / "made").write_text("run")
    names = ("config.json", "best/5/checksums.json", "last/5/checksums.json")
    store.Folder(f"{bucket}/run").upload({name: tmp_path / "made" for name in names})
    flags = ("--data", "data", "--dev", "data", "--out", "out", "--init-from", f"{bucket}/run")
    command = parse(triviaqa.COMMANDS, prog="test", argv=["train", *flags, "objective:mml"])
    with on_this_disk(command) as local:
        copied = {path for path in local.init_from.rglob("*") if path.is_file()}
        assert copied == {local.init_from / name for name in names[:2]}
    flags = (*flags[:-1], f"{bucket}/run", str(tmp_path), "--seeds", "0", "1")
    with on_this_disk(parse(triviaqa.COMMANDS, prog="test", argv=["compare", *flags])) as local:
        copied, on_disk = local.init_from
        assert on_disk == tmp_path and (copied / names[1]).is_file()
        assert not (copied / names[2]).exists()


def test_no_client_is_imported_without_a_bucket():
    code = "from experiments import triviaqa as t; from hardem_jax.cli import command\n"
    code += "argv = 'train --data d --dev d --out o objective:mml'.split()\n"
    code += "from hardem_jax.cli.command import on_this_disk\n"
    code += "with on_this_disk(command.parse(t.COMMANDS, prog='p', argv=argv)): pass"
    assert not {"fsspec", "s3fs", "gcsfs", "jax", "etils"} & modules_loaded_by(code)


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n", b"\n--==0==", b"\0", b""])
def test_no_byte_is_lost(bucket, tmp_path, monkeypatch, end):
    contents = {"small": b"\xff" + end, "only": end, "large": bytes(2**21) + end}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    folder = store.Folder(bucket)
    folder.upload({name: tmp_path / name for name in contents})
    of_parts = {"X-Goog-Hash": "crc32c=n03x6A=="}  # of an object that other tools sent in parts
    checker = "gcsfs.checkers.MD5Checker.validate_http_response"
    monkeypatch.setattr(checker, lambda self, _: self.validate_headers(of_parts))
    folder.download({name: tmp_path / f"{name}.found" for name in contents})
    assert {name: (tmp_path / f"{name}.found").read_bytes() for name in contents} == contents
