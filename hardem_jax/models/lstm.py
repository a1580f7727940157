"""Several bidirectional LSTMs that read the same text, as one.

SQLova has a question LSTM and a header LSTM for each of its six modules. Run one after the other
they are twelve loops over time of small products; here those that read the same text are one loop,
whose products are batched over modules and directions.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.models.ops.dropout import dropout

_DIRECTIONS = 2
_GATES = 4  # input, forget, cell, output


class BiLSTMs(nnx.Module):
    """M bidirectional LSTMs of L layers over one sequence, float32.

    Weights start from U(-1/sqrt(h), 1/sqrt(h)), h = size / 2, and there is one bias, not two.
    A sequence ends where its mask does; the backward half begins there.

    Args:
        num_lstms: M.
        inputs: width I of the sequence.
        size: width of an output, h forward and h backward; even.
        num_layers: L.
        dropout: probability of dropping an element between layers.
        rngs: stream ``params``.

    Example:
        >>> lstms = BiLSTMs(3, 8, 4, num_layers=2, dropout=0.3, rngs=nnx.Rngs(0))
        >>> x, where = jnp.ones((2, 5, 8)), jnp.ones((2, 5), bool)
        >>> jax.eval_shape(lambda: lstms(lstms.project(x), where)).shape
        (3, 2, 5, 4)
    """

    def __init__(
        self,
        num_lstms: int,
        inputs: int,
        size: int,
        *,
        num_layers: int,
        dropout: float,
        rngs: nnx.Rngs,
    ):
        if size % _DIRECTIONS:
            raise ValueError(f"size must be even, got {size}")
        hidden = size // _DIRECTIONS
        bound = 1 / math.sqrt(hidden)

        def param(*shape: int) -> nnx.Param:
            values = jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound)
            return nnx.Param(values)

        each = (num_lstms, _DIRECTIONS)
        self.kernel = param(inputs, *each, _GATES * hidden)
        self.deeper = nnx.List(param(*each, size, _GATES * hidden) for _ in range(num_layers - 1))
        self.recurrent = nnx.List(param(*each, hidden, _GATES * hidden) for _ in range(num_layers))
        self.bias = nnx.List(param(*each, _GATES * hidden) for _ in range(num_layers))
        self.dropout = dropout

    def project(self, x: jax.Array) -> jax.Array:
        """The first layer's part that does not depend on time: ``[..., I]`` -> ``[..., M, 2, 4h]``.

        Apart from `__call__` so that tokens can be projected before they are gathered into
        sequences, which repeat or pad them.
        """
        return jnp.einsum("...i,imdg->...mdg", x, self.kernel[...])

    def __call__(
        self,
        projected: jax.Array,
        where: jax.Array,
        *,
        initial: tuple[jax.Array, jax.Array] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> jax.Array:
        """Outputs of the last layer.

        Args:
            projected: ``[B, T, M, 2, 4h]`` float32, see `project`.
            where: ``[B, T]`` bool, real positions, which come first.
            initial: hidden and cell states ``[L, M, 2, B, h]`` at the beginning; default zeros.
            rngs: stream ``dropout``; None for no dropout.

        Returns:
            ``[M, B, T, 2h]`` float32, 0 at padding.
        """
        gates = jnp.moveaxis(projected, (2, 3), (0, 1))  # [M, 2, B, T, 4h]
        x = self._layer(0, gates, where, initial)
        for layer in range(1, len(self.recurrent)):
            if rngs is not None:
                x = dropout(x, self.dropout, rngs.dropout())
            gates = jnp.einsum("mbti,mdig->mdbtg", x, self.deeper[layer - 1][...])
            x = self._layer(layer, gates, where, initial)
        return x

    def _layer(self, layer: int, gates, where, initial) -> jax.Array:
        gates = gates + self.bias[layer][...][:, :, None, None]
        state = None if initial is None else (initial[0][layer], initial[1][layer])
        return _run(gates, self.recurrent[layer][...], where, state)


def last_output(x: jax.Array, where: jax.Array) -> jax.Array:
    """``[M, B, T, D]`` at the last real position of each sequence: ``[M, B, D]``.

    Zero where a sequence has none.
    """
    last = jnp.maximum(jnp.sum(where, axis=1) - 1, 0)
    return jnp.take_along_axis(x, last[None, :, None, None], axis=2)[:, :, 0]


def _run(gates, recurrent, where, initial) -> jax.Array:
    """One layer: ``[M, 2, B, T, 4h]``, ``[M, 2, h, 4h]``, ``[B, T]`` -> ``[M, B, T, 2h]``."""
    num_lstms, _, batch, _, width = gates.shape
    gates = jnp.moveaxis(_both_ways(gates), 3, 0)
    mask = jnp.moveaxis(_both_ways(jnp.stack([where, where])[None])[0], 2, 0)  # [T, 2, B]
    if initial is None:
        zeros = jnp.zeros((num_lstms, _DIRECTIONS, batch, width // _GATES))
        initial = (zeros, zeros)

    def step(state, now):
        (hidden, cell), (gate, real) = state, now
        gate = gate + jnp.einsum("mdbh,mdhg->mdbg", hidden, recurrent)
        take, forget, new, give = jnp.split(gate, _GATES, axis=-1)
        grown = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(take) * jnp.tanh(new)
        output = jax.nn.sigmoid(give) * jnp.tanh(grown)
        real = real[None, ..., None]
        # Padding leaves the state as it is: the backward half meets it before the text.
        state = jnp.where(real, output, hidden), jnp.where(real, grown, cell)
        return state, jnp.where(real, output, 0.0)

    _, outputs = jax.lax.scan(step, initial, (gates, mask))
    outputs = _both_ways(jnp.moveaxis(outputs, 0, 3))
    return jnp.concatenate([outputs[:, 0], outputs[:, 1]], axis=-1)


def _both_ways(x: jax.Array) -> jax.Array:
    """``[M, 2, B, T, ...]`` with the second direction reversed in time; its own inverse."""
    return jnp.stack([x[:, 0], jnp.flip(x[:, 1], axis=2)], axis=1)
