"""A bucket of either cloud, and folders of copies as different machines have them."""

import gcsfs.core
import pytest
import s3fs

from hardem_jax.buckets import mirror
from hardem_jax.buckets.names import VARIABLE
from tests.emulators import BUCKET, emulated


@pytest.fixture(scope="session", params=["s3", "gs"])
def emulator(request):
    with emulated(request.param) as environment:
        # Clients of an emulator that has ended know another port.
        for client in (s3fs.S3FileSystem, gcsfs.core.GCSFileSystem):
            client.clear_instance_cache()
        yield request.param, environment


@pytest.fixture(scope="session")
def cloud(emulator):
    return emulator[0]


@pytest.fixture(scope="session")
def environment(emulator):
    """What leads another process to the emulator."""
    return emulator[1]


@pytest.fixture
def bucket(cloud, tmp_path, monkeypatch):
    """The address of an empty folder; copies lie in ``tmp_path / "here"``."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "here"))
    monkeypatch.setattr(mirror, "BEAT", 0.05)
    return f"{cloud}://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Call it to go on as on another machine, with a disk of its own."""

    def move(name="elsewhere"):
        monkeypatch.setenv(VARIABLE, str(tmp_path / name))

    return move
