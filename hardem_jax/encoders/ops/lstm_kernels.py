"""Pallas kernels for GPUs: LSTMs through time, all steps in one kernel each way.

`lstm.py` decides where they are used. A program takes one LSTM in one direction and a tile of rows;
recurrent weights stay on its chip, and a step loads what the next one needs. Products are as
precise as XLA's: a GPU rounds factors to TF32, unless `jax_default_matmul_precision` forbids it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from hardem_jax.encoders.ops.attention import compile_fault
from hardem_jax.encoders.ops.fused import GATES, activate, grow, grow_gradient
from hardem_jax.encoders.ops.gpu_kernels import Columns, Rows, Tile, launch
from hardem_jax.placement import on_own_rows

# The fewest that a product on tensor cores takes: tiles run side by side, steps do not.
_ROWS = 16
_WARPS = 8
_EACH = np.arange(GATES, dtype=np.int32)


@functools.cache
def fault(hidden: int) -> str | None:
    """Why the GPU at hand cannot take states of so many columns: its memory may be too small."""

    def total(*arrays):
        return run(*arrays).sum()

    shapes = (1, 1, 2, GATES, hidden), (2, GATES, hidden), (hidden, 2, GATES, hidden), (1, 1)
    shapes += ((1, 2, hidden),) * 2
    inputs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return compile_fault(jax.grad(total), *inputs)


@jax.custom_vjp
def run(gates, bias, recurrent, real, hidden, cell) -> jax.Array:
    """Outputs ``[B, T, N, h]`` of N LSTMs, every second one backwards, 0 at padding; all float32.

    `gates` ``[B, T, N, 4, h]`` are all that does not depend on the state, but for the `bias`
    ``[N, 4, h]``; `recurrent` is ``[h, N, 4, h]``, `real` ``[B, T]`` (0 at padding), `hidden` and
    `cell` are the first states ``[B, N, h]``.
    """
    return _forward(gates, bias, recurrent, real, hidden, cell)[0]


def _forward(gates, bias, recurrent, real, hidden, cell):
    def kernel(gates, real, hidden, cell, bias, recurrent, outputs, hiddens, cells, active):
        program = _Program(gates)
        biases = [program.columns.load(bias, program.lstm, gate) for gate in _EACH]
        weights = program.weights(recurrent)

        def body(step, carry):
            hidden, cell, (now, kept) = carry
            ahead = program.inputs(gates, real, jnp.minimum(step + 1, program.steps - 1))
            each = zip(now, biases, weights, strict=True)
            now = activate(*(gate + bias + hidden @ w for gate, bias, w in each))
            grown, output = grow(now, cell)
            for ref, x in (hiddens, hidden), (cells, cell), (outputs, jnp.where(kept, output, 0.0)):
                program.tile.store(ref, x, *program.at(step))
            for gate, x in zip(_EACH, now, strict=True):
                program.tile.store(active, x, *program.at(step), gate)
            return jnp.where(kept, output, hidden), jnp.where(kept, grown, cell), ahead

        states = (program.tile.load(state, program.lstm) for state in (hidden, cell))
        jax.lax.fori_loop(0, program.steps, body, (*states, program.inputs(gates, real, 0)))

    state = *gates.shape[1:3], gates.shape[4]
    outputs = state, state, state, gates.shape[1:]
    rows, shared = (gates, real, hidden, cell), (bias, recurrent)
    out, *saved = _call(kernel, "lstm_forward", rows, shared, outputs)
    return out, (real, recurrent, *saved)


def _backward(saved, grad):
    real, recurrent, hiddens, cells, active = saved

    def kernel(active, grad, cells, real, recurrent, to_gates, to_hiddens, to_cells):
        program = _Program(active)
        weights = program.weights(recurrent)

        def load(step):
            states = [program.tile.load(ref, *program.at(step)) for ref in (grad, cells)]
            return states, program.inputs(active, real, step)

        def body(index, carry):
            to_hidden, to_cell, ((to_output, cell), (gates, kept)) = carry
            step = program.steps - 1 - index
            ahead = load(jnp.maximum(step - 1, 0))
            found, before = grow_gradient(gates, cell, to_output + to_hidden, to_cell)
            found = [jnp.where(kept, x, 0.0) for x in found]
            for gate, x in zip(_EACH, found, strict=True):
                program.tile.store(to_gates, x, *program.at(step), gate)
            to_before = sum(jnp.einsum("rg,hg->rh", *x) for x in zip(found, weights, strict=True))
            return jnp.where(kept, to_before, to_hidden), jnp.where(kept, before, to_cell), ahead

        zero = jnp.zeros((_ROWS, program.columns.count), jnp.float32)
        start = zero, zero, load(program.steps - 1)
        *states, _ = jax.lax.fori_loop(0, program.steps, body, start)
        for ref, state in zip((to_hiddens, to_cells), states, strict=True):
            program.tile.store(ref, state, program.lstm)

    lstms, _, width = active.shape[2:]
    outputs = active.shape[1:], (lstms, width), (lstms, width)
    rows = active, grad, cells, real
    to_gates, *to_states = _call(kernel, "lstm_backward", rows, (recurrent,), outputs)
    # Flat, because XLA transposes arrays of more axes before it multiplies them.
    flat = hiddens.reshape(-1, lstms, width), to_gates.reshape(-1, lstms, GATES * width)
    to_recurrent = jnp.einsum("nmh,nmg->hmg", *flat).reshape(recurrent.shape)
    return to_gates, to_gates.sum(axis=(0, 1)), to_recurrent, None, *to_states


run.defvjp(_forward, _backward)


def _call(kernel, name: str, rows, shared, outputs):
    """The first array is of gates; `outputs` are shapes without their first axis, of rows."""

    def compute(gates, *others):
        shapes = [jax.ShapeDtypeStruct((len(gates), *shape), jnp.float32) for shape in outputs]
        programs = gates.shape[2], pl.cdiv(len(gates), _ROWS)
        return launch(kernel, name, programs, shapes, _WARPS)(gates, *others)

    return on_own_rows(compute, *rows, shared=shared)


class _Program:
    """What a program reads and writes."""

    def __init__(self, gates):
        num_rows, self.steps, _, _, hidden = gates.shape
        width = max(16, pl.next_power_of_2(hidden))
        self.lstm = pl.program_id(0)
        start = jnp.int32(0)  # see `_Grid.columns`
        self.columns = Columns(width, hidden, start)
        self.rows = Rows(_ROWS, num_rows, pl.program_id(1) * _ROWS)
        self.tile = Tile(self.rows, self.columns, hidden)
        self._square = Tile(Rows(width, hidden, start), self.columns, hidden)

    def at(self, step):
        """The place of a step: every second LSTM goes backwards."""
        return jnp.where(self.lstm % 2 == 0, step, self.steps - 1 - step), self.lstm

    def inputs(self, gates, real, step):
        """The gates at a step, [rows, width] each, and which rows are real, [rows, 1]."""
        time, lstm = self.at(step)
        return [self.tile.load(gates, time, lstm, x) for x in _EACH], self.rows.load(real, time) > 0

    def weights(self, ref):
        """[width, width] for each gate."""
        return [self._square.load(ref, self.lstm, gate) for gate in _EACH]
