r"""Objectives that search for solutions, from the work before Min et al. (2019): its Table 4.

Z is not given: candidates come from the model's own distribution, by exact beam search or by
sampling, an executor says which of them lead to the answer (R(z) = 1, else 0), and what was found
may be remembered with the question. They differ in where candidates come from and in what they make
of those with a reward:

====================  ==========================================================================
`Reinforce`           :math:`\nabla E_{z \sim P}[R(z)]`, from samples (Williams, 1992)
`IterativeML`         likelihood of all that was ever found (Liang et al., 2017)
`BeamMML`             :math:`-\log \sum_z P(z)` over those found (Berant et al., 2013)
`BeamHardEM`          :math:`-\log \max_z P(z)` over those found (Min et al., 2019)
`MAPO`                expected reward, exact on the memory, sampled outside (Liang et al., 2018)
`MAPOX`               iterative ML to fill the memory, then MAPO (Agarwal et al., 2019)
`MERL`                likelihood of those found, weighted by a reward that is learned (the same)
====================  ==========================================================================

The likelihoods use P(z | x) as the objectives over a given Z do, so that both differ in Z alone,
and are means over the questions with something found. Expected rewards, and MAPOX throughout, use
P'(z | x), normalised over what can be drawn (`Space.log_mass`), and are means over all questions:
otherwise gradients estimated from samples would be biased. Under every objective here, a question
whose candidates all have reward 0 contributes no gradient.
"""

from hardem_jax.search.expected_rewards import MAPO, MAPOX, Reinforce
from hardem_jax.search.likelihoods import MERL, BeamHardEM, BeamMML, IterativeML
from hardem_jax.search.protocol import Memory, Metrics, SearchObjective

__all__ = [
    "MAPO",
    "MAPOX",
    "MERL",
    "AnySearchObjective",
    "BeamHardEM",
    "BeamMML",
    "IterativeML",
    "Memory",
    "Metrics",
    "Reinforce",
    "SearchObjective",
]

#: Every objective that searches and is available in commands.
AnySearchObjective = Reinforce | IterativeML | BeamMML | BeamHardEM | MAPO | MAPOX | MERL
