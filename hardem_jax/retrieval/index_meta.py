"""What an index says of itself: which passages it was built from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardem_jax.data.files import read_meta
from hardem_jax.errors import InputError
from hardem_jax.retrieval.store import PassageStore


def index_meta(
    folder: Path, store: PassageStore, *, format: str, verify: bool = True
) -> dict[str, Any]:
    """``meta.json`` of an index of a store.

    Args:
        folder: the index.
        store: the passages it was built from.
        format: of the index.
        verify: see `hardem_jax.data.prepared.records.read_meta`.

    Raises:
        InputError: there is no complete index, it has another format, a file of it is
            damaged, or it was built from other passages.
    """
    meta = read_meta(folder, format=format, what="an index", verify=verify)
    if meta["content"] != store.content:
        expected = f"expected an index of the passages in {store.folder} ({store.content})"
        raise InputError(f"{folder}: {expected}, found one of others ({meta['content']})")
    return meta
