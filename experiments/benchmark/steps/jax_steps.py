"""Our training step: the code that the experiments train with."""

import os
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.benchmark.steps.setting import NUM_STEPS, OPTIMIZER, STEPS, Device, Setting
from hardem_jax.data.batching.plans import packing_arrays, rows_needed
from hardem_jax.encoders.base import Encoder
from hardem_jax.encoders.bert import BertConfig
from hardem_jax.encoders.pretrained import untrained_encoder
from hardem_jax.errors import InputError
from hardem_jax.objectives import HardEM
from hardem_jax.spans.checkpoint import load_reader, save_reader
from hardem_jax.spans.model import SpanReader
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig, learning_rate_schedule, make_optimizer
from hardem_jax.training.state import current_shardings, init_state, leaf_name
from hardem_jax.training.step import LossFn, TrainStep, compile_train_step, make_train_step

#: Where JAX looks for each device; gradients' sums over devices also need the host.
PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
OPTIMIZER_CONFIG = OptimizerConfig(warmup_fraction=0.0, **OPTIMIZER)


def uncompiled(
    loss_fn: LossFn, params: Any, accumulate: int = 1
) -> tuple[TrainStep, optax.GradientTransformation]:
    """The step of a loss with the benchmark's AdamW, and that optimizer."""
    optimizer = make_optimizer(OPTIMIZER_CONFIG, params, NUM_STEPS)
    schedule = learning_rate_schedule(OPTIMIZER_CONFIG, NUM_STEPS)
    return make_train_step(loss_fn, optimizer, schedule, accumulate=accumulate), optimizer


def use_device(device: Literal["auto", Device]) -> Device:
    """Computes on this device, and nowhere else; returns it, or what "auto" stands for."""
    # Several processes may share the device, and its peak memory is to be read off.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if device != "auto":
        jax.config.update("jax_platforms", PLATFORMS[device])
    try:
        found: Any = jax.default_backend()
    except RuntimeError as error:
        raise InputError(f"device: expected a {device}, found none ({error})") from error
    if device not in ("auto", found):  # the host, which comes second
        raise InputError(f"device: expected a {device}, found none")
    return found


def prepare_jax(setting: Setting) -> None:
    """Computes as the setting says."""
    use_device(setting.device)
    # Float32 products in float32, also where the hardware would round its inputs.
    precision = "float32" if setting.dtype == "float32" else None
    jax.config.update("jax_default_matmul_precision", precision)


def step_batch(setting: Setting) -> dict[str, np.ndarray]:
    """The batch of a whole step, packed or not."""
    batch = STEPS[setting.task].batch(setting.batch_sizes)
    if setting.packed_tokens is not None:
        where, length = batch["where"], setting.packed_tokens
        fewest = rows_needed(where.sum(axis=1), length)
        batch |= packing_arrays(where, num_devices=1, num_rows=fewest, row_tokens=length)
    return batch


class TrainingStep:
    """The compiled step of hard EM, and its state; weights from `write_weights`, or drawn."""

    def __init__(self, setting: Setting, folder: Path | None = None):
        prepare_jax(setting)
        task = STEPS[setting.task]
        computed: dict[str, Any] = {"dtype": jnp.dtype(setting.dtype)}
        computed["attention"] = setting.attention
        if folder is not None and setting.task == "spans":  # PyTorch computes it with these weights
            computed |= {"scan_layers": setting.scan_layers, **setting.dropout_rates}
            model = load_reader(folder, **computed)
        else:
            model = task.model(make_encoder(setting, **computed))
        graphdef, params = nnx.split(model, nnx.Param)
        mesh = data_mesh(1)
        step, optimizer = uncompiled(task.make_loss(graphdef, HardEM()), params)
        self._state = init_state(params, optimizer, 0, mesh)
        self._step = compile_train_step(step, mesh, current_shardings(self._state))
        self._batch = place_batch(step_batch(setting), mesh)

    def run(self, steps: int) -> list[tuple[float, float]]:
        """Runs ``steps`` steps; returns ``(loss, norm of the gradient)`` of each."""
        metrics = []
        for _ in range(steps):
            self._state, now = self._step(self._state, self._batch)
            metrics.append(now)
        jax.block_until_ready(self._state)
        return [(float(m["loss"]), float(m["grad_norm"])) for m in metrics]


def make_encoder(setting: Setting, **computed: Any) -> Encoder:
    """The encoder of a setting with random weights."""
    positions = max(512, setting.tokens)
    sizes = BertConfig(*setting.sizes, max_position_embeddings=positions, **setting.dropout_rates)
    return untrained_encoder(sizes, scan_layers=setting.scan_layers, **computed)


def write_weights(setting: Setting, folder: Path) -> None:
    """Random weights of encoder and heads, in the layout of Hugging Face.

    Biases and LayerNorm are random too: a weight that is lost on the way to PyTorch then changes
    the loss. Drawn by numpy on abstract modules, so that no device is touched.
    """
    rng = np.random.default_rng(0)
    reader = nnx.eval_shape(lambda: SpanReader(make_encoder(setting), rngs=nnx.Rngs(0)))
    graphdef, shapes = nnx.split(reader, nnx.Param)

    def draw(path, leaf):
        values = 0.02 * rng.standard_normal(leaf.shape, np.float32)
        return values + 1 if leaf_name(path).endswith(".scale") else values

    save_reader(nnx.merge(graphdef, jax.tree_util.tree_map_with_path(draw, shapes)), folder)
