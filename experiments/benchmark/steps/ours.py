"""Our training step, and the loss by itself: the code that the experiments train with."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from experiments.benchmark.steps.setting import (
    HEADS,
    HEADS_FILE,
    MATRIX_SIZE,
    NUM_STEPS,
    OBJECTIVES,
    OPTIMIZER,
    Setting,
    Sizes,
)
from experiments.benchmark.steps.tasks import STEPS, TASKS
from hardem_jax.models.encoders.bert import Bert, BertConfig
from hardem_jax.models.encoders.pretrained import load_encoder, save_encoder
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import HardEM
from hardem_jax.training.devices.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig, learning_rate_schedule, make_optimizer
from hardem_jax.training.state import init_state
from hardem_jax.training.step import compile_train_step, make_train_step
from hardem_jax.training.tree_paths import leaf_name

OPTIMIZER_CONFIG = OptimizerConfig(warmup_fraction=0.0, **OPTIMIZER)


def set_precision(setting: Setting) -> None:
    """Float32 products in float32, unless the setting asks for TensorFloat-32."""
    precision = "tensorfloat32" if setting.tf32 else "float32"
    jax.config.update(
        "jax_default_matmul_precision", precision if setting.dtype == "float32" else None
    )


class TaskStep:
    """The compiled step of hard EM, and its state.

    Args:
        setting: task, sizes and batch.
        folder: weights, from `write_weights`.
    """

    def __init__(self, setting: Setting, folder: Path):
        set_precision(setting)
        encoder = load_encoder(
            folder,
            dtype=jnp.dtype(setting.dtype),
            **setting.dropout_rates,
        )
        task = STEPS[setting.task]
        model = task.model(encoder)
        if setting.task == "spans":  # the one task that PyTorch computes too, with the same heads
            _load_heads(model, folder)
        graphdef, params = nnx.split(model, nnx.Param)
        mesh = data_mesh(1)
        optimizer = make_optimizer(OPTIMIZER_CONFIG, params, NUM_STEPS)
        schedule = learning_rate_schedule(OPTIMIZER_CONFIG, NUM_STEPS)
        step = make_train_step(task.make_loss(graphdef, HardEM()), optimizer, schedule)
        self._state = init_state(params, optimizer, setting.seed, mesh)
        self._step = compile_train_step(step, mesh)
        self._batch = place_batch(task.batch(setting), mesh)

    def run(self, steps: int) -> list[tuple[float, float]]:
        """Runs ``steps`` steps; returns ``(loss, norm of the gradient)`` of each."""
        metrics = []
        for _ in range(steps):
            self._state, now = self._step(self._state, self._batch)
            metrics.append(now)
        jax.block_until_ready(self._state)
        return [(float(m["loss"]), float(m["grad_norm"])) for m in metrics]

    def program(self) -> str:
        """The compiled program."""
        return self._step.lower(self._state, self._batch).compile().as_text()


class MatrixProduct:
    """A product of two square matrices: what the device can do at its best, as JAX gets it.

    Args:
        setting: dtype and device.
    """

    def __init__(self, setting: Setting):
        set_precision(setting)
        size = self.size = MATRIX_SIZE[setting.device]
        self._matrix = jnp.ones((size, size), jnp.dtype(setting.dtype))
        self._product = jax.jit(jnp.matmul)

    def run(self, steps: int) -> list[tuple[float, float]]:
        """Computes it this many times."""
        for _ in range(steps):
            out = self._product(self._matrix, self._matrix)
        jax.block_until_ready(out)
        return [(float(out[0, 0]), 0.0)]


class LossStep:
    """What depends on Z, and nothing else: from scores to loss and their gradient.

    That is softmax, gathering of the solutions, and objective, called on their own. In a training
    step the call is not paid for and XLA may fuse across, so this is an upper bound.
    """

    def __init__(self, setting: Setting, objective: str):
        task = TASKS[setting.task]
        self._batch = {name: jnp.asarray(x) for name, x in task.batch(setting).items()}
        rng = np.random.default_rng(setting.seed)
        scores = {
            name: jnp.asarray(rng.normal(size=shape), jnp.float32)
            for name, shape in task.scores(setting).items()
        }
        self._arguments = scores, jnp.int32(5_000), jax.random.key(0)

        @jax.jit
        def value_and_grad(scores, step, key, batch):
            def loss(scores):
                log_probs = task.log_probs(scores, batch)
                where = batch["solutions_where"]
                return OBJECTIVES[objective](log_probs, step=step, key=key, where=where)[0]

            return jax.value_and_grad(loss)(scores)

        self._value_and_grad = value_and_grad

    def run(self, steps: int) -> list[tuple[float, float]]:
        """Computes it this many times; returns ``(loss, norm of the gradient)`` of the last."""
        for _ in range(steps):
            out = self._value_and_grad(*self._arguments, self._batch)
            jax.block_until_ready(out)
        return [(float(out[0]), float(optax.global_norm(out[1])))]


def _load_heads(reader: nnx.Module, folder: Path) -> None:
    with np.load(folder / HEADS_FILE) as heads:
        for name in HEADS:
            getattr(reader, name).kernel[...] = jnp.asarray(heads[f"{name}.kernel"])
            getattr(reader, name).bias[...] = jnp.asarray(heads[f"{name}.bias"])


def bert_config(sizes: Sizes, positions: int, **rates: Any) -> BertConfig:
    """An encoder of these sizes.

    Args:
        sizes: without the position table.
        positions: rows of that.
        **rates: of dropout, fields of `BertConfig`.

    Example:
        >>> bert_config(Sizes(30522, 384, 6, 12, 1536), 512, hidden_dropout=0.0).head_size
        32
    """
    return BertConfig(
        *(sizes.vocabulary, sizes.hidden, sizes.layers, sizes.heads, sizes.intermediate),
        max_position_embeddings=positions,
        **rates,
    )


def write_weights(setting: Setting, folder: Path) -> None:
    """Random weights of encoder (Hugging Face layout) and heads (``heads.npz``).

    Biases and LayerNorm are random too: a weight that is lost on the way to PyTorch then changes
    the loss. Drawn by numpy on abstract modules, so that no device is touched.
    """
    rng = np.random.default_rng(setting.seed)
    config = bert_config(setting.sizes, setting.positions)
    reader = nnx.eval_shape(lambda: SpanReader(Bert(config, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(0)))
    graphdef, shapes = nnx.split(reader, nnx.Param)

    def draw(path, leaf):
        values = 0.02 * rng.standard_normal(leaf.shape, np.float32)
        return values + 1 if leaf_name(path).endswith(".scale") else values

    reader = nnx.merge(graphdef, jax.tree_util.tree_map_with_path(draw, shapes))
    save_encoder(reader.encoder, folder)
    heads = {}
    for name in HEADS:
        heads[f"{name}.kernel"] = np.asarray(getattr(reader, name).kernel[...])
        heads[f"{name}.bias"] = np.asarray(getattr(reader, name).bias[...])
    np.savez(folder / HEADS_FILE, **heads)
