"""The steps that are measured: those of every task, and that of an encoder without a head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hardem_jax.registry import task_module, tasks_with
from hardem_jax.spans.benchmark import random_batch
from hardem_jax.task.benchmark import Step


def _encoder_alone(encoder):
    """What every other step costs at least."""
    from flax import nnx

    class EncoderAlone(nnx.Module):
        def __init__(self):
            self.encoder = encoder

    return EncoderAlone()


def _mean_square(graphdef, objective):
    """Of the last layer: a gradient for every parameter, and hardly any work."""
    import jax.numpy as jnp
    from flax import nnx

    from hardem_jax.encoders.packing import encode

    del objective

    def loss(params, batch, *, step, key, dropout_key):
        encoder = nnx.merge(graphdef, params).encoder
        hidden = encode(encoder, batch, rngs=nnx.Rngs(dropout=dropout_key))
        return jnp.mean(hidden.astype(jnp.float32) ** 2), {}

    return loss


#: Name -> step, of all tasks. Of "spans" PyTorch's is measured, too.
OF_TASKS: dict[str, Step] = {
    name: step
    for task in tasks_with("benchmark")
    for name, step in task_module(task, "benchmark").STEPS.items()
}
STEPS = {"encoder": Step(random_batch, _encoder_alone, _mean_square), **OF_TASKS}

# Flags offer the names that there are.
if TYPE_CHECKING:
    Task = str
else:
    Task = Literal[tuple(STEPS)]
