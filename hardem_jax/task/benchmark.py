"""What a task brings to the benchmark: random batches of given sizes, and the step they feed.

A task's ``benchmark`` module has ``STEPS`` by name. Importing it loads neither jax nor flax.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from flax import nnx

    from hardem_jax.encoders.base import Encoder

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class BatchSizes:
    """Sizes of a batch.

    Attributes:
        rows: R.
        tokens: T.
        solutions: Z of every row that has any.
        vocabulary: entries; token ids are below.
        shortest: length of the shortest row as a share of T; lengths are uniform from there to T.
    """

    rows: int
    tokens: int
    solutions: int
    vocabulary: int = 1000
    shortest: float = 1.0

    @property
    def context_begins(self) -> int:
        """First token after [CLS], a question of an eighth of the row and [SEP]."""
        return self.tokens // 8 + 2


def task_loss(graphdef: nnx.GraphDef, objective: Any) -> Any:
    """The loss of most tasks, see `hardem_jax.task.base.make_loss`."""
    from hardem_jax.task.base import make_loss

    return make_loss(graphdef, objective)


@dataclasses.dataclass(frozen=True)
class Step:
    """The training step of a model.

    Attributes:
        batch: random, without the entries of the host.
        model: of an encoder; heads are fresh.
        make_loss: (graphdef, objective) -> loss of a training step.
        fills_rows: texts are as long as their rows, whatever `BatchSizes.shortest` is.
        own_encoder: the model has one, and ignores that of the benchmark.
        variant: of another step; its gradient is checked, its time not measured.
    """

    batch: Callable[[BatchSizes], Batch]
    model: Callable[[Encoder], nnx.Module]
    make_loss: Callable[[nnx.GraphDef, Any], Any] = task_loss
    fills_rows: bool = False
    own_encoder: bool = False
    variant: bool = False


def random_texts(sizes: BatchSizes, rng: np.random.Generator) -> Batch:
    """Token ids, types and mask ``[R, T]``: a question, then its context."""
    shape = rows, tokens = sizes.rows, sizes.tokens
    lengths = rng.integers(int(np.ceil(sizes.shortest * tokens)), tokens + 1, (rows, 1))
    position = np.arange(tokens)[None]
    where = position < lengths
    token_ids = np.where(where, rng.integers(1, sizes.vocabulary, shape), 0)
    return {
        "token_ids": token_ids.astype(np.int32),
        "token_type_ids": (where & (position >= sizes.context_begins)).astype(np.int32),
        "where": where,
    }
