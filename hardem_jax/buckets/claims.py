"""A claim keeps two machines from writing to the same folder of a bucket.

Buckets have no locks that end with their process. A claim is an object ``<folder>.lock.json`` that
names its owner and is rewritten every `BEAT` seconds. One that stands still belonged to a
process that was killed, and is taken over.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from hardem_jax.buckets.store import Folder
from hardem_jax.errors import InputError
from hardem_jax.locks import LOCK_FILE, InUse, owner, this_process

#: Seconds between two signs of life.
BEAT = 15.0
#: A claim without a sign of life for so many beats is that of a killed process.
_PATIENCE = 3


class Claim:
    """A claim on a folder of a bucket that this process holds.

    ``disk`` identifies the local folder of copies, whose kernel locks have shown that no other
    process on this disk works on the folder.
    """

    def __init__(self, folder: Folder, disk: str) -> None:
        self._object, self._where = folder.beside(f".{LOCK_FILE}"), folder.where
        self._ended = threading.Event()
        self._owner = this_process() | {"disk": disk, "claim": uuid.uuid4().hex}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Claims the folder until the context ends, or raises `InUse` after up to 45 seconds."""
        self._take()
        beating = threading.Thread(target=self._beat, name="claim", daemon=True)
        beating.start()
        try:
            yield
        finally:
            self._ended.set()
            beating.join()
            # One that cannot be deleted now is taken over like that of a killed process.
            with contextlib.suppress(InputError):
                if self._is_ours(self._object.read()):
                    self._object.delete([""])

    def check(self) -> None:
        """Checks that nobody has taken the claim over; call it before every change."""
        if not self._is_ours(found := self._object.read()):
            raise InputError(f"{self._where}: was taken over by {owner(found)}")

    def _take(self) -> None:
        content = self._text(0)
        if self._object.create(content):
            return
        found = self._object.read()
        if _parsed(found).get("disk") != self._owner["disk"]:
            self._wait_for_sign_of_life(found)
        self._object.delete([""])
        if not self._object.create(content):
            raise self._in_use(self._object.read())

    def _wait_for_sign_of_life(self, found: bytes | None) -> None:
        print(f"{self._where}: waiting for a sign of life of {owner(found)}", file=sys.stderr)
        for _ in range(_PATIENCE):
            time.sleep(BEAT)
            now = self._object.read()
            if now is not None and now != found:
                raise self._in_use(now)

    def _in_use(self, found: bytes | None) -> InUse:
        return InUse(f"{self._where}: in use by {owner(found)}")

    def _beat(self) -> None:
        beats = 0
        while not self._ended.wait(BEAT):
            beats += 1
            # What goes wrong here goes wrong at the next upload, too, which reports it.
            with contextlib.suppress(InputError):
                if not self._is_ours(self._object.read()):
                    return
                self._object.write(self._text(beats))

    def _text(self, beats: int) -> bytes:
        return json.dumps(self._owner | {"beats": beats}).encode()

    def _is_ours(self, found: bytes | None) -> bool:
        return _parsed(found).get("claim") == self._owner["claim"]


def _parsed(found: bytes | None) -> dict[str, Any]:
    try:
        content = json.loads(found or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
