"""Names the optional packages that are not installed, and the command that installs them."""

import importlib.util


def require_packages(extra: str, *modules: str) -> None:
    """Raises an error, in one line, if packages of an extra are not installed.

    Rooms call it first thing, so that importing `hardem_jax.training` where only
    ``pip install .`` has run says what is missing. Nothing is imported.

    Args:
        extra: the extra that brings them.
        modules: top-level modules, as they are imported.

    Raises:
        ImportError: names the missing ones and the command.

    Example:
        >>> require_packages("train", "json")
        >>> require_packages("train", "json", "no_such_package")
        Traceback (most recent call last):
        ...
        ImportError: no_such_package: not installed (pip install '.[train]' in a checkout)
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise ImportError(f"{names}: not installed (pip install '.[{extra}]' in a checkout)")
