"""Weakly supervised question answering with discrete latent solutions, in JAX.

The top level exports the losses and objectives, which need only jax, `find_spans`,
`find_equations` and `find_queries`, which show all solutions of a question, and `Reader`, which
answers one; models, data and training are subpackages to import by name. Each name is imported
when it is first used, so that commands that need none of them start quickly.
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
    from hardem_jax.show.equations import find_equations
    from hardem_jax.show.queries import find_queries
    from hardem_jax.show.spans import find_spans
    from hardem_jax.tasks.answering import Reader

__version__ = "0.3.0"

__all__ = [
    "EM",
    "MML",
    "FirstOnly",
    "HardEM",
    "Objective",
    "Reader",
    "annealed_loss",
    "check_log_probs",
    "em_loss",
    "find_equations",
    "find_queries",
    "find_spans",
    "first_only_loss",
    "hard_em_loss",
    "has_solution",
    "mean_over",
    "mml_loss",
]

# Where each name is defined.
_HOMES: dict[str, str] = dict.fromkeys(
    ("EM", "MML", "FirstOnly", "HardEM", "Objective"), "objectives"
)
_HOMES |= {f"find_{kind}": f"show.{kind}" for kind in ("spans", "equations", "queries")}
_HOMES["Reader"] = "tasks.answering"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "losses")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
