"""What is asked of the hub's client, and its errors as one line."""

from pathlib import Path

import huggingface_hub
import pytest

from hardem_jax.errors import InputError
from hardem_jax.hub import upload


class Api:
    """In place of the client: what it was asked for."""

    asked: list = []  # noqa: RUF012

    def create_repo(self, name, *, private, exist_ok):
        self.asked.append((name, private, exist_ok))
        return f"https://hub/{name}"

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        if repo_id == "you/reader":
            raise PermissionError("401 Client Error\nwith a long explanation")
        self.asked.append((repo_id, folder_path))


@pytest.fixture(autouse=True)
def api(monkeypatch):
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(Api, "asked", [])


def test_a_folder_is_uploaded_to_a_private_repository():
    assert upload(Path("exported"), "me/reader") == "https://hub/me/reader"
    assert Api.asked == [("me/reader", True, True), ("me/reader", Path("exported"))]


def test_a_wrong_token_is_one_line():
    message = r"^you/reader: could not be uploaded \(PermissionError: 401 Client Error\)$"
    with pytest.raises(InputError, match=message):
        upload(Path("exported"), "you/reader")
