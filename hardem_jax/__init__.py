"""Weakly supervised question answering with discrete latent solutions, in JAX.

The top level exports the losses and objectives and needs only jax; models, data and training are
subpackages to import by name. jax itself is imported when a loss or an objective is first used,
so that commands that need neither start quickly.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardem_jax.losses import (
        annealed_loss,
        check_log_probs,
        em_loss,
        first_only_loss,
        hard_em_loss,
        has_solution,
        mean_over,
        mml_loss,
    )
    from hardem_jax.objectives import EM, MML, FirstOnly, HardEM, Objective

__version__ = "0.2.0"

__all__ = [
    "EM",
    "MML",
    "FirstOnly",
    "HardEM",
    "Objective",
    "annealed_loss",
    "check_log_probs",
    "em_loss",
    "first_only_loss",
    "hard_em_loss",
    "has_solution",
    "mean_over",
    "mml_loss",
]

_OBJECTIVES = {"EM", "MML", "FirstOnly", "HardEM", "Objective"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "objectives" if name in _OBJECTIVES else "losses"
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
