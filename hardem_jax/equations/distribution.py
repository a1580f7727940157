r"""P(z | x) over equations, from an operator tag for every number of a question.

A question has a table of N numbers (slots). The tag of a number is its role in the
equation: none, added, subtracted, or a percentage (Min et al., 2019, section 4.2 and
appendix A). Tags are independent, so that

.. math:: \log P(z \mid x) = r + \sum_n \log P(\mathrm{none}_n)
    + \sum_{(n, o) \in z} \log P(o_n) - \log P(\mathrm{none}_n)

The first two terms are shared by every z and computed once, so an equation costs two gathers
and two additions. :math:`r` is the term of positions without a number, if included.

Most taggings are not equations: they have three operands, or none. `TagDistribution.over_equations`
conditions the distribution on a well-formed equation, which gives a softmax over Z_tot:

.. math:: \log P(z \mid x) = s(z) - \log \sum_{z' \in Z_{tot}} \exp s(z'), \quad
    s(z) = \sum_{(n, o) \in z} \log P(o_n) - \log P(\mathrm{none}_n)

Equations are rows of int32 ``(n1, o1, n2, o2)``: slots and tags, ``n1 < n2``; a lone number
has ``n2 = -1, o2 = NONE``; a count c is ``(c, COUNT, -1, NONE)``.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from hardem_jax import masked
from hardem_jax.equations.solutions.rules import COUNT, NONE, PERCENT, PLUS
from hardem_jax.equations.solutions.rules import MINUS as MINUS
from hardem_jax.score_tables import gather, top

Array = jax.Array

NUM_TAGS = COUNT  # NONE to PERCENT; COUNT is not a tag
NUM_OPERATORS = NUM_TAGS - 1


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["tags", "where", "rest"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class TagDistribution:
    """Independent distributions over the tags of numbers.

    Build it with `from_logits`.

    Attributes:
        tags: ``[B, N, 4]`` float32 log-probabilities of NONE, PLUS, MINUS, PERCENT. Outside
            ``where``, NONE is certain, as there is no number.
        where: ``[B, N]`` bool, the slots that hold a number.
        rest: ``[B]`` float32, log-probability that no other input position is tagged; 0 if
            the product runs over numbers only.

    Example:
        >>> logits = jnp.log(jnp.array([[[1.0, 2, 1, 0], [3, 0, 1, 0], [1, 1, 1, 1]]]))
        >>> where = jnp.array([[True, True, False]])
        >>> equations = TagDistribution.from_logits(logits, where=where)
        >>> candidates = [[0, PLUS, 1, MINUS], [0, PLUS, -1, NONE], [1, MINUS, 2, PLUS]]
        >>> print(jnp.exp(equations.log_prob(jnp.array([candidates]))).round(4))
        [[0.125 0.375 0.   ]]
    """

    tags: Array
    where: Array
    rest: Array

    @classmethod
    def from_logits(
        cls, logits: Array, *, where: Array, rest: Array | None = None
    ) -> "TagDistribution":
        """Normalise the logits of each number over its tags, in float32.

        Args:
            logits: ``[B, N, 4]`` float, or ``[B, N, 3]`` from a model without PERCENT, which
                then has no mass. Those of NONE must be finite; padding is ignored.
            where: ``[B, N]`` bool, the slots that hold a number.
            rest: ``[B]`` float, see the class; default 0.
        """
        num_tags = logits.shape[-1]
        where_tags = where[..., None]
        # Mask the input too: an infinite logit at padding would make gradients NaN.
        logits = jnp.where(where_tags, logits.astype(jnp.float32), 0.0)
        tags = jax.nn.log_softmax(logits, axis=-1)
        tags = jnp.pad(tags, ((0, 0), (0, 0), (0, NUM_TAGS - num_tags)), constant_values=-jnp.inf)
        certainly_none = jnp.where(jnp.arange(NUM_TAGS) == NONE, 0.0, -jnp.inf)[None, None]
        tags = jnp.where(where_tags, tags, certainly_none)
        if rest is None:
            rest = jnp.zeros(logits.shape[0])
        return cls(tags, where, rest.astype(jnp.float32))

    def log_prob(self, equations: Array) -> Array:
        """log P(z | x) of given equations.

        The probabilities of all taggings of the N numbers sum to exp(rest); equations, with one
        or two operands, are some of these taggings.

        Args:
            equations: ``[B, Z, 4]`` int. A row without operands, such as (-1, NONE, -1, NONE),
                is the tagging with NONE everywhere; its value is finite, so padding is harmless.

        Returns:
            ``[B, Z]`` float32; -inf where an operand is not a number of the table, where both are
            the same number, and for counts.
        """
        return self._untagged()[:, None] + self._scores(equations)

    def over_equations(self, *, pairs: Array, lone: Array) -> "EquationDistribution":
        """This distribution conditioned on the tagging being a well-formed equation.

        Args:
            pairs, lone: Z_tot, as in `top`.
        """
        log_total = masked.logsumexp(jax.lax.collapse(self._table(pairs, lone), 1))
        return EquationDistribution(self, pairs, lone, log_total)

    def top(self, k: int, *, pairs: Array, lone: Array) -> tuple[Array, Array]:
        """The ``k`` most likely well-formed equations, best first, by exhaustive search.

        Ties go to the lexicographically smaller row ``(n1, o1, n2, o2)``: to the earlier slot,
        and to a lone number before its pairs.

        Args:
            k: number of equations, static.
            pairs: ``[B, N, 3, N, 3]`` bool, which pairs are well-formed, by n1, o1, n2, o2
                (operators PLUS to PERCENT); used only where n1 < n2.
            lone: ``[B, N, 3]`` bool, which lone numbers are well-formed.

        Returns:
            ``[B, k, 4]`` int32 equations and their ``[B, k]`` float32 log-probabilities. If
            fewer than ``k`` are possible, the rest are (-1, NONE, -1, NONE) with -inf.

        Example:
            >>> logits = jnp.array([[[0.0, 3, 0, 0], [0, 2, 1, 0]]])
            >>> equations = TagDistribution.from_logits(logits, where=jnp.ones((1, 2), bool))
            >>> pairs, lone = jnp.ones((1, 2, 3, 2, 3), bool), jnp.zeros((1, 2, 3), bool)
            >>> equations.top(2, pairs=pairs, lone=lone)[0].tolist()
            [[[0, 1, 1, 1], [0, 1, 1, 2]]]
        """
        equations, scores = self._top_scores(k, pairs, lone)
        # Added after ranking: adding a large sum would round away small differences.
        return equations, self._untagged()[:, None] + scores

    def _top_scores(self, k: int, pairs: Array, lone: Array) -> tuple[Array, Array]:
        table = self._table(pairs, lone)
        num_second = table.shape[-1]
        gains, flat = top(jax.lax.collapse(table, 1), k)
        first, second = flat // num_second, flat % num_second - 1
        equations = jnp.stack(
            [
                first // NUM_OPERATORS,
                first % NUM_OPERATORS + PLUS,
                second // NUM_OPERATORS,  # the -1 of a lone number stays -1
                jnp.where(second < 0, NONE, second % NUM_OPERATORS + PLUS),
            ],
            axis=-1,
        )
        return _possible(equations, gains), gains

    def mode(self, *, pairs: Array, lone: Array) -> Array:
        """The most likely well-formed equation, ``[B, 4]`` int32. Arguments as in `top`."""
        return self.top(1, pairs=pairs, lone=lone)[0][:, 0]

    def argmax_tags(self) -> Array:
        """The most likely tag of each number, ``[B, N]`` int32; NONE outside ``where``.

        This is how NAQANet decodes. The result need not be well-formed: it may have any number
        of operands, or none. Ties go to the smaller tag.
        """
        return jnp.argmax(self.tags, axis=-1).astype(jnp.int32)

    def _scores(self, equations: Array) -> Array:
        """``[B, Z]``, what each equation's operands add to `_untagged`."""
        # A place in a flat table may need more bits.
        operands = equations.astype(jnp.int32).reshape(*equations.shape[:2], 2, 2)
        slots, tags = operands[..., 0], operands[..., 1]
        # A missing operand (slot -1) has tag NONE, whose gain is 0 in every slot. Tags beyond those
        # of a slot would be read from the next slot.
        known = jnp.where(slots < 0, tags == NONE, (tags >= NONE) & (tags <= COUNT))
        flat = jnp.maximum(slots, 0) * (NUM_TAGS + 1) + tags
        gains = gather(self._gains(), jnp.where(known, flat, -1))
        # A number has one tag, so one that is tagged twice is no tagging.
        twice = (slots[..., 0] == slots[..., 1]) & jnp.all(tags != NONE, axis=-1)
        return jnp.where(twice, -jnp.inf, gains[..., 0] + gains[..., 1])

    def _untagged(self) -> Array:
        """``[B]``, log-probability that nothing is tagged."""
        return self.rest + jnp.sum(self.tags[..., NONE], axis=-1)

    def _gains(self) -> Array:
        """``[B, N, 5]``, what tagging a number adds to `_untagged`, by tag; -inf for COUNT."""
        gains = self.tags - self.tags[..., NONE, None]
        return jnp.pad(gains, ((0, 0), (0, 0), (0, 1)), constant_values=-jnp.inf)

    def _table(self, pairs: Array, lone: Array) -> Array:
        """``[B, 3N, 1 + 3N]``, gains of all equations, -inf if not well-formed. A row per first
        operand: the lone number, then its pairs. This is the order of ties."""
        batch, num_slots = self.where.shape
        size = num_slots * NUM_OPERATORS
        gains = self._gains()[..., PLUS : PERCENT + 1].reshape(batch, size)
        slots = jnp.arange(size) // NUM_OPERATORS
        pairs = pairs.reshape(batch, size, size) & (slots[:, None] < slots[None, :])[None]
        pair_gains = jnp.where(pairs, gains[:, :, None] + gains[:, None, :], -jnp.inf)
        lone_gains = jnp.where(lone.reshape(batch, size), gains, -jnp.inf)
        return jnp.concatenate([lone_gains[..., None], pair_gains], axis=-1)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["tagging", "pairs", "lone", "log_total"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True)
