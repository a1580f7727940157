"""Modules that are imported at their first use, for files that a command line is parsed from.

Importing jax costs a second of CPU time. `--help` and a misspelt flag need the fields of
configurations, not what their methods compute.
"""

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
    """Stands for a module, and imports it when one of its attributes is first asked for.

    Example:
        >>> LazyModule("math").sqrt(4.0)
        2.0
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)
