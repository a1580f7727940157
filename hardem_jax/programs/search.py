"""Programs without a given Z, see `hardem_jax.tables.search`.

Which fields and links there are, and what they may be used for, the model's inputs say already.
What is left of Z_tot is which of them go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from hardem_jax.programs.distribution import ProgramDistribution
from hardem_jax.programs.model import HELD
from hardem_jax.programs.records import links_of
from hardem_jax.programs.reward_features import PROGRAM_FEATURES, program_features
from hardem_jax.programs.sampling import Support
from hardem_jax.programs.solutions.enumeration import AnswerTest
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.types import ROW_WIDTH, SHAPES
from hardem_jax.programs.task import ProgramQuestions, ProgramTask
from hardem_jax.search.protocol import SearchObjective
from hardem_jax.tables import learned_rewards, search
from hardem_jax.tables.metrics import Denotation
from hardem_jax.training.state import ITEM

Array = jax.Array

#: How two links may be joined: connective, and whether they must ascend.
_JOINED = sorted({(s.connective, s.is_symmetric) for s in SHAPES if s.num_links == 2})
#: Of each shape, the rule of its two fields and that of its two links, see `Support`.
_RULES = tuple(
    (
        0 if s.result in ("gap", "total") else -1,
        _JOINED.index((s.connective, s.is_symmetric)) if s.num_links == 2 else -1,
    )
    for s in SHAPES
)


class ProgramExecutor(search.Executor):
    """Candidates are programs whose fields and links may go together, see `support`."""

    ROW_WIDTH = ROW_WIDTH
    NUM_FEATURES = len(PROGRAM_FEATURES)
    features = staticmethod(program_features)

    def make_test(self, index: int) -> AnswerTest:
        question = self.questions[index]
        table = self.tables[question.table_id]
        links = links_of(question, table, self.rules)
        return AnswerTest(table, links, Denotation(question.answer, question.values), self.rules)

    def space(
        self, distribution: ProgramDistribution, batch: Mapping[str, Array]
    ) -> search.TableSpace:
        limits = {"within": support(batch, distribution.select.shape[-1], self.rules)}
        return search.TableSpace(distribution, batch[ITEM], self, limits)


def search_training(
    task: ProgramTask, objective: SearchObjective, data: ProgramQuestions
) -> search.SearchTraining:
    """Training that looks for the programs of these questions."""
    return learned_rewards.search_training(task, objective, data, ProgramExecutor)


def support(batch: Mapping[str, Array], num_fields: int, rules: ProgramRules) -> Support:
    """The pairs of ``num_fields`` fields and of links that Z_tot allows, as `may_pair` does. It
    leaves out what needs an execution: under rules without redundancy some of these programs are
    not in Z_tot, since a simpler one says the same."""
    field, operator, first, last = (batch["links"][..., i] for i in range(4))
    separate = _pairs(jnp.maximum, first) > _pairs(jnp.minimum, last)
    there = batch["links_where"]
    separate &= there[:, :, None] & there[:, None]
    ascending = _ascending(there.shape[1])[None]
    separate &= (jnp.sum(separate & ascending, axis=(1, 2)) <= rules.max_pairs)[:, None, None]
    held = jnp.isin(operator, jnp.array(HELD))
    same = _pairs(jnp.equal, field) & _pairs(jnp.equal, operator) & held[:, None]
    joined = {"or": separate & same, "and not": separate & held[:, None]}
    links = [
        joined.get(name, separate) & (ascending if symmetric else True)
        for name, symmetric in _JOINED
    ]
    return Support(_ascending(num_fields)[None, None], jnp.stack(links, axis=1), _RULES)


def _ascending(size: int) -> Array:
    """``[size, size]`` bool: whether the second is after the first."""
    return jnp.triu(jnp.ones((size, size), bool), 1)


def _pairs(function: Callable[[Array, Array], Array], values: Array) -> Array:
    """``[B, M]`` -> ``[B, M, M]``."""
    return function(values[:, :, None], values[:, None])
