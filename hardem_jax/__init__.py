"""Weakly supervised question answering with discrete latent solutions, in JAX.

The top level exports the losses and objectives, which need only jax, `find_spans`,
`find_equations` and `find_queries`, which show all solutions of a question, and `Reader`,
`NumberReader` and `TableReader`, which answer one; models, data and training are subpackages to
import by name. Each name is imported when it is first used, so commands without them start quickly.
"""

import importlib.util
from typing import TYPE_CHECKING, Any

from hardem_jax.version import __version__ as __version__

if TYPE_CHECKING:
    from hardem_jax.equations.reader import NumberReader
    from hardem_jax.equations.show import find_equations
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
    from hardem_jax.queries.reader import TableReader
    from hardem_jax.queries.show import find_queries
    from hardem_jax.spans.reader import Reader
    from hardem_jax.spans.show import find_spans

__all__ = [
    "EM",
    "MML",
    "FirstOnly",
    "HardEM",
    "Objective",
    "NumberReader",
    "Reader",
    "TableReader",
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

# What else a name needs, a package of each extra; it says so when it is asked for.
_NEEDS: dict[str, tuple[str, ...]]
_NEEDS = dict.fromkeys(("find_equations", "find_queries"), ("ijson",))
_NEEDS |= dict.fromkeys(("Reader", "NumberReader", "TableReader"), ("flax", "ijson", "optax"))
__all__[:] = (x for x in __all__ if all(map(importlib.util.find_spec, _NEEDS.get(x, ()))))

# Where each name is defined that is not among the losses.
_HOMES = {
    **dict.fromkeys(("EM", "MML", "FirstOnly", "HardEM", "Objective"), "objectives"),
    **{f"find_{task}": f"{task}.show" for task in ("spans", "equations", "queries")},
    "Reader": "spans.reader",
    "NumberReader": "equations.reader",
    "TableReader": "queries.reader",
}


def __getattr__(name: str) -> Any:
    if name not in (*__all__, *_HOMES):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "losses")
    try:
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == __name__:
            raise
        from hardem_jax.errors import MissingPackageError

        advice = "not installed (pip install '.[all]' in a checkout)"
        raise MissingPackageError(f"{name} needs {missing}: {advice}") from None
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
