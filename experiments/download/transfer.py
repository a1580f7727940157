"""One file over HTTP, continued where it stopped."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import requests

from hardem_jax.data.files import write_json
from hardem_jax.errors import InputError

CHUNK = 1 << 16  # bytes; what of a chunk has arrived is lost with the connection
SECONDS = 30  # without a byte, until the connection counts as lost
#: Failures in a row, without a byte in between, until a download is given up.
ATTEMPTS = 6
_TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)

#: Is told how many bytes there are, and how many there will be if the server says so.
Progress = Callable[[int, int | None], None]


def fetch(url: str, file: Path, *, progress: Progress, pause: float = 1.0) -> None:
    """Downloads a file, which appears under its name when it is complete.

    Until then it is ``NAME.part``, and the next call continues it, unless the server has another
    version by then. Lost connections are tried again.

    Args:
        url: where the file is.
        file: where it will be.
        progress: called after every chunk.
        pause: seconds before the first new attempt; each further one waits twice as long.

    Raises:
        InputError: the server refuses, does not answer, or there is no room for the file.
    """
    partial, version = _beside(file, ".part"), _beside(file, ".part.json")
    failures, reason = 0, ""
    while failures < ATTEMPTS:
        if failures:
            time.sleep(pause * 2 ** (failures - 1))
        before = partial.stat().st_size if partial.exists() else 0
        try:
            if _continue(url, partial, version, progress):
                partial.replace(file)
                version.unlink(missing_ok=True)
                return
            reason = "the connection was lost"
        except requests.RequestException as error:
            reason = str(error)
        arrived = (partial.stat().st_size if partial.exists() else 0) - before
        failures = failures + 1 if arrived <= 0 else 1
    raise InputError(
        f"{url}: expected a file, found that {reason} ({ATTEMPTS} attempts); "
        "the same command continues"
    )


def _continue(url: str, partial: Path, version: Path, progress: Progress) -> bool:
    """Downloads what is missing; whether the file is complete."""
    start = partial.stat().st_size if partial.exists() else 0
    # Without it, compressed transfers would hide the length, and cannot be continued.
    headers = {"Accept-Encoding": "identity"}
    known = _known(version)
    if start and (validator := known.get("etag") or known.get("modified")):
        headers |= {"Range": f"bytes={start}-", "If-Range": validator}
    with requests.get(url, headers=headers, stream=True, timeout=SECONDS) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            partial.unlink()  # longer than the file: of another one
            return False
        if answer.status_code in _TRY_AGAIN:
            raise requests.HTTPError(f"the server answered {answer.status_code}")
        if answer.status_code not in (requests.codes.ok, requests.codes.partial_content):
            raise InputError(f"{url}: expected a file, found {answer.status_code} {answer.reason}")
        resumed = answer.status_code == requests.codes.partial_content
        if not resumed:
            start = 0
            write_json(version, _version(answer))
        length = answer.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        _check_room(partial.parent, url, 0 if length is None else int(length))
        with open(partial, "ab" if resumed else "wb") as out:
            progress(start, total)
            for chunk in answer.iter_content(CHUNK):
                out.write(chunk)
                progress(out.tell(), total)
    return total is None or partial.stat().st_size == total


def _version(answer: requests.Response) -> dict[str, str]:
    """What tells whether a later answer is of the same file; a weak ETag does not."""
    etag = answer.headers.get("ETag", "")
    found = {"etag": "" if etag.startswith("W/") else etag}
    return found | {"modified": answer.headers.get("Last-Modified", "")}


def _known(version: Path) -> dict[str, str]:
    """What was recorded; nothing if the process was killed while it was."""
    try:
        return dict(json.loads(version.read_text("utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _check_room(folder: Path, url: str, wanted: int) -> None:
    if (free := shutil.disk_usage(folder).free) < wanted:
        sizes = f"{wanted / 1e9:.1f} GB free, found {free / 1e9:.1f}"
        raise InputError(f"{folder}: expected {sizes}, to download {url}")


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)
