r"""Sums over, samples from and the best of the programs of a `ProgramDistribution`.

Given the shape, slots are independent, but not every combination is a program: two links must not
share a word of the question, say. Such rules concern the two fields or the two links, so that

.. math:: \sum_z P(z) = \sum_s P(s) \; m(f, g \mid s) \; m(i, j \mid s), \qquad
    m(i, j \mid s) = \sum_i P(i \mid k_3(s)) \sum_{j : (i, j) \in rule(s)} P(j \mid k_4(s))

is exact and costs one sum over pairs for each rule. Read forward, it is a sampler: it draws the
shape by its total, the first slot by its part of that total, then the second as the first allows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax import masked
from hardem_jax.score_tables import rows, top

Array = jax.Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["fields", "links"], meta_fields=["rules"]
)
@dataclasses.dataclass(frozen=True)
class Support:
    """The pairs of fields and of links that are allowed; other combinations have no mass.

    ``fields`` ``[B, R, F, F]`` bool: which field of a modifier may follow which field of the
    result, under R rules; B is 1 if it is the same in all rows. ``links`` ``[B, Q, M, M]`` bool:
    which second link may follow which first one. ``rules``: both rules of each shape; -1 for none.
    """

    fields: Array
    links: Array
    rules: tuple[tuple[int, int], ...]


class _Pair(NamedTuple):
    """Two slots, for each *group* of shapes that share the kinds and the rule of these slots.

    A slot that the group lacks has its mass on entry 0. The others are normalised, and shapes that
    nothing can fill have no mass, so that sums are needed only where there is a rule.

    Attributes:
        first, second: ``[B, G, N]`` log-probabilities.
        allowed: ``[B, R, N, N]`` bool, or None if there are no rules.
        rule: ``[G]``, of each group; -1 for none.
        used: ``[G, 2]`` bool, which of both slots the group has.
        of_shape: ``[S]``, group of each shape.
    """

    first: Array
    second: Array
    allowed: Array | None
    rule: np.ndarray
    used: np.ndarray
    of_shape: np.ndarray

    @classmethod
    def of(
        cls, tables: Sequence[Array], kinds: np.ndarray, allowed: Array | None, rules: np.ndarray
    ) -> _Pair:
        """From two tables ``[B, K, N]``; ``kinds`` ``[S, 2]`` and ``rules`` ``[S]`` by shape."""
        # Without a second entry there is nothing to rule out.
        rules = np.where((kinds >= 0).all(axis=1), rules, -1)
        groups, of_shape = np.unique(
            np.concatenate([kinds, rules[:, None]], axis=1), axis=0, return_inverse=True
        )
        used = groups[:, :2] >= 0
        if not tables[0].shape[-1]:  # slots that a group lacks are at entry 0
            tables = [
                jnp.pad(x, ((0, 0), (0, 0), (0, 1)), constant_values=-jnp.inf) for x in tables
            ]
            if allowed is not None:
                allowed = jnp.pad(allowed, ((0, 0), (0, 0), (0, 1), (0, 1)))
        slots = []
        for table, kind, has in zip(tables, groups.T, used.T, strict=False):
            lacking = jnp.where(jnp.arange(table.shape[-1]) == 0, 0.0, -jnp.inf)
            slots.append(jnp.where(has[:, None], table[:, np.maximum(kind, 0)], lacking))
        first, second = slots
        return cls(first, second, allowed, groups[:, 2], used, of_shape.reshape(-1))

    def over_second(self, reduce: Callable[[Array], Array]) -> Array:
        """``[B, G, N]``: for each first entry, a sum or maximum over the second ones it allows. In
        groups without a rule it is 0, being the same for all first entries: a sum is 1, and the
        maximum does not change which of them are best."""
        ruled = np.flatnonzero(self.rule >= 0)
        if self.allowed is None or not len(ruled):
            return jnp.zeros_like(self.first)
        pairs = jnp.where(self.allowed[:, self.rule[ruled]], self.second[:, ruled, None], -jnp.inf)
        return jnp.zeros_like(self.first).at[:, ruled].set(reduce(pairs))

    def log_mass(self, over_second: Array) -> Array:
        """``[B, S]``, of both slots of each shape; 0 without a rule, as for all combinations."""
        ruled = np.flatnonzero(self.rule >= 0)
        sums = masked.logsumexp((self.first + over_second)[:, ruled])
        return jnp.zeros(self.first.shape[:2]).at[:, ruled].set(sums)[:, self.of_shape]

    def draw(self, noise: Sequence[Array], over_second: Array, group: Array) -> list[Array]:
        """Draws both entries, ``[B, n]`` each, in these groups ``[B, n]``; -1 where unused."""
        first = jnp.argmax(rows(self.first + over_second, group) + noise[0], axis=-1)
        second = jnp.argmax(self.following(group, first) + noise[1], axis=-1)
        return self.entries(group, first, second)

    def following(self, group: Array, first: Array) -> Array:
        """``[B, n]`` twice -> ``[B, n, N]``, log-probabilities of second entries."""
        second = rows(self.second, group)
        if self.allowed is None:
            return second
        batch, size = len(second), self.allowed.shape[-1]
        rule = jnp.asarray(self.rule)[group]
        flat = jax.lax.collapse(self.allowed, 1, -1)
        flat = jnp.broadcast_to(flat, (batch, *flat.shape[1:]))
        allowed = rows(flat, jnp.maximum(rule, 0) * size + first)
        return jnp.where(allowed | (rule < 0)[..., None], second, -jnp.inf)

    def entries(self, group: Array, first: Array, second: Array) -> list[Array]:
        """With -1 for slots that the groups lack."""
        used = jnp.asarray(self.used)[group]
        return [jnp.where(used[..., slot], x, -1) for slot, x in enumerate((first, second))]

    def best(self, k: int) -> tuple[Array, list[Array]]:
        """The ``k`` best pairs of each group: scores and two entries, ``[B, G, k]`` each. They are
        among the first entries whose own best pair is among the k best."""
        batch, groups, size = self.first.shape
        _, places = top(self.first + self.over_second(functools.partial(jnp.max, axis=-1)), k)
        group = jnp.broadcast_to(jnp.arange(groups)[None, :, None], places.shape)
        flat = (jax.lax.collapse(x, 1) for x in (group, places))
        second = self.following(*flat).reshape(batch, groups, k, size)
        first = jnp.take_along_axis(self.first, places, axis=-1)
        # Entries are repeated where there are fewer than k.
        first = jnp.where(jnp.arange(k) < size, first, -jnp.inf)
        scores, best = top(jax.lax.collapse(first[..., None] + second, 2), k)
        chosen = jnp.take_along_axis(places, best // size, axis=-1)
        return scores, self.entries(group, chosen, best % size)


class Combinations(NamedTuple):
    """The shapes to draw from, ``[B, S]`` log P(shape), and what fills the slots of each."""

    shape: Array
    fields: _Pair
    links: _Pair

    @classmethod
    def of(
        cls,
        shape: Array,
        slots: Sequence[Array],
        kinds: Sequence[Sequence[int]],
        within: Support | None,
    ) -> Combinations:
        """From the tables of a `ProgramDistribution`; ``within`` None for all combinations."""
        of_shape = np.array(kinds)
        rules = np.full((len(of_shape), 2), -1) if within is None else np.array(within.rules)
        allowed = (None, None) if within is None else (within.fields, within.links)
        return cls(
            shape,
            _Pair.of(slots[:2], of_shape[:, :2], allowed[0], rules[:, 0]),
            _Pair.of(slots[2:], of_shape[:, 2:], allowed[1], rules[:, 1]),
        )

    def log_mass(self) -> Array:
        """``[B]``; -inf where there is no program."""
        return masked.logsumexp(self._by_shape(self._over_second()))

    def sample(self, key: Array, count: int) -> Array:
        """``[B, count, 5]`` int32, independent; arbitrary in a row without a program."""
        over_second = self._over_second()
        by_shape = self._by_shape(over_second)
        # The largest of log-probabilities with Gumbel noise is a sample.
        sizes = [x.shape[-1] for x in (by_shape, *2 * [self.fields.first], *2 * [self.links.first])]
        noise = jax.random.gumbel(key, (len(by_shape), count, sum(sizes)))
        own, *others = jnp.split(noise, np.cumsum(sizes)[:-1].tolist(), axis=-1)
        shape = jnp.argmax(by_shape[:, None] + own, axis=-1)
        slots = []
        for place, (pair, sums) in enumerate(zip(self._pairs, over_second, strict=True)):
            slots += pair.draw(others[2 * place :], sums, jnp.asarray(pair.of_shape)[shape])
        return jnp.stack([shape, *slots], axis=-1).astype(jnp.int32)

    def best(self, k: int) -> tuple[Array, Array]:
        """The ``k`` most likely ``[B, k, 5]`` int32 and their log-probabilities, best first."""
        parts = [(pair.of_shape, *pair.best(k)) for pair in self._pairs]
        fields, links = (scores[:, of_shape] for of_shape, scores, _ in parts)
        total = self.shape[..., None, None] + fields[..., :, None] + links[..., None, :]
        scores, flat = top(jax.lax.collapse(total, 1), k)
        shape, ranks = flat // k**2, (flat // k % k, flat % k)
        slots = []
        for (of_shape, _, entries), rank in zip(parts, ranks, strict=True):
            places = jnp.asarray(of_shape)[shape] * k + rank
            slots += [jnp.take_along_axis(jax.lax.collapse(x, 1), places, axis=1) for x in entries]
        return jnp.stack([shape, *slots], axis=-1).astype(jnp.int32), scores

    @property
    def _pairs(self) -> tuple[_Pair, _Pair]:
        return self.fields, self.links

    def _over_second(self) -> list[Array]:
        return [pair.over_second(masked.logsumexp) for pair in self._pairs]

    def _by_shape(self, over_second: Sequence[Array]) -> Array:
        """``[B, S]``, log of the probability of all programs of each shape."""
        sums = zip(self._pairs, over_second, strict=True)
        return self.shape + sum(pair.log_mass(x) for pair, x in sums)
