"""Weakly supervised question answering with discrete latent solutions, in JAX.

The top level holds only the objectives and needs nothing but jax; models, data
and training live in subpackages that are imported by name.
"""

from hardem_jax.losses import (
    annealed_loss,
    check_log_probs,
    em_loss,
    first_only_loss,
    hard_em_loss,
    has_solution,
    mean_over,
    mml_loss,
    scheduled_loss,
)
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective, Scheduled

__version__ = "0.1.0"

__all__ = [
    "MML",
    "FirstOnly",
    "HardEM",
    "Objective",
    "Scheduled",
    "annealed_loss",
    "check_log_probs",
    "em_loss",
    "first_only_loss",
    "hard_em_loss",
    "has_solution",
    "mean_over",
    "mml_loss",
    "scheduled_loss",
]
