"""Every loss beside its formula in plain Python, and the rows that each is tried on."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax import loss_variants, losses, posteriors
from tests.marks import slow

INF = math.inf


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss, and its value for one row, given the log-probs of the row's solutions."""

    name: str
    call: Callable[..., jax.Array]
    formula: Callable[[list[float]], float]
    sees_all: bool = True  # whether every solution, or only the first, enters the loss

    def __call__(self, log_probs, **rows):
        return self.call(log_probs, **rows)

    def __repr__(self):
        return self.name


@contextlib.contextmanager
def nothing_implicit():
    """As in a project that forbids implicit promotion of dtypes and ranks."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


def first_only(row: list[float]) -> float:
    return -row[0]


def hard_em(row: list[float]) -> float:
    return -max(row)


def mml(row: list[float]) -> float:
    top = max(row)
    if math.isinf(top):
        return -top
    return -top - math.log(math.fsum(math.exp(score - top) for score in row))


def soft_maximum(row: list[float]) -> float:
    return -mml([-score for score in row])


def cross_entropy_to_posterior(row: list[float]) -> float:
    if max(row) == -INF:
        return INF
    possible = [score for score in row if score != -INF]
    weights = [math.exp(score - max(row)) for score in possible]
    costs = [-weight * score for weight, score in zip(weights, possible, strict=True)]
    return math.fsum(costs) / math.fsum(weights)


def mml_by_count(row: list[float]) -> float:
    return mml(row) / len(row) ** 0.5


def mml_plus_entropy(row: list[float]) -> float:
    if max(row) == -INF:
        return INF
    weights = [math.exp(score - max(row)) for score in row]
    shares = [weight / math.fsum(weights) for weight in weights]
    return mml(row) - 0.5 * math.fsum(q * math.log(q) for q in shares if q > 0)


def mean_nll(row: list[float]) -> float:
    possible = [score for score in row if score != -INF]
    return -math.fsum(possible) / len(possible) if possible else INF


def annealed(step: int, tau: float | None):
    def loss(log_probs, **rows):
        return losses.annealed_loss(log_probs, step=step, key=jax.random.key(0), tau=tau, **rows)

    return loss


def em(posterior):
    return lambda log_probs, **rows: losses.em_loss(log_probs, posterior, **rows)


def options(loss, **fixed):
    return lambda log_probs, **rows: loss(log_probs, **fixed, **rows)


ALL_LOSSES = (
    Loss("hard_em", losses.hard_em_loss, hard_em),
    Loss("mml", losses.mml_loss, mml),
    Loss("first_only", losses.first_only_loss, first_only, sees_all=False),
    Loss("annealed_at_start", annealed(step=0, tau=100), mml),
    Loss("annealed_at_end", annealed(step=100, tau=100), hard_em),
    Loss("em_hard", em(posteriors.hard), hard_em),
    Loss("em_first", em(posteriors.first), first_only, sees_all=False),
    Loss("em_soft", em(posteriors.soft), cross_entropy_to_posterior),
    Loss("em_uniform", em(posteriors.uniform), mean_nll),
    Loss("count_weighted", options(loss_variants.count_weighted_mml_loss, power=0.5), mml_by_count),
    Loss("released", loss_variants.released_mml_loss, soft_maximum),
    Loss("entropy", options(loss_variants.entropy_regularized_loss, weight=0.5), mml_plus_entropy),
)
PAPER_LOSSES = ALL_LOSSES[:3]
_BY_NAME = {loss.name: loss for loss in ALL_LOSSES}
_SLOW = ("annealed_at_start", "count_weighted", "released", "entropy")
#: The losses that have code of their own, those of later work as slow cases.
over_all_losses = pytest.mark.parametrize(
    "loss",
    [*(*PAPER_LOSSES, _BY_NAME["em_soft"]), *slow(*(_BY_NAME[name] for name in _SLOW))],
    ids=str,
)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    rows: np.ndarray
    mean: np.ndarray
    gradient: np.ndarray  # of the mean


@functools.partial(jax.jit, static_argnames=("loss", "num_segments"))
def _evaluate(loss, log_probs, **rows):
    mean, gradient = jax.value_and_grad(loss)(log_probs, **rows)
    return loss(log_probs, **rows, reduce_fn=None), mean, gradient


def evaluate(loss, log_probs, **rows) -> Evaluation:
    """Rows, mean and the mean's gradient, in one compiled call per loss and shape."""
    return Evaluation(*map(np.asarray, _evaluate(loss, jnp.asarray(log_probs), **rows)))


def expected_rows(loss: Loss, log_probs: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The formula on each row of ``[B, Z]`` after its padding is physically removed."""
    kept = [row[valid].tolist() for row, valid in zip(log_probs.astype(float), where, strict=True)]
    return np.array([loss.formula(row) if row else 0.0 for row in kept])


def random_rows(seed: int, shape=(6, 5)) -> tuple[np.ndarray, np.ndarray]:
    """Log-probs and a mask with at least one solution in each row."""
    rng = np.random.default_rng(seed)
    log_probs = -rng.exponential(3.0, shape).astype(np.float32)
    where = rng.random(shape) < 0.6
    where[..., rng.integers(shape[-1])] = True
    return log_probs, where


def shuffled_ragged(seed, log_probs, where):
    """The same rows as ``[N]``: order within a row kept, rows interleaved, some entries masked.

    Also a few entries whose row does not exist, before and after the rest.
    """
    rng = np.random.default_rng(seed)
    num_rows, width = log_probs.shape
    # Stable sorting by a random key per entry that grows within each row interleaves the rows.
    arrival = np.argsort(np.sort(rng.random((num_rows, width)), axis=-1), axis=None)
    segment_ids = np.repeat(np.arange(num_rows), width)[arrival]
    outside = np.array([num_rows, -1, num_rows + 3])
    ragged = {
        "log_probs": np.concatenate([[90.0, -3.0], log_probs.ravel()[arrival], [3e38]]),
        "where": np.concatenate([[True, True], where.ravel()[arrival], [True]]),
        "segment_ids": np.concatenate([outside[:2], segment_ids, outside[2:]]).astype(np.int32),
        "num_segments": num_rows,
    }
    ragged["log_probs"] = ragged["log_probs"].astype(np.float32)
    place = np.empty(num_rows * width, int)
    place[arrival] = np.arange(num_rows * width)
    return ragged, lambda flat: flat[2:-1][place].reshape(num_rows, width)
