"""Errors for missing optional packages, with the command that installs them."""

import importlib.util


class MissingPackageError(ImportError):
    """Packages of an extra are not installed; commands print it as one line."""


def require_packages(extra: str, *modules: str) -> None:
    """Raises a one-line error if packages of an extra are not installed.

    Subpackages call it before their own imports, so that importing `hardem_jax.training` after a
    bare ``pip install .`` reports what is missing. It imports none of the modules.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise MissingPackageError(
            f"{names}: not installed (pip install '.[{extra}]' in a checkout)"
        )
