"""Programs compiled once and kept on disk."""

from __future__ import annotations

import os
from pathlib import Path

import jax

VARIABLE = "JAX_COMPILATION_CACHE_DIR"


def keep_compiled_programs() -> Path | None:
    """Lets the next start find what this one compiles; has to come before anything is compiled.

    In ``JAX_COMPILATION_CACHE_DIR``, where that is set (empty: nowhere); else, for GPUs and TPUs,
    in ``hardem_jax/compiled`` of the user's cache folder (``XDG_CACHE_HOME``, or ``~/.cache``).
    Programs for CPUs are not kept unless the variable says so: they are made for the processor
    of one machine, and the home of a user is often that of many. The first of several
    processes writes; where all see the folder, all find it.

    Returns:
        The folder, None if there is none.
    """
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) if os.environ[VARIABLE] else None
    if jax.default_backend() == "cpu":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hardem_jax" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