class EquationDistribution:
    """A softmax over the equations of Z_tot.

    Build it with `TagDistribution.over_equations`. Equations rank as under the tagging;
    `TagDistribution.rest` cancels.

    Attributes:
        tagging: distribution over all taggings, which scores the equations.
        pairs: ``[B, N, 3, N, 3]`` bool, the pairs of Z_tot, see `TagDistribution.top`.
        lone: ``[B, N, 3]`` bool, the lone numbers of Z_tot.
        log_total: ``[B]`` float32, logsumexp of the scores over Z_tot; -inf if it is empty.

    Example:
        >>> logits = jnp.log(jnp.array([[[1.0, 2, 1, 0], [3, 0, 1, 0]]]))
        >>> tags = TagDistribution.from_logits(logits, where=jnp.ones((1, 2), bool))
        >>> rules = dict(pairs=jnp.ones((1, 2, 3, 2, 3), bool), lone=jnp.zeros((1, 2, 3), bool))
        >>> equations = tags.over_equations(**rules)
        >>> candidates = [[0, PLUS, 1, MINUS], [0, MINUS, 1, MINUS], [0, PLUS, -1, NONE]]
        >>> print(jnp.exp(equations.log_prob(jnp.array([candidates]))).round(4))
        [[0.6667 0.3333 0.    ]]
    """

    tagging: TagDistribution
    pairs: Array
    lone: Array
    log_total: Array

    def log_prob(self, equations: Array) -> Array:
        """log P(z | x) of given equations.

        Args:
            equations: ``[B, Z, 4]`` int.

        Returns:
            ``[B, Z]`` float32; -inf outside Z_tot, including rows without operands and counts.
        """
        log_probs = self.tagging._scores(equations) - self._finite_total()
        return jnp.where(self._contains(equations), log_probs, -jnp.inf)

    def top(self, k: int, *, pairs: Array, lone: Array) -> tuple[Array, Array]:
        """The ``k`` most likely equations, best first, as in `TagDistribution.top`.

        Args:
            k: number of equations, static.
            pairs, lone: as there; equations outside Z_tot are never returned.
        """
        equations, scores = self.tagging._top_scores(k, pairs & self.pairs, lone & self.lone)
        return equations, scores - self._finite_total()

    def mode(self, *, pairs: Array, lone: Array) -> Array:
        """The most likely equation, ``[B, 4]`` int32. Arguments as in `top`."""
        return self.top(1, pairs=pairs, lone=lone)[0][:, 0]

    def argmax_tags(self) -> Array:
        """See `TagDistribution.argmax_tags`."""
        return self.tagging.argmax_tags()

    def _finite_total(self) -> Array:
        """``[B, 1]``; 0 without any equation, because -inf minus -inf is NaN."""
        return jnp.where(jnp.isfinite(self.log_total), self.log_total, 0.0)[:, None]

    def _contains(self, equations: Array) -> Array:
        """``[B, Z]`` bool, which of these are in Z_tot."""
        n1, o1, n2, o2 = (equations[..., i].astype(jnp.int32) for i in range(4))
        num_slots = self.lone.shape[1]
        size = num_slots * NUM_OPERATORS
        first = n1 * NUM_OPERATORS + o1 - PLUS
        second = n2 * NUM_OPERATORS + o2 - PLUS
        slots = (n1 >= 0) & (n1 < num_slots) & (o1 >= PLUS) & (o1 <= PERCENT)
        is_pair = slots & (n2 > n1) & (n2 < num_slots) & (o2 >= PLUS) & (o2 <= PERCENT)
        is_lone = slots & (n2 < 0) & (o2 == NONE)
        in_pairs = gather(self.pairs, jnp.where(is_pair, first * size + second, -1), fill=False)
        in_lone = gather(self.lone, jnp.where(is_lone, first, -1), fill=False)
        return (is_pair & in_pairs) | (is_lone & in_lone)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["ability", "signs", "counts"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class AbilityDistribution:
    r"""Either a sum of signed numbers or a count, as in NAQANet.

    .. math:: \log P(z \mid x) = \log P(a \mid x) + \log P(z \mid a, x)

    where :math:`a` is the ability that z uses. Min et al. (2019, section 5.2) keep these two of
    the model's abilities. Build it with `from_logits`.

    Attributes:
        ability: ``[B, 2]`` float32 log-probabilities of add_sub and count.
        signs: tags of the numbers, without PERCENT, over all taggings or over equations.
        counts: ``[B, C]`` float32 log-probabilities of the counts 0, 1, ... C - 1.

    Example:
        >>> abilities = AbilityDistribution.from_logits(
        ...     jnp.log(jnp.array([[3.0, 1.0]])), jnp.zeros((1, 2, 3)), jnp.zeros((1, 10)),
        ...     where=jnp.array([[True, True]]))
        >>> candidates = jnp.array([[[0, PLUS, 1, MINUS], [7, COUNT, -1, NONE]]])
        >>> [f"{p:.4f}" for p in jnp.exp(abilities.log_prob(candidates))[0]]
        ['0.0833', '0.0250']
    """

    ability: Array
    signs: TagDistribution | EquationDistribution
    counts: Array

    @classmethod
    def from_logits(
        cls, ability_logits: Array, sign_logits: Array, count_logits: Array, *, where: Array
    ) -> "AbilityDistribution":
        """Normalise the logits of abilities, signs and counts, each in float32.

        Args:
            ability_logits: ``[B, 2]`` float, add_sub and count.
            sign_logits: ``[B, N, 3]`` float, NONE, PLUS and MINUS of each number.
            count_logits: ``[B, C]`` float.
            where: ``[B, N]`` bool, the slots that hold a number.
        """
        return cls(
            jax.nn.log_softmax(ability_logits.astype(jnp.float32), axis=-1),
            TagDistribution.from_logits(sign_logits, where=where),
            jax.nn.log_softmax(count_logits.astype(jnp.float32), axis=-1),
        )

    def over_equations(self, *, pairs: Array, lone: Array) -> "AbilityDistribution":
        """This distribution with signs conditioned on a well-formed equation.

        Where Z_tot has no equation, counting is certain.

        Args:
            pairs, lone: Z_tot, as in `TagDistribution.top`.
        """
        assert isinstance(self.signs, TagDistribution)
        signs = self.signs.over_equations(pairs=pairs, lone=lone)
        counts_only = jnp.array([-jnp.inf, 0.0], jnp.float32)[None]
        ability = jnp.where(jnp.isfinite(signs.log_total)[:, None], self.ability, counts_only)
        return AbilityDistribution(ability, signs, self.counts)

    def log_prob(self, equations: Array) -> Array:
        """log P(z | x) of given equations and counts.

        Args:
            equations: ``[B, Z, 4]`` int; counts are the rows with operator COUNT.

        Returns:
            ``[B, Z]`` float32; -inf for operands that are no numbers of the table and large counts.
        """
        is_count = equations[..., 1] == COUNT
        counts = gather(self.counts, jnp.where(is_count, equations[..., 0], 0))
        return jnp.where(
            is_count,
            self.ability[:, 1:] + counts,
            self.ability[:, :1] + self.signs.log_prob(equations),
        )

    def top(self, k: int, *, pairs: Array, lone: Array) -> tuple[Array, Array]:
        """The ``k`` most likely well-formed equations and counts, best first.

        Every count is well-formed; an example without numbers has only counts, however likely
        add_sub is. Ties go to equations, in the order of `TagDistribution.top`, then to the
        smaller count. Arguments and result as there.
        """
        equations, log_probs = self.signs.top(k, pairs=pairs, lone=lone)
        batch, num_counts = self.counts.shape
        counts = jnp.stack(
            [jnp.arange(num_counts)] + [jnp.full(num_counts, code) for code in (COUNT, -1, NONE)],
            axis=-1,
        )
        counts = jnp.broadcast_to(counts[None], (batch, num_counts, 4))
        rows = jnp.concatenate([equations, counts], axis=1)
        log_probs = jnp.concatenate(
            [self.ability[:, :1] + log_probs, self.ability[:, 1:] + self.counts], axis=1
        )
        log_probs, order = jax.lax.top_k(log_probs, k)
        best = jnp.take_along_axis(rows, order[..., None], axis=1)
        return _possible(best, log_probs).astype(jnp.int32), log_probs

    def mode(self, *, pairs: Array, lone: Array) -> Array:
        """The most likely well-formed equation or count, ``[B, 4]`` int32; see `top`."""
        return self.top(1, pairs=pairs, lone=lone)[0][:, 0]


def _possible(equations: Array, log_probs: Array) -> Array:
    """``[B, k, 4]``, the row without operands in place of those that are not possible."""
    nothing = jnp.array([-1, NONE, -1, NONE], jnp.int32)[None, None]
    return jnp.where(jnp.isfinite(log_probs)[..., None], equations, nothing)
