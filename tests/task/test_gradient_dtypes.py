"""With an encoder in bfloat16, devices add up the gradients of parameters in float32."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.extend.core import Literal

from hardem_jax import HardEM
from hardem_jax.training.state import named_leaves
from tests.marks import slow
from tests.task.toy import TASKS, make_bert

#: What moves numbers, or joins gradients, without computing with the rows of a batch.
MOVES = {"reshape", "transpose", "squeeze", "broadcast_in_dim", "pad", "concatenate", "add_any"}
CALLS = {"jit", "pjit", "closed_call", "scan"}


def least_precise(jaxpr, value):
    """The dtype with the fewest bits that a value had since it was last computed."""
    made = next((e for e in reversed(jaxpr.eqns) if value in e.outvars), None)
    if made is None:
        return value.aval.dtype
    name = made.primitive.name
    if name == "convert_element_type":
        read = [made.invars[0].aval.dtype]
    elif name in MOVES:
        read = [least_precise(jaxpr, x) for x in made.invars if not isinstance(x, Literal)]
    elif name in CALLS:
        inner = made.params["jaxpr"].jaxpr
        read = [least_precise(inner, inner.outvars[made.outvars.index(value)])]
    else:
        read = []
    floats = [x for x in [*read, value.aval.dtype] if jnp.issubdtype(x, jnp.floating)]
    return min(floats, key=lambda dtype: jnp.finfo(dtype).bits)


@pytest.mark.parametrize("task", [*(task for task in TASKS if task != "naqanet"), *slow("naqanet")])
def test_gradients_of_parameters_are_not_rounded(task):
    def make_model():
        return TASKS[task].model(make_bert(dtype=jnp.bfloat16))

    graphdef, params = nnx.split(nnx.eval_shape(make_model), nnx.Param)
    loss_fn = TASKS[task].make_loss(graphdef, HardEM())

    def gradient(params, batch):
        key = jax.random.key(0)
        of_step = {"step": jnp.int32(0), "key": key, "dropout_key": key}
        return jax.grad(lambda params: loss_fn(params, batch, **of_step)[0])(params)

    batch = TASKS[task].batch(4, 40)
    closed, shapes = jax.make_jaxpr(gradient, return_shape=True)(params, batch)
    found = zip(named_leaves(shapes), closed.jaxpr.outvars, strict=True)
    dtypes = {name: least_precise(closed.jaxpr, value) for name, value in found}
    assert len(dtypes) > 30
    assert {name for name, dtype in dtypes.items() if dtype != jnp.float32} == set()
    assert "bf16" in str(closed)  # something is computed in bfloat16
