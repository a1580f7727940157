"""`Problem`: a synthetic corpus with a small model, and how to train it."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from flax import nnx

from experiments.quickstart.settings import Settings
from hardem_jax.data.batching.padding import BatchConfig, Inputs, Pad
from hardem_jax.data.batching.plans import TrainingPlan, training_batches
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.objectives import Objective
from hardem_jax.task.trained import BatchReader
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.step import LossFn

if TYPE_CHECKING:  # brings in matplotlib
    from hardem_jax.analysis.plots import History


@dataclasses.dataclass(frozen=True)
class Problem:
    """A synthetic corpus with a small model for it.

    ``scores`` are metrics with their labels, ``note`` a baseline of them. ``start`` makes a module
    and its parameters from a seed. ``sizes`` are of inputs whose solutions a batch has places for.
    ``pad`` makes, of inputs and places, how to pad a batch.
    """

    name: str
    title: str
    scores: Mapping[str, str]
    settings: Settings
    note: str
    start: Callable[[int], tuple[nnx.GraphDef, Any]]
    make_loss: Callable[[nnx.GraphDef, Objective], LossFn]
    task: Any
    inputs: Inputs
    dev: Any
    dev_inputs: Inputs
    sizes: np.ndarray
    pad: Callable[[Any, int], Pad]

    def train(self, objective: Objective, *, seed: int, run_dir: Path, log: bool) -> "History":
        """Trains once, with a log on stderr or without, and returns the evaluations."""
        steps, inputs = self.settings.steps, self.inputs
        longest = max(part.sizes[:, 0].max() for part in (inputs, self.dev_inputs))
        shapes = BatchConfig(self.settings.batch_size, buckets=(int(longest),), negatives=0)
        plan = TrainingPlan(inputs.sizes, shapes, num_steps=steps, seed=seed)
        pad = self.pad(inputs, shapes.num_solutions(self.sizes))
        graphdef, params = self.start(seed)
        reader = BatchReader(self.task, graphdef, self.pad, batches=shapes)
        eval_every = max(1, steps // 6)
        result = train(
            loss_fn=self.make_loss(graphdef, objective),
            params=params,
            optimizer=self.settings.optimizer,
            batches=iter(training_batches(inputs, plan, pad=pad)),
            evaluate=lambda params: reader.evaluate(params, self.dev, self.dev_inputs)[0],
            config=LoopConfig(
                num_steps=steps,
                monitor="em",
                eval_every=eval_every,
                checkpoint_every=steps,
                log_every=eval_every,
                patience=None,
                seed=seed,
                progress=log,
            ),
            directory=run_dir,
            mesh=data_mesh(1),
        )
        return result.history


#: Scale of queries and keys; larger values sharpen attention.
GAIN = 1.3


def small_encoder(vocab_size: int, width: int, *, seed: int, look: Literal[1, -1] = 1) -> Bert:
    """Builds an encoder of two layers with two heads, initialised by `start_by_matching`."""
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=64,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    encoder = Bert(config, rngs=nnx.Rngs(seed))
    start_by_matching(encoder, seed=seed, look=look)
    return encoder


def start_by_matching(encoder: Bert, *, seed: int, look: Literal[1, -1] = 1) -> None:
    """Initialises a small encoder in place so that it learns to read within minutes.

    BERT's own initialisation has uniform attention, and so small a reader needs thousands of steps
    to discover that it has to compare words at all, as a pretrained encoder can. In this "mimetic"
    one (Trockman and Kolter, 2023) words take half of the hidden units, positions, as sines and
    cosines, and token types the other; queries and keys are multiples of the identity up to a
    rotation, and values are copied. So the first head attends to the same word, also in the
    question, the second to the next (`look` 1) or previous one (-1). Nothing reveals the true
    solution, and all weights are trained.
    """
    width = encoder.config.hidden_size
    rng = np.random.default_rng(seed)
    # Hidden units: words, sines, cosines, token types.
    words, sines, cosines, types = np.split(
        np.arange(width), np.cumsum([width // 2, 3 * width // 16, 3 * width // 16])
    )
    tables = encoder.embeddings
    frequencies = np.linspace(0.1, 0.9 * np.pi, len(sines))
    angles = np.arange(tables.position.shape[0])[:, None] * frequencies
    _fill(tables.word, words, rng.normal(size=(tables.word.shape[0], len(words))))
    _fill(tables.token_type, types, rng.normal(size=(tables.token_type.shape[0], len(types))))
    waves = math.sqrt(2) * np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    _fill(tables.position, np.concatenate([sines, cosines]), waves)

    same = np.zeros((width, width))
    same[words, words] = same[sines, sines] = same[cosines, cosines] = 1
    # Maps sine and cosine at one position to those at the next by the angle sum identities.
    shift = look * frequencies
    neighbour = same.copy()
    neighbour[sines, sines] = neighbour[cosines, cosines] = np.cos(shift)
    neighbour[cosines, sines] = np.sin(shift)
    neighbour[sines, cosines] = -np.sin(shift)
    for layer in encoder.layers:
        layer.key.kernel[...] = np.float32(GAIN) * same.astype(np.float32)
        layer.query.kernel[...] = np.float32(GAIN) * neighbour.astype(np.float32)
        for part, copied, noise in (
            (layer.value, 0.8, 0.2),
            (layer.attention_output, 0.8, 0.2),
            (layer.intermediate, 0.0, 0.3),
            (layer.output, 0.0, 0.3),
        ):
            shape = part.kernel.shape
            kernel = copied * np.eye(*shape) + rng.normal(
                scale=noise / math.sqrt(width), size=shape
            )
            part.kernel[...] = kernel.astype(np.float32)


def _fill(table: nnx.Param, units: np.ndarray, values: np.ndarray) -> None:
    """Sets an embedding table to ``values`` in the hidden ``units`` and 0 elsewhere."""
    start = np.zeros(table.shape, np.float32)
    start[:, units] = 0.15 * values
    table[...] = start
