r"""P(z | x) over programs of `hardem_jax.programs.solutions`, a product of at most five factors.

A program is a row of ints: its shape s (what is done, with which modifier and connective), the
field f whose values it returns, the field g that a modifier compares, and two links i and j, the
conditions of its rows. A shape that has no such slot has -1 there.

.. math:: \log P(z \mid x) = \log P(s) + \log P(f \mid k_1(s)) + \log P(g \mid k_2(s))
    + \log P(i \mid k_3(s)) + \log P(j \mid k_4(s))

A factor depends on the shape only through its kind k: fields that are summed differ from fields
that are shown, whatever the rows. Slots that the shape lacks add nothing. Otherwise the factors are
independent, so combinations that are not programs (the same link twice, say) have mass, and the
programs of a shape sum to less than P(s). `log_mass` gives their total; `sample` and `top` are
restricted to them if a `Support` says which they are.

Every factor is an entry of a table that is computed once per question, so a program costs five
gathers and Z may hold thousands of them.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax import masked
from hardem_jax.programs.sampling import Combinations, Support
from hardem_jax.score_tables import gather

Array = jax.Array

#: The slots of a program after its shape, in the order of its row.
SLOTS = ("select", "modify", "link1", "link2")


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["shape", *SLOTS], meta_fields=["kinds"]
)
@dataclasses.dataclass(frozen=True)
class ProgramDistribution:
    """The tables of the factors. Build it with `from_logits`.

    Attributes:
        shape: ``[B, S]`` log P(shape).
        select: ``[B, K1, F]`` log P(field of the result | kind).
        modify: ``[B, K2, F]`` log P(field of the modifier | kind).
        link1: ``[B, K3, M]`` log P(first condition | kind).
        link2: ``[B, K4, M]`` log P(second condition | kind).
        kinds: of each shape, the kinds of these four slots; -1 for a slot that it lacks.

    Example:
        >>> logits = dict(shape=(1, 2), select=(1, 2, 3), modify=(1, 1, 3), link1=(1, 1, 5),
        ...     link2=(1, 1, 5))
        >>> programs = ProgramDistribution.from_logits(
        ...     **{name: jnp.zeros(shape) for name, shape in logits.items()},
        ...     kinds=[(0, -1, 0, -1), (1, 0, 0, 0)],
        ...     select_where=jnp.array([[[True, True, False], [True, False, False]]]))
        >>> z = jnp.array([[[0, 1, -1, 4, -1], [1, 0, 1, 2, 3]]])
        >>> [f"1/{p:.0f}" for p in 1 / jnp.exp(programs.log_prob(z))[0]]
        ['1/20', '1/150']
    """

    shape: Array
    select: Array
    modify: Array
    link1: Array
    link2: Array
    kinds: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def from_logits(
        cls,
        *,
        shape: Array,
        select: Array,
        modify: Array,
        link1: Array,
        link2: Array,
        kinds: Sequence[Sequence[int]],
        select_where: Array | None = None,
        modify_where: Array | None = None,
        link1_where: Array | None = None,
        link2_where: Array | None = None,
        shape_where: Array | None = None,
    ) -> "ProgramDistribution":
        """Normalise the logits of each factor, in float32.

        Args:
            shape: ``[B, S]`` float.
            select, modify: ``[B, K, F]`` float, each with its own K.
            link1, link2: ``[B, K, M]`` float, each with its own K.
            kinds: ``[S, 4]``, see above.
            select_where, modify_where, link1_where, link2_where: bool, shaped like their logits;
                what can fill the slot, None for all. The rest has no mass, its logits are ignored.
            shape_where: ``[B, S]`` bool, likewise; a shape with an unfillable slot has no mass.
        """
        rows = tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in kinds)
        logits = select, modify, link1, link2
        masks = select_where, modify_where, link1_where, link2_where
        possible = jnp.ones(shape.shape, bool) if shape_where is None else shape_where
        tables = {}
        for place, (name, scores, where) in enumerate(zip(SLOTS, logits, masks, strict=True)):
            where = jnp.ones(scores.shape, bool) if where is None else where
            tables[name] = masked.log_softmax(scores, where)
            kind = np.array([row[place] for row in rows])
            filled = jnp.any(where, axis=-1)[:, np.maximum(kind, 0)]
            possible &= filled | (kind < 0)[None]
        return cls(shape=masked.log_softmax(shape, possible), **tables, kinds=rows)

    def log_prob(self, programs: Array) -> Array:
        """log P(z | x) of given programs.

        Args:
            programs: ``[B, Z, 5]`` int. A row of -1 (padding) has the value log P(s = 0).

        Returns:
            ``[B, Z]`` float32; -inf for a program without mass, including one that leaves a slot of
            its shape empty or fills one that its shape lacks.
        """
        shape = jnp.maximum(programs[..., 0], 0).astype(jnp.int32)
        total = gather(self.shape, shape)
        kinds = jnp.array(self.kinds, jnp.int32)[shape]  # [B, Z, 4]
        fits = jnp.all((kinds >= 0) == (programs[..., 1:] >= 0), axis=-1) | (programs[..., 0] < 0)
        for place, name in enumerate(SLOTS):
            table, entry = getattr(self, name), programs[..., place + 1].astype(jnp.int32)
            used, (_, num_kinds, size) = entry >= 0, table.shape
            # An index beyond its kind's entries would read those of the next kind.
            flat = jnp.where(entry < size, kinds[..., place] * size + entry, num_kinds * size)
            total += jnp.where(used, gather(table, jnp.where(used, flat, 0)), 0.0)
        return jnp.where(fits, total, -jnp.inf)

    def log_mass(self, *, within: Support | None = None) -> Array:
        """Log of the total probability of the programs that are allowed, exactly.

        ``log_prob(z) - log_mass()`` is the log-probability of an allowed program among all of them:
        the distribution that `sample` draws from, and one that policy gradients need.

        Args:
            within: the pairs of fields and of links that are allowed; None for all combinations of
                slots, which have a total probability of 1.

        Returns:
            ``[B]`` float32; -inf where there is no program, without NaN in the gradient.

        Example:
            Two links that must differ, the second after the first: one of four combinations.

            >>> logits = dict(shape=(1, 1), select=(1, 1, 2), modify=(1, 1, 2), link1=(1, 1, 2),
            ...     link2=(1, 1, 2))
            >>> programs = ProgramDistribution.from_logits(
            ...     **{name: jnp.zeros(shape) for name, shape in logits.items()},
            ...     kinds=[(0, -1, 0, 0)])
            >>> after = jnp.array([[[[False, True], [False, False]]]])
            >>> within = Support(fields=jnp.ones((1, 1, 2, 2), bool), links=after, rules=((-1, 0),))
            >>> print(jnp.exp(programs.log_mass(within=within)))
            [0.25]
            >>> programs.sample(jax.random.key(0), 1, within=within)[0][..., 3:].tolist()
            [[[0, 1]]]
        """
        return self._combinations(within).log_mass()

    def sample(
        self, key: Array, count: int, *, within: Support | None = None
    ) -> tuple[Array, Array]:
        """Independent samples from the distribution over allowed programs, exact.

        Args:
            key: a PRNG key.
            count: n, static.
            within: as for `log_mass`.

        Returns:
            ``[B, n, 5]`` int32 programs, repeated ones included, and their ``[B, n]`` float32
            ``log_prob - log_mass``, which has a gradient. Where there is no program, -1 with -inf.
        """
        combinations = self._combinations(within)
        programs, mass = combinations.sample(key, count), combinations.log_mass()[:, None]
        possible = mass != -jnp.inf  # NaN has to show
        log_probs = self.log_prob(programs) - jnp.where(possible, mass, 0.0)
        log_probs = jnp.where(possible, log_probs, -jnp.inf)
        return jnp.where(possible[..., None], programs, -1), log_probs

    def top(self, k: int, *, within: Support | None = None) -> tuple[Array, Array]:
        """The ``k`` most likely of the allowed programs, best first, by exhaustive search.

        Args:
            k: static.
            within: as for `log_mass`.

        Returns:
            ``[B, k, 5]`` int32 programs and their ``[B, k]`` float32 log-probabilities. If fewer
            than ``k`` are possible, the rest are -1 with -inf.
        """
        programs, scores = self._combinations(within).best(k)
        return jnp.where((scores != -jnp.inf)[..., None], programs, -1), scores

    def _combinations(self, within: Support | None) -> Combinations:
        slots = [getattr(self, name) for name in SLOTS]
        return Combinations.of(self.shape, slots, self.kinds, within)
