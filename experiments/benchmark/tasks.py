"""The tasks whose step is measured: a random batch, the model, and the loss from scores alone."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.benchmark.setting import Setting, random_batch, random_texts
from hardem_jax.distributions.equation import NUM_TAGS, TagDistribution
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.models.bert import Bert
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.solutions.equation_rules import MINUS, PLUS
from hardem_jax.tasks import equation_qa, span_qa

Array = jax.Array
Batch = dict[str, np.ndarray]

#: Numbers of a text in the equations task: passage and question of DROP have 24 in the mean.
NUM_NUMBERS = 24
NUM_SPECIAL = 10


@dataclasses.dataclass(frozen=True)
class TaskParts:
    """What the benchmark needs of a task.

    Attributes:
        batch: setting -> a batch without the entries of the host.
        model: encoder -> model; heads are fresh.
        make_loss: (graphdef, objective) -> loss of a training step.
        scores: setting -> shapes of the model's scores by name, before any softmax.
        log_probs: (scores, batch) -> log P(z | x), ``[R, Z]``.
    """

    batch: Callable[[Setting], Batch]
    model: Callable[[Bert], nnx.Module]
    make_loss: Callable[..., Any]
    scores: Callable[[Setting], dict[str, tuple[int, ...]]]
    log_probs: Callable[[Mapping[str, Array], Mapping[str, Array]], Array]


def _span_log_probs(scores: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    spans = SpanDistribution.from_logits(scores["start"], scores["end"], where=batch["context"])
    return spans.log_prob(batch["solutions"])


def equation_batch(setting: Setting) -> Batch:
    """Texts full of numbers, with ``solutions`` random equations of two numbers in every row.

    Example:
        >>> from experiments.benchmark.setting import PRESETS
        >>> setting = Setting(PRESETS["tiny"], rows=2, tokens=64, solutions=3, task="equations")
        >>> equation_batch(setting)["solutions"].shape
        (2, 3, 4)
    """
    rng = np.random.default_rng(setting.seed)
    texts = random_texts(setting, rng)
    rows, slots = setting.rows, NUM_SPECIAL + NUM_NUMBERS
    lengths = texts["where"].sum(axis=1, keepdims=True)
    tokens = np.sort(rng.integers(0, lengths, (rows, NUM_NUMBERS)))
    shape = rows, setting.solutions
    first = rng.integers(0, slots - 1, shape)
    second = rng.integers(first + 1, slots)
    signs = rng.choice([PLUS, MINUS], (2, *shape))
    return {
        **texts,
        "number_tokens": tokens.astype(np.int32),
        "numbers_where": np.ones(tokens.shape, bool),
        "solutions": np.stack([first, signs[0], second, signs[1]], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def _equation_log_probs(scores: Mapping[str, Array], batch: Mapping[str, Array]) -> Array:
    where = jnp.ones(scores["tags"].shape[:2], bool)
    tags = TagDistribution.from_logits(scores["tags"], where=where)
    return tags.log_prob(batch["solutions"])


TASKS: dict[str, TaskParts] = {
    "spans": TaskParts(
        batch=random_batch,
        model=lambda encoder: SpanReader(encoder, rngs=nnx.Rngs(0)),
        make_loss=span_qa.make_loss,
        scores=lambda setting: dict.fromkeys(("start", "end"), (setting.rows, setting.tokens)),
        log_probs=_span_log_probs,
    ),
    "equations": TaskParts(
        batch=equation_batch,
        model=lambda encoder: EquationTagger(encoder, num_special=NUM_SPECIAL, rngs=nnx.Rngs(0)),
        make_loss=equation_qa.make_loss,
        scores=lambda setting: {"tags": (setting.rows, NUM_SPECIAL + NUM_NUMBERS, NUM_TAGS)},
        log_probs=_equation_log_probs,
    ),
}
