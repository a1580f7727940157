"""Compiles attention and its gradient for TPUs that are not here; prints what it found."""

import json
import os
import sys

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from hardem_jax.encoders.ops.attention import attention, kernels

# So many on each of four chips that scores do not fit beside its registers.
ROWS, LENGTH = 8, 512


def main():
    topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    mesh = Mesh(np.array(topology.devices), ("data",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    x = jax.ShapeDtypeStruct((4 * ROWS, LENGTH, 12, 64), jnp.bfloat16, sharding=rows)
    where = jax.ShapeDtypeStruct((4 * ROWS, LENGTH), jnp.bool_, sharding=rows)
    found = {}
    for name in sys.argv[1:]:

        def gradients(q, k, v, where, weight, name=name):
            def attend(q, k, v):
                return attention(q, k, v, where=where, implementation=name)

            out, vjp = jax.vjp(attend, q, k, v)
            return out, vjp(weight)

        compiled = jax.jit(gradients).lower(x, x, x, where, x).compile()
        program = compiled.as_text()
        found[name] = {
            "kernels": kernels(program),
            "memory": compiled.memory_analysis().temp_size_in_bytes,
            "gathers": "all-gather" in program,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
