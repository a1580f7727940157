"""Random batches of the benchmark are batches of programs."""

import numpy as np

from hardem_jax.programs.benchmark import random_batch
from hardem_jax.programs.solutions.rules import may_modify, may_select
from hardem_jax.programs.solutions.types import OPERATORS, SHAPES, Field
from hardem_jax.task.benchmark import BatchSizes


def test_random_programs_are_well_formed():
    batch = random_batch(BatchSizes(rows=4, tokens=48, solutions=50))
    columns = int(batch["row_number"][0])
    assert batch["solutions"].shape == (4, 50, 5)
    for shape, select, modify, *links in batch["solutions"].reshape(-1, 5).tolist():
        shape = SHAPES[shape]
        assert [link >= 0 for link in links] == [shape.num_links > 0, shape.num_links > 1]
        for code, used, may in (
            (select, shape.has_select, may_select),
            (modify, shape.has_modify, may_modify),
        ):
            assert (code >= 0) == used
            assert not used or may(shape, Field.from_code(code), columns)
    _, operators, first, last = np.moveaxis(batch["links"], -1, 0)
    assert set(operators.ravel()) == {OPERATORS.index("=")} and np.all(first <= last)
