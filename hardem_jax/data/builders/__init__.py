"""TFDS builders whose records hold Z, found in one process or by Apache Beam, with equal files.

    builder = SolutionBuilder(DropNum(), folder="drop", data_dir="built")
    builder.download_and_prepare()                                        # this process, or
    builder.download_and_prepare(download_config=beam.beam_config(["direct_num_workers=8"]))
    question = open_build(builder.data_dir).examples("train")[0]

TensorFlow is not needed. Whoever only reads a build imports nothing of what makes one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardem_jax.data.builders.base import SolutionBuilder, quiet
    from hardem_jax.data.built import Build, open_build

__all__ = ["Build", "SolutionBuilder", "open_build", "quiet"]
_MODULES = {
    **dict.fromkeys(("SolutionBuilder", "quiet"), "hardem_jax.data.builders.base"),
    **dict.fromkeys(("Build", "open_build"), "hardem_jax.data.built"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
