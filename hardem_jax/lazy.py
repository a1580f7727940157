"""Lazy imports for the modules that define command-line flags.

Importing jax takes a second of CPU time, which `--help` and a misspelt flag need not spend: they
only read the fields of configurations.
"""

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
    """A module that is imported when one of its attributes is first accessed.

    Example:
        >>> LazyModule("math").sqrt(4.0)
        2.0
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)
