"""Emulated clouds on this machine, each with one empty bucket."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from unittest import mock

BUCKET = "tests"
#: What the emulators take for credentials; also what no message may hold.
SECRET = "not-to-be-seen"


@contextlib.contextmanager
def emulated(scheme: str) -> Iterator[Mapping[str, str]]:
    """An emulator of the cloud of ``gs`` or ``s3``; yields the environment that leads there."""
    with (
        _s3() if scheme == "s3" else _gs() as environment,
        mock.patch.dict(os.environ, environment),
    ):
        if scheme == "s3":
            import fsspec

            # moto keeps its buckets when a server stops and another begins.
            fsspec.filesystem("s3", skip_instance_cache=True).makedirs(BUCKET, exist_ok=True)
        yield environment


@contextlib.contextmanager
def _s3() -> Iterator[dict[str, str]]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.stop()


@contextlib.contextmanager
def _gs() -> Iterator[dict[str, str]]:
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
    # Of more than five connections at once, its default, the last are made to wait for seconds.
    with mock.patch("http.server.HTTPServer.request_queue_size", 128):
        server.start()
    try:
        port = server._api._httpd.server_address[1]
        yield {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}
    finally:
        server.stop()
