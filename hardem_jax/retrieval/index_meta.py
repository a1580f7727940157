"""Metadata of a retrieval index, checked against its passages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardem_jax.data.files import read_meta
from hardem_jax.errors import InputError
from hardem_jax.retrieval.store import PassageStore


def index_meta(
    folder: Path, store: PassageStore, *, format: str, verify: bool = True
) -> dict[str, Any]:
    """Reads ``meta.json`` of an index and checks that it was built from `store`.

    Args:
        folder: the index.
        store: the passages.
        format: expected format of the index.
        verify: see `hardem_jax.data.files.read_meta`.

    Raises:
        InputError: there is no complete index, it has another format, a file of it is
            damaged, or it was built from other passages.
    """
    meta = read_meta(folder, format=format, what="an index", verify=verify)
    if meta["content"] != store.content:
        expected = f"expected an index of the passages in {store.folder} ({store.content})"
        raise InputError(f"{folder}: {expected}, found one of other passages ({meta['content']})")
    return meta
