"""Uploads and downloads, against a stand-in for the hub on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub_stand_in import TOKEN, hub

ROOT = Path(__file__).resolve().parents[1]
# In a process of its own: the client reads its settings when it is imported.
UPLOAD = """
import sys
from pathlib import Path
from hardem_jax.hub import download, upload
print(upload(Path(sys.argv[1]), "me/reader", private=True))
print(download("me/reader", ["config.json", "*.safetensors"], what="a checkpoint"))
"""


def run(state, tmp_path, *arguments, token=TOKEN):
    environment = os.environ | {
        "HF_ENDPOINT": state.address,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": token,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    return subprocess.run(
        [sys.executable, "-c", UPLOAD, *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "exported"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "selector.safetensors", "README.md"):
        (folder / name).write_bytes(f"content of {name}\n".encode())
    return folder


def test_what_is_uploaded_comes_back(folder, tmp_path):
    with hub() as state:
        done = run(state, tmp_path, folder)
        assert done.returncode == 0, done.stderr
    address, downloaded = done.stdout.splitlines()
    assert address == f"{state.address}/me/reader"
    [created] = state.created
    # Clients before version 2 have the first of these keys.
    assert created.get("private") is True or created["visibility"] == "private"
    uploaded = state.repositories["me/reader"]
    assert uploaded == {file.name: file.read_bytes() for file in folder.iterdir()}
    found = {file.name: file.read_bytes() for file in Path(downloaded).iterdir()}
    assert found == {name: x for name, x in uploaded.items() if name != "README.md"}


def test_a_wrong_token_is_one_line(folder, tmp_path):
    with hub() as state:
        done = run(state, tmp_path, folder, token="hf_wrong")
    assert done.returncode == 1 and not state.repositories
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("hardem_jax.errors.InputError: me/reader: could not be uploaded (")
    assert "401" in last
