"""The training steps that `experiments.benchmark.packing` measures, and their batches."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import nnx
from rich.progress import track

from experiments.benchmark.measure import median_ratio, quartiles
from experiments.benchmark.steps.ours import OPTIMIZER_CONFIG, bert_config
from experiments.benchmark.steps.setting import NUM_STEPS, sizes_of
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.batching.plans import TrainingPlan, training_batches
from hardem_jax.data.inputs.windows import pad_windows
from hardem_jax.models.encoders.bert import Bert
from hardem_jax.models.encoders.packing import real_token_share
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import HardEM
from hardem_jax.tasks.spans import make_span_loss
from hardem_jax.training.devices.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import learning_rate_schedule, make_optimizer
from hardem_jax.training.state import init_state
from hardem_jax.training.step import compile_train_step, make_train_step

if TYPE_CHECKING:
    from experiments.benchmark.packing import Packing

# Largest relative difference between the losses of packed and of padded rows.
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}
CHECKED_STEPS = 2


def batches(command: Packing, windows: Any, config: BatchConfig) -> list[dict[str, jax.Array]]:
    """One for each measured step, on the device."""
    plan = TrainingPlan(
        windows.sizes, config, num_steps=command.rounds * command.steps, seed=command.seed
    )
    num_solutions = config.num_solutions(windows.sizes)
    pad = functools.partial(pad_windows, num_solutions=num_solutions, pad_id=0)
    mesh = data_mesh(1)
    return [place_batch(batch.arrays, mesh) for batch in training_batches(windows, plan, pad=pad)]


def training_step(
    command: Packing, dropout: float
) -> Callable[[Mapping[str, jax.Array]], dict[str, jax.Array]]:
    """Makes a training step on a batch; the state is its own."""
    rates = {"hidden_dropout": dropout, "attention_dropout": dropout}
    positions = max(512, command.buckets[-1])
    config = bert_config(sizes_of(command.preset, command.layers), positions, **rates)
    encoder = Bert(config, rngs=nnx.Rngs(command.seed), dtype=jnp.dtype(command.dtype))
    graphdef, params = nnx.split(SpanReader(encoder, rngs=nnx.Rngs(command.seed)), nnx.Param)
    mesh = data_mesh(1)
    optimizer = make_optimizer(OPTIMIZER_CONFIG, params, NUM_STEPS)
    schedule = learning_rate_schedule(OPTIMIZER_CONFIG, NUM_STEPS)
    train_step = compile_train_step(
        make_train_step(make_span_loss(graphdef, HardEM()), optimizer, schedule), mesh
    )
    state = init_state(params, optimizer, command.seed, mesh)

    def step(batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        nonlocal state
        state, metrics = train_step(state, batch)
        return metrics

    return step


def check(command: Packing, layouts: Mapping[str, list[dict[str, jax.Array]]]) -> dict[str, float]:
    """Largest relative difference of the first losses of each packed layout from padded ones.

    Raises:
        RuntimeError: if one is above `TOLERANCE`.
    """
    differences = {}
    for name, batches in layouts.items():
        if "packing" not in batches[0]:
            continue
        # Both make the same updates in turn.
        packed_step, padded_step = training_step(command, 0.0), training_step(command, 0.0)
        found = []
        for batch in batches[:CHECKED_STEPS]:
            padded = {n: x for n, x in batch.items() if n not in ("packing", "unpacking")}
            one, other = packed_step(batch), padded_step(padded)
            found.append(abs(float(one["loss"]) / float(other["loss"]) - 1))
        differences[name] = max(found)
        if not differences[name] <= TOLERANCE[command.dtype]:
            raise RuntimeError(f"{name}: losses differ by {differences[name]}, relative")
    return differences


def interleave(
    command: Packing, step: Callable[..., Any], layouts: Mapping[str, list[dict[str, jax.Array]]]
) -> dict[str, list[float]]:
    """Seconds of each turn."""
    names = list(layouts)
    times: dict[str, list[float]] = {name: [] for name in names}
    for index in track(range(command.rounds), "measuring", transient=True):
        begin = index % len(names)
        for name in names[begin:] + names[:begin]:
            began = time.perf_counter()
            for batch in layouts[name][index * command.steps :][: command.steps]:
                metrics = step(batch)
            jax.block_until_ready(metrics)
            times[name].append(time.perf_counter() - began)
    return times


def compile_all(step: Callable[..., Any], batches: Sequence[Mapping[str, jax.Array]]) -> dict:
    """Runs one batch of every shape; how many shapes there are, and how long that took."""
    shapes = {str(jax.tree.map(jnp.shape, batch)): batch for batch in batches}
    began = time.perf_counter()
    for batch in shapes.values():
        jax.block_until_ready(step(batch))
    return {"programs": len(shapes), "compile_s": time.perf_counter() - began}


def summary(
    batches: Sequence[Mapping[str, jax.Array]],
    seconds: Sequence[float],
    padded_seconds: Sequence[float],
    batch_size: int,
) -> dict[str, Any]:
    """What the table and the file say about a layout."""
    shares = [float(real_token_share(batch)) for batch in batches]
    tokens = [int(batch["where"].sum()) for batch in batches]
    return {
        "items_per_s": len(batches) * batch_size / sum(seconds),
        "real_tokens_per_s": sum(tokens) / sum(seconds),
        "real_token_share": statistics.mean(shares),
        "seconds": list(seconds),
        "seconds_per_turn": quartiles(seconds),
        "speed": median_ratio(padded_seconds, seconds),
    }
