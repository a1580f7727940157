"""Downloads from the Hugging Face hub, with a one-line error when they fail."""

from collections.abc import Sequence
from pathlib import Path

from hardem_jax.errors import InputError

SECONDS = 10  # timeout for the hub's answer


def download(name: str, patterns: Sequence[str], *, what: str) -> Path:
    """Returns the local folder with files of a hub repository, downloading them if needed.

    The hub is queried once to check that the repository exists: without a network, its client
    would retry every request for most of a minute.

    Args:
        name: the repository, such as "bert-base-uncased".
        patterns: glob patterns of the files to download.
        what: what is being looked for, for the error message.

    Raises:
        InputError: the repository does not exist, or there is neither a network nor an earlier
            download.
    """
    from huggingface_hub import HfApi, snapshot_download  # takes seconds to import

    try:
        HfApi().model_info(name, timeout=SECONDS)
        offline = None
    except Exception as error:  # any type: the client lets those of its HTTP library through
        offline = error
    try:
        local = offline is not None
        return Path(snapshot_download(name, allow_patterns=[*patterns], local_files_only=local))
    except Exception as error:
        cause = offline or error
        reason = str(cause).strip().partition("\n")[0]
        raise InputError(
            f"{name}: found neither a local folder nor {what} to download "
            f"({type(cause).__name__}: {reason})"
        ) from error
