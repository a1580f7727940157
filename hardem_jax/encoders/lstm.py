"""Several bidirectional LSTMs that read the same text, as one.

SQLova has twelve. Run one after the other they are twelve loops over time of small products; here
those that read the same text are one loop, whose products are batched over modules and directions.
On a GPU the loop is one kernel each way (`ops.lstm_kernels`).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx

from hardem_jax.encoders.ops.attention import kernels_compute
from hardem_jax.encoders.ops.fused import GATES, activate, dropout, grow, grow_gradient, linear

_DIRECTIONS = 2
# Columns of a state that kernels take: their weights fill a third of what a multiprocessor holds.
_WIDEST = 64


class BiLSTMs(nnx.Module):
    """M bidirectional LSTMs of L layers over one sequence, float32.

    Weights start from U(-1/sqrt(h), 1/sqrt(h)), h = size / 2, and there is one bias, not two.
    A sequence ends with its mask; the backward half begins there. `dropout` is between layers.
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
        hidden = size // _DIRECTIONS
        bound = 1 / math.sqrt(hidden)

        def param(*shape: int) -> nnx.Param:
            return nnx.Param(jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound))

        each = (num_lstms, _DIRECTIONS)
        self.kernel = param(inputs, *each, GATES * hidden)
        self.deeper = nnx.List(param(*each, size, GATES * hidden) for _ in range(num_layers - 1))
        self.recurrent = nnx.List(param(*each, hidden, GATES * hidden) for _ in range(num_layers))
        self.bias = nnx.List(param(*each, GATES * hidden) for _ in range(num_layers))
        self.dropout = dropout

    def project(self, x: jax.Array) -> jax.Array:
        """The first layer's part that does not depend on time: ``[..., I]`` -> ``[..., M, 2, 4h]``.

        Apart from `__call__` so that tokens can be projected before they are gathered into
        sequences, which repeat or pad them.
        """
        kernel = self.kernel[...]
        # One product of two matrices: with five axes XLA copies the kernel and its gradient.
        flat = linear(x, kernel.reshape(kernel.shape[0], -1), None)
        return flat.reshape(*x.shape[:-1], *kernel.shape[1:])

    def __call__(
        self,
        projected: jax.Array,
        where: jax.Array,
        *,
        initial: tuple[jax.Array, jax.Array] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> jax.Array:
        """Outputs of the last layer, ``[M, B, T, 2h]`` float32, 0 at padding.

        `projected` is ``[B, T, M, 2, 4h]``, see `project`; `where` ``[B, T]`` has real positions
        first; `initial` are hidden and cell states ``[L, M, 2, B, h]``, zeros by default.
        """
        if initial is None:
            layers, hidden = len(self.recurrent), projected.shape[-1] // GATES
            zeros = jnp.zeros((layers, *projected.shape[2:4], len(where), hidden), projected.dtype)
            initial = zeros, zeros
        small = projected.shape[-1] <= GATES * _WIDEST and projected.dtype == jnp.float32
        if small and kernels_compute("LSTMs", projected, _fault):
            return self._with_kernels(projected, where, initial, rngs)
        real = _both_ways(jnp.stack([where.T, where.T], axis=1)[:, None])[:, 0]  # [T, 2, B]
        gates = jnp.transpose(projected, (1, 2, 3, 0, 4))  # [T, M, 2, B, 4h]
        x = self._layer(0, gates, real, initial)
        for layer in range(1, len(self.recurrent)):
            if rngs is not None:
                x = dropout(x, self.dropout, rngs.dropout())
            gates = jnp.einsum("tmbi,mdig->tmdbg", x, self.deeper[layer - 1][...])
            x = self._layer(layer, gates, real, initial)
        return jnp.moveaxis(x, 0, 2)

    def _layer(self, layer: int, gates, real, initial) -> jax.Array:
        """``[T, M, 2, B, 4h]`` -> ``[T, M, B, 2h]``."""
        gates = _both_ways(gates + self.bias[layer][...][None, :, :, None])
        state = initial[0][layer], initial[1][layer]
        outputs = _both_ways(_run(gates, self.recurrent[layer][...], real, state))
        return jnp.concatenate([outputs[:, :, 0], outputs[:, :, 1]], axis=-1)

    def _with_kernels(self, x, where, initial, rngs) -> jax.Array:
        """The same for a GPU, with axes B, T, M, ... throughout, so that XLA transposes nothing."""
        from hardem_jax.encoders.ops import lstm_kernels

        rows, steps, lstms, _, width = x.shape
        for layer, recurrent in enumerate(self.recurrent):
            if layer:
                if rngs is not None:  # of the same elements as in the loop
                    x = dropout(jnp.moveaxis(x, 0, 2), self.dropout, rngs.dropout())
                    x = jnp.moveaxis(x, 2, 0)
                kernel = jnp.moveaxis(self.deeper[layer - 1][...], 1, 2)  # [M, 2h, 2, 4h]
                size = x.shape[2:]
                x = jnp.einsum("nmi,mig->nmg", x.reshape(-1, *size), kernel.reshape(*size, -1))
            each = lstms * _DIRECTIONS, GATES, width // GATES
            x, bias = x.reshape(rows, steps, *each), self.bias[layer][...].reshape(each)
            recurrent = jnp.moveaxis(recurrent[...], 2, 0).reshape(-1, *each)
            states = (jnp.moveaxis(s[layer], 2, 0).reshape(rows, each[0], -1) for s in initial)
            x = lstm_kernels.run(x, bias, recurrent, where.astype(x.dtype), *states)
            x = x.reshape(rows, steps, lstms, -1)
        return jnp.moveaxis(x, 2, 0)


def _fault() -> str | None:
    from hardem_jax.encoders.ops import lstm_kernels  # which only GPUs need

    return lstm_kernels.fault(_WIDEST)


def last_output(x: jax.Array, where: jax.Array) -> jax.Array:
    """``[M, B, T, D]`` at the last real position of each sequence, 0 without any: ``[M, B, D]``."""
    last = jnp.maximum(jnp.sum(where, axis=1) - 1, 0)
    return jnp.take_along_axis(x, last[None, :, None, None], axis=2)[:, :, 0]


@jax.custom_vjp
def _run(gates, recurrent, real, state) -> jax.Array:
    """M LSTMs of both directions through time: ``[T, M, 2, B, h]``.

    Differentiated automatically, the loop would store every intermediate value of every step and
    add up the gradient of the recurrent weights step by step. Here it stores gates and states, and
    that gradient is one product after the loop. `gates` are all that does not depend on the state,
    ``[T, M, 2, B, 4h]``, the second direction reversed in time; `real` is ``[T, 2, B]``. Padding
    leaves the state unchanged, because the backward half meets it before the text, and gives 0.
    """
    return _run_fwd(gates, recurrent, real, state)[0]


def _run_fwd(gates, recurrent, real, state):
    def step(state, now):
        (hidden, cell), (gate, real) = state, now
        gate = gate + jnp.einsum("mdbh,mdhg->mdbg", hidden, recurrent)
        grown, output = grow(activate(*jnp.split(gate, GATES, axis=-1)), cell)
        kept = real[None, ..., None]
        after = jnp.where(kept, output, hidden), jnp.where(kept, grown, cell)
        return after, (jnp.where(kept, output, 0.0), gate, state)

    _, (outputs, gates, states) = jax.lax.scan(step, state, (gates, real))
    return outputs, (gates, recurrent, real, states)


def _run_bwd(saved, grad):
    gates, recurrent, real, (hiddens, cells) = saved

    def step(state, now):
        (to_hidden, to_cell), (to_output, gate, real, cell) = state, now
        active = activate(*jnp.split(gate, GATES, axis=-1))
        found, before = grow_gradient(active, cell, to_output + to_hidden, to_cell)
        to_gate = jnp.concatenate(found, axis=-1)
        kept = real[None, ..., None]
        to_gate = jnp.where(kept, to_gate, 0.0)
        to_hidden = jnp.where(kept, jnp.einsum("mdbg,mdhg->mdbh", to_gate, recurrent), to_hidden)
        return (to_hidden, jnp.where(kept, before, to_cell)), to_gate

    last = jnp.zeros_like(hiddens[0]), jnp.zeros_like(cells[0])
    to_state, to_gates = jax.lax.scan(step, last, (grad, gates, real, cells), reverse=True)
    return to_gates, jnp.einsum("tmdbh,tmdbg->mdhg", hiddens, to_gates), None, to_state


_run.defvjp(_run_fwd, _run_bwd)


def _both_ways(x: jax.Array) -> jax.Array:
    """``[T, M, 2, ...]`` with the second direction reversed in time; its own inverse."""
    return jnp.stack([x[:, :, 0], x[::-1, :, 1]], axis=2)
