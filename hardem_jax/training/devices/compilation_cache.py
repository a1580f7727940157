"""JAX's persistent compilation cache."""

from __future__ import annotations

import os
from pathlib import Path

import jax

VARIABLE = "JAX_COMPILATION_CACHE_DIR"


def enable_compilation_cache() -> Path | None:
    """Enables JAX's persistent compilation cache; call it before anything is compiled.

    The folder is ``JAX_COMPILATION_CACHE_DIR`` if set (empty disables the cache); otherwise, on
    GPUs and TPUs, ``hardem_jax/compiled`` in the user's cache folder (``XDG_CACHE_HOME`` or
    ``~/.cache``). On CPUs there is no default: programs are compiled for one machine's
    processor, and home folders are often shared between machines. Of several processes only the
    primary writes to the cache.

    Returns:
        The cache folder, or None if the cache is disabled.
    """
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) if os.environ[VARIABLE] else None
    if jax.default_backend() == "cpu":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hardem_jax" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
