"""Pallas kernels for GPUs: what BERT's layers do between two products, one pass over memory each.

`post_norm.py` decides where they are used. Every kernel reads whole rows of [N, D], in tiles. The
backward kernels keep column sums (the gradients of biases and of LayerNorm's scale) in registers: a
fixed number of programs each writes the sum over its own rows, so their order changes no result.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from hardem_jax.encoders.ops.attention import allowed_kernels
from hardem_jax.encoders.ops.fused import drop_rows


class Tiling(NamedTuple):
    """Rows of a tile, columns of a load at most, warps of a program, and programs at most."""

    rows: int
    columns: int
    warps: int
    programs: int = 2**20


# The fastest of those tried on an H200 with 19,200 rows of 768 and of 3,072 columns.
FORWARD = Tiling(rows=4, columns=256, warps=4)
BACKWARD = Tiling(rows=1, columns=256, warps=1, programs=1056)
ACTIVATION = Tiling(rows=8, columns=512, warps=4)
GELU = Tiling(rows=8, columns=256, warps=8, programs=352)
SUMS = Tiling(rows=8, columns=256, warps=8, programs=704)


def norm(
    first: jax.Array | np.uint32,
    residual: jax.Array,
    x: jax.Array,
    offset: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    seeds: jax.Array,
    *,
    rate: float,
    eps: float,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """LayerNorm(residual + dropout(x + offset)) of [N, D], and what its gradient needs.

    `first` is how many rows of the dropout mask belong to other devices before this one. Returns
    the output and the normalised sum; its means and reciprocal standard deviations, float32 [N].
    """
    num_rows, width = x.shape
    grid = _Grid(num_rows, width, FORWARD)

    def kernel(residual, x, offset, scale, bias, seeds, first, out, added, means, inverses):
        rows = grid.rows(pl.program_id(0))
        parts = [grid.tile(rows, columns) for columns in grid.columns()]

        def total(tile):
            y = tile.load(x) + tile.columns.load(offset)
            if rate:
                y = tile.drop(y, seeds, first, rate)
            # Rounded, because the backward pass sees the rounded sum.
            return (tile.load(residual) + y).astype(added.dtype).astype(jnp.float32)

        totals = [total(tile) for tile in parts]
        mean = _row_sums(totals) / width
        centred = [tile.fill(x - mean) for tile, x in zip(parts, totals, strict=True)]
        inverse = jax.lax.rsqrt(_row_sums([x * x for x in centred]) / width + eps)
        for tile, x, y in zip(parts, totals, centred, strict=True):
            tile.store(added, x)
            columns = tile.columns
            tile.store(out, y * inverse * columns.load(scale) + columns.load(bias))
        rows.store(means, mean)
        rows.store(inverses, inverse)

    like_x = jax.ShapeDtypeStruct(x.shape, x.dtype)
    statistic = jax.ShapeDtypeStruct((num_rows,), jnp.float32)
    outputs = (like_x, like_x, statistic, statistic)
    run = launch(kernel, "norm_forward", (grid.num_tiles,), outputs, FORWARD.warps)
    return run(residual, x, offset, scale, bias, seeds, jnp.asarray(first))


def norm_gradient(
    first: jax.Array | np.uint32, *arrays: jax.Array, rate: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The gradient of `norm`, from those of its output, one or several, which are added up, and
    from sum, means, reciprocal deviations, scale and seeds.

    Returns the gradients of residual and x (one array twice without dropout), and the column sums
    of each program, float32 [P, 3, D]: the gradients of scale, bias and offset.
    """
    *grads, added, means, inverses, scale, seeds = arrays
    num_rows, width = added.shape
    grid = _Grid(num_rows, width, BACKWARD)
    programs, repeats = grid.programs()
    num_grads = len(grads)

    def kernel(*refs):
        grads, refs = refs[:num_grads], refs[num_grads:]
        added, scale, means, inverses, seeds, first, *downs, sums = refs
        program = pl.program_id(0)
        factors = [columns.load(scale) for columns in grid.columns()]

        def body(index, carry):
            rows = grid.rows(program * repeats + index)
            parts = [grid.tile(rows, columns) for columns in grid.columns()]
            mean, inverse = rows.load(means), rows.load(inverses)
            ups = [functools.reduce(jnp.add, map(tile.load, grads)) for tile in parts]
            normed = [tile.fill((tile.load(added) - mean) * inverse) for tile in parts]
            inner = [up * factor for up, factor in zip(ups, factors, strict=True)]
            average = _row_sums(inner) / width
            slope = _row_sums([x * y for x, y in zip(inner, normed, strict=True)]) / width
            found = []
            for tile, up, x, y, old in zip(parts, ups, inner, normed, carry, strict=True):
                down = tile.fill(inverse * (x - average - y * slope))
                tile.store(downs[0], down)
                if rate:
                    down = tile.drop(down, seeds, first, rate)
                    tile.store(downs[1], down)
                found.append((old[0] + up * y, old[1] + up, old[2] + down))
            return tuple(found)

        zero = (jnp.zeros((BACKWARD.rows, grid.width), jnp.float32),) * 3
        found = jax.lax.fori_loop(0, repeats, body, (zero,) * len(factors))
        for columns, totals in zip(grid.columns(), found, strict=True):
            for place, total in enumerate(totals):
                columns.store(sums, (program, jnp.int32(place)), total.sum(axis=0))

    downs = [jax.ShapeDtypeStruct(added.shape, added.dtype)] * (2 if rate else 1)
    outputs = (*downs, jax.ShapeDtypeStruct((programs, 3, width), jnp.float32))
    run = launch(kernel, "norm_backward", (programs,), outputs, BACKWARD.warps)
    *downs, sums = run(*grads, added, scale, means, inverses, seeds, jnp.asarray(first))
    return downs[0], downs[-1], sums


