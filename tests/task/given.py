"""Reading tables' solutions off a model that says of each question what it was given."""

import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.task.trained import BatchReader
from tests.task.listed import Listed


class Given(nnx.Module):
    """Logits by question, taken by the rows of a batch.

    Args:
        questions: the logits of each, by name.
        distribution: makes P(z | x) of logits by name with a leading axis.
    """

    def __init__(self, questions, distribution):
        stacked = {name: jnp.stack([q[name] for q in questions]) for name in questions[0]}
        self.logits = nnx.Dict({name: nnx.Param(x) for name, x in stacked.items()})
        self.distribution = distribution

    def __call__(self, batch, *, rngs=None):
        del rngs
        return self.distribution({n: param[...][batch["row"]] for n, param in self.logits.items()})


def read_and_scored(task, model, data, solutions):
    """Scores, answers, and the scores by question.

    Args:
        task: that of queries or of programs.
        model: a `Given`.
        data: with a Z for each question.
        solutions: the Z of each question, ``[N, W]``.
    """
    graphdef, params = nnx.split(model, nnx.Param)
    num_solutions = max(map(len, solutions))

    def pad(rows, num_tokens):
        del num_tokens
        batch = {
            "row": np.array([0 if row is None else row for row in rows]),
            "solutions": np.full((len(rows), num_solutions, solutions[0].shape[1]), -1),
            "solutions_where": np.zeros((len(rows), num_solutions), bool),
        }
        for place, row in enumerate(rows):
            if row is not None:
                count = len(solutions[row])
                batch["solutions"][place, :count] = solutions[row]
                batch["solutions_where"][place, :count] = True
        return batch

    reader = BatchReader(task, graphdef, lambda *_: pad, batches=BatchConfig(buckets=(4,)))
    inputs = Listed(range(len(solutions)), [[4, len(z)] for z in solutions])
    scores, answers = reader.evaluate(params, data, inputs)
    return scores, answers, task.by_question(data, answers)
