"""Every public name as a user's project calls it, for type checkers (`.ci/run`)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardem_jax import (
    EM,
    MML,
    FirstOnly,
    HardEM,
    NumberReader,
    Objective,
    Reader,
    TableReader,
    annealed_loss,
    check_log_probs,
    em_loss,
    find_equations,
    find_queries,
    find_spans,
    first_only_loss,
    hard_em_loss,
    has_solution,
    mean_over,
    mml_loss,
    posteriors,
)


@dataclasses.dataclass(frozen=True)
class HardLater:
    """A posterior of one's own for each step."""

    after: int

    def at(self, step: jax.Array | int, key: jax.Array) -> posteriors.Posterior:
        del key
        share = jnp.where(jnp.asarray(step) < self.after, 1.0, 9.0)

        def posterior(log_probs: jax.Array, **rows: Any) -> jax.Array:
            return jax.nn.softmax(share * log_probs)

        return posterior


class Halved:
    """An objective of one's own."""

    def __call__(
        self, log_probs: jax.typing.ArrayLike, *, step: jax.Array | int, key: jax.Array, **rows: Any
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        return mml_loss(log_probs, **rows) / 2, {}


def objectives(log_probs: jax.Array) -> list[jax.Array]:
    own: list[Objective] = [
        *(HardEM(), HardEM(tau=8000, cap=0.8, schedule="linear"), MML(), FirstOnly(), Halved()),
        *(EM(), EM(posteriors.hard), EM(posteriors.soft), EM(posteriors.first)),
        *(EM(posteriors.uniform), EM(posteriors.Sampled()), EM(HardLater(5))),
        *(EM(posteriors.Tempered(2.0)), EM(posteriors.TopK(2)), EM(posteriors.Annealed(tau=10))),
    ]
    key = jax.random.key(0)
    return [objective(log_probs, step=3, key=key)[0] for objective in own]


def losses(log_probs: jax.Array, where: np.ndarray) -> list[jax.Array]:
    check_log_probs(log_probs, where=where)
    key = jax.random.key(0)
    counted: jax.Array = has_solution(log_probs, where=where)
    over: Callable[..., jax.Array] = mean_over("devices")
    return [
        counted,
        hard_em_loss(log_probs, where=where),
        hard_em_loss(log_probs[0], segment_ids=jnp.array([0, 0, 1]), num_segments=2),
        mml_loss(log_probs, where=where, reduce_fn=jnp.sum),
        first_only_loss(log_probs, where=where, reduce_fn=None),
        annealed_loss(log_probs, where=where, step=jnp.int32(0), key=key, tau=100),
        em_loss(log_probs, posteriors.hard, where=where),
        em_loss(log_probs, posteriors.at(HardLater(5), 0, key)),
        jax.vmap(lambda x: mml_loss(x, reduce_fn=over), axis_name="devices")(log_probs[None]),
    ]


def solutions() -> list[str]:
    spans = find_spans("Ada lives in Oslo. Ada met Bo.", ["Ada"])
    equations = find_equations("Ada ran 40 yards, Bo ran 31.", "How many more?", 9)
    queries = find_queries({"who": ["Ada", "Bo"], "yards": [40, 31]}, "Who ran 40?", "Ada")
    return [str(len(found)) for found in (spans, equations, queries)]


def answer(run_dir: str) -> list[str]:
    reader = Reader.from_run(run_dir, "best", batch_size=4)
    found = [answer.text for answer in reader.answer("Who lives in Oslo?", ["Ada lives in Oslo."])]
    numbers = NumberReader.from_run(run_dir).answer("How many?", "Ada ran 40 yards, Bo 31.")
    found += [f"{answer.text} = {answer.equation}" for answer in numbers]
    results = TableReader.from_run(run_dir).answer("Who?", [["who"], ["Ada"]], top=1)
    return found + [f"{answer.text}: {answer.solution}" for answer in results]


if __name__ == "__main__":
    log_probs = jnp.log(jnp.array([[0.2, 0.3, 0.1], [0.4, 0.1, 0.2]]))
    print(len(objectives(log_probs)), len(losses(log_probs, np.ones((2, 3), bool))))
    print(solutions())