def gelu(x: jax.Array, offset: jax.Array) -> jax.Array:
    """u Phi(u), where u = x + offset, of [N, F] and float32 [F]; XLA's takes twice as long."""
    num_rows, width = x.shape
    grid = _Grid(num_rows, width, ACTIVATION)

    def kernel(x, offset, out):
        columns = grid.columns()[0].from_(pl.program_id(1))
        tile = grid.tile(grid.rows(pl.program_id(0)), columns)
        value = tile.load(x) + columns.load(offset)
        tile.store(out, value * _normal(value)[0])

    outputs = jax.ShapeDtypeStruct(x.shape, x.dtype)
    run = launch(
        kernel, "gelu_forward", (grid.num_tiles, len(grid.columns())), outputs, ACTIVATION.warps
    )
    return run(x, offset)


def gelu_gradient(x: jax.Array, grad: jax.Array, offset: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The gradient of `gelu` in x, [N, F], and its column sums, float32 [P, F]."""
    num_rows, width = x.shape
    grid = _Grid(num_rows, width, GELU)
    programs, repeats = grid.programs()

    def kernel(x, offset, grad, down, sums):
        columns = grid.columns()[0].from_(pl.program_id(0))
        program, shift = pl.program_id(1), columns.load(offset)

        def body(index, carry):
            tile = grid.tile(grid.rows(program * repeats + index), columns)
            value = tile.load(x) + shift
            share, density = _normal(value)
            found = tile.load(grad) * (share + value * density)
            tile.store(down, found)
            return carry + found

        zero = jnp.zeros((GELU.rows, grid.width), jnp.float32)
        found = jax.lax.fori_loop(0, repeats, body, zero)
        columns.store(sums, (program,), found.sum(axis=0))

    outputs = (
        jax.ShapeDtypeStruct(x.shape, x.dtype),
        jax.ShapeDtypeStruct((programs, width), jnp.float32),
    )
    run = launch(kernel, "gelu_backward", (len(grid.columns()), programs), outputs, GELU.warps)
    down, sums = run(x, offset, grad)
    return down, sums


def column_sums(*arrays: jax.Array) -> jax.Array:
    """Column sums of K arrays [N, D] of one shape in one kernel: float32 [P, K, D]."""
    num_rows, width = arrays[0].shape
    grid = _Grid(num_rows, width, SUMS)
    programs, repeats = grid.programs()

    def kernel(*refs):
        *parts, sums = refs
        columns = grid.columns()[0].from_(pl.program_id(0))
        program = pl.program_id(1)

        def body(index, carry):
            tile = grid.tile(grid.rows(program * repeats + index), columns)
            return tuple(old + tile.load(part) for old, part in zip(carry, parts, strict=True))

        zero = jnp.zeros((SUMS.rows, grid.width), jnp.float32)
        found = jax.lax.fori_loop(0, repeats, body, (zero,) * len(parts))
        for place, total in enumerate(found):
            columns.store(sums, (program, jnp.int32(place)), total.sum(axis=0))

    outputs = jax.ShapeDtypeStruct((programs, len(arrays), width), jnp.float32)
    run = launch(kernel, "column_sums", (len(grid.columns()), programs), outputs, SUMS.warps)
    return run(*arrays)


def launch(kernel, name: str, programs: tuple[int, ...], outputs: Any, warps: int) -> Any:
    """The function that runs a kernel."""
    return pl.pallas_call(
        kernel,
        out_shape=outputs,
        grid=programs,
        interpret=allowed_kernels() == "interpreted",
        compiler_params=triton.CompilerParams(num_warps=warps),
        name=name,
    )


def _row_sums(parts: list[jax.Array]) -> jax.Array:
    """Sums over the columns of a row that lies in several loads: [rows, 1]."""
    return functools.reduce(jnp.add, (part.sum(axis=1, keepdims=True) for part in parts))


class _Grid(NamedTuple):
    """How an array [N, D] is cut: tiles of rows, and columns into loads, powers of two for Triton.

    Loads have the largest that divides D, so that no lane is idle (768 columns are three loads of
    256); a D without a large one is masked instead.
    """

    num_rows: int
    num_columns: int
    tiling: Tiling

    @property
    def width(self) -> int:
        divisor = self.num_columns & -self.num_columns
        most = divisor if divisor >= 128 else pl.next_power_of_2(self.num_columns)
        return min(self.tiling.columns, most)

    @property
    def num_tiles(self) -> int:
        return pl.cdiv(self.num_rows, self.tiling.rows)

    def programs(self) -> tuple[int, int]:
        """How many programs there are, and how many tiles each of them takes."""
        repeats = pl.cdiv(self.num_tiles, self.tiling.programs)
        return pl.cdiv(self.num_tiles, repeats), repeats

    def columns(self) -> list[Columns]:
        count = pl.cdiv(self.num_columns, self.width)
        masked = count * self.width > self.num_columns
        if not masked:
            return [Columns(self.width, None, index * self.width) for index in range(count)]
        # Arrays, not numbers: JAX refuses a slice that it knows to reach beyond the end.
        firsts = [jnp.int32(index * self.width) for index in range(count)]
        return [Columns(self.width, self.num_columns, first) for first in firsts]

    def rows(self, index) -> Rows:
        # The last program's last tiles may lie beyond the end.
        programs, repeats = self.programs()
        masked = programs * repeats * self.tiling.rows > self.num_rows
        return Rows(self.tiling.rows, self.num_rows if masked else None, index * self.tiling.rows)

    def tile(self, rows: Rows, columns: Columns) -> Tile:
        return Tile(rows, columns, self.num_columns)


class Columns(NamedTuple):
    """A load of columns; those at `end` and beyond are zeros, and not stored."""

    count: int
    end: int | None
    first: jax.Array | int

    def from_(self, index) -> Columns:
        return self._replace(first=index * self.count)

    @property
    def numbers(self) -> jax.Array:
        return self.first + jnp.arange(self.count)

    @property
    def where(self) -> jax.Array | None:
        return None if self.end is None else self.numbers < self.end

    @property
    def range(self):
        return pl.ds(self.first, self.count)

    def load(self, ref, *place):
        """[..., D] at an index into all axes but the last -> [1, count]."""
        return _load(ref, (*place, self.range), self.where)[None]

    def store(self, ref, place, values):
        """[count] -> [..., D] at an index into all axes but the last."""
        triton.store(ref.at[(*place, self.range)], values, mask=self.where)


class Rows(NamedTuple):
    count: int
    end: int | None
    first: jax.Array

    numbers = Columns.numbers
    where = Columns.where
    range = Columns.range

    def load(self, ref, *place):
        """[N, ...] at an index into all axes but the first -> [count, 1]."""
        return _load(ref, (self.range, *place), self.where)[:, None]

    def store(self, ref, values):
        triton.store(ref.at[self.range], values[:, 0], mask=self.where)


class Tile(NamedTuple):
    rows: Rows
    columns: Columns
    num_columns: int

    @property
    def where(self) -> jax.Array | None:
        rows, columns = self.rows.where, self.columns.where
        if rows is None:
            return None if columns is None else columns[None] & jnp.ones((self.rows.count, 1), bool)
        rows = rows[:, None]
        return rows if columns is None else rows & columns[None]

    def fill(self, values):
        """Zero outside of the array."""
        return values if self.where is None else jnp.where(self.where, values, 0.0)

    def load(self, ref, *place):
        """[N, ..., D] at an index into all axes between them -> float32 [rows, columns]."""
        place = self.rows.range, *place, self.columns.range
        return _load(ref, place, self._mask).astype(jnp.float32)

    def store(self, ref, values, *place):
        place = ref.at[(self.rows.range, *place, self.columns.range)]
        triton.store(place, values.astype(ref.dtype), mask=self._mask)

    @property
    def _mask(self):
        where = self.where
        shape = self.rows.count, self.columns.count
        return None if where is None else jnp.broadcast_to(where, shape)

    def drop(self, values, seeds, first, rate):
        rows = first[...] + self.rows.numbers.astype(jnp.uint32)
        columns = self.columns.numbers.astype(jnp.uint32)
        index = rows[:, None] * jnp.uint32(self.num_columns) + columns[None]
        return drop_rows(values, index, seeds[0], seeds[1], rate)


def _load(ref, place, where):
    return triton.load(ref.at[place], mask=where, other=None if where is None else 0.0)


# Abramowitz and Stegun, 7.1.26, for the tail: Triton has no error function. Error below 1e-7.
_RATE = 0.3275911 * math.sqrt(0.5)
_SERIES = 0.1274147960, -0.1422483680, 0.7107068705, -0.7265760135, 0.5307027145


def _normal(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Distribution function and density of a standard normal; they share their exponential."""
    root = jax.lax.rsqrt(1 + _RATE * jnp.abs(x))  # cheaper than a division
    t = root * root
    series = functools.reduce(lambda total, c: total * t + c, _SERIES[3::-1], _SERIES[4])
    power = jnp.exp(-0.5 * x * x)
    tail = series * t * power
    return jnp.where(x < 0, tail, 1 - tail), power * (1 / math.sqrt(2 * math.pi))
