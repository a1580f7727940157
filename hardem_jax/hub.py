"""Downloads from and uploads to the Hugging Face hub, with a one-line error when they fail."""

from collections.abc import Sequence
from pathlib import Path

from hardem_jax.errors import InputError

SECONDS = 10  # timeout for the hub's answer


def download(name: str, patterns: Sequence[str], *, what: str) -> Path:
    """The local folder with files of a hub repository, downloaded if needed. The hub is asked once
    whether the repository exists: without a network, its client would retry every request for most
    of a minute."""
    from huggingface_hub import HfApi, snapshot_download  # takes seconds to import
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().model_info(name, timeout=SECONDS)
        offline = None
    except Exception as error:  # any type: the client lets those of its HTTP library through
        offline = error
    try:
        local = offline is not None
        return Path(snapshot_download(name, allow_patterns=[*patterns], local_files_only=local))
    except Exception as error:
        found = f"found neither a local folder nor {what} to download"
        # The hub has answered that there is none, or it cannot be reached.
        answered = isinstance(offline or error, HfHubHTTPError)
        advice = "" if answered else "; without a network, name a folder that holds it"
        raise InputError(f"{name}: {found} ({_first_line(offline or error)}){advice}") from error


def upload(folder: Path, name: str, *, private: bool = True) -> str:
    """Uploads the files of a folder to a model repository of the hub, and returns its address. The
    token is that of ``hf auth login`` or the environment (``HF_TOKEN``)."""
    from huggingface_hub import HfApi  # takes seconds to import

    try:
        api = HfApi()
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload a model")
    except Exception as error:  # any type: the client lets those of its HTTP library through
        raise InputError(f"{name}: could not be uploaded ({_first_line(error)})") from error
    return str(address)


def _first_line(error: Exception) -> str:
    reason = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {reason}"
