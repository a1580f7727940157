"""A batch without rows, such as a device's share of a short one, has results without rows."""

import jax
import pytest

from tests.task.toy import TASKS, make_bert

CALLS = {
    "spans": lambda p, z: (p.spans.log_prob(z), p.spans.top(3, max_length=4)),
    "taggings": lambda p, z: (p.taggings.mode(), p.taggings.mode(empty=False)),
    "equations": lambda p, z: (p.log_prob(z), p.argmax_tags()),
    "queries": lambda p, z: (p.log_prob(z), p.top(3), p.greedy(), p.log_mass()),
    "programs": lambda p, z: (p.log_prob(z), p.top(3), p.sample(jax.random.key(0), 2)),
}


def without_rows(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((0, *x.shape[1:]), x.dtype), tree)


@pytest.mark.parametrize("task", CALLS)
def test_what_is_read_of_no_rows(task):
    batch = TASKS[task].batch(2, 40)
    reading = jax.eval_shape(lambda: TASKS[task].model(make_bert())(batch))
    some = jax.eval_shape(CALLS[task], reading, batch["solutions"])
    assert {x.shape[0] for x in jax.tree.leaves(some)} == {2}
    none = jax.eval_shape(CALLS[task], *without_rows((reading, batch["solutions"])))
    assert none == without_rows(some)
