"""Downloading from the Hugging Face hub, with one line where that cannot be done."""

from collections.abc import Sequence
from pathlib import Path

from hardem_jax.errors import InputError

SECONDS = 10  # to wait for the hub's answer


def download(name: str, patterns: Sequence[str], *, what: str) -> Path:
    """The local folder with files of a repository on the hub, downloaded unless they were before.

    The hub is asked once whether it has the repository. Left to itself, its client repeats every
    request for most of a minute while there is no network.

    Args:
        name: of the repository, such as "bert-base-uncased".
        patterns: of the names of files.
        what: is looked for, for the message.

    Raises:
        InputError: there is no such repository, or neither a network nor an earlier download.
    """
    from huggingface_hub import HfApi, snapshot_download  # takes seconds to import

    try:
        HfApi().model_info(name, timeout=SECONDS)
        offline = None
    except Exception as error:  # of any type: the client passes on those of its HTTP library
        offline = error
    try:
        local = offline is not None
        return Path(snapshot_download(name, allow_patterns=[*patterns], local_files_only=local))
    except Exception as error:
        cause = offline or error
        reason = str(cause).strip().partition("\n")[0]
        raise InputError(
            f"{name}: neither a local folder nor {what} that could be downloaded "
            f"({type(cause).__name__}: {reason})"
        ) from error
