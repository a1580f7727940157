"""Errors for missing optional packages, with the command that installs them."""

import importlib.util


class MissingPackageError(ImportError):
    """Packages of an extra are not installed; commands print it as one line."""


def require_packages(extra: str, *modules: str) -> None:
    """Raises a one-line error if packages of an extra are not installed; imports none of them."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise MissingPackageError(
            f"{names}: not installed (pip install '.[{extra}]' in a checkout)"
        )
