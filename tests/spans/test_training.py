"""The real reader in the real step: compilations, devices, precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax import HardEM
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.windows import Window
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.spans.model import SpanReader
from hardem_jax.spans.task import make_span_loss
from hardem_jax.training.mesh import data_mesh, place_batch
from hardem_jax.training.optimizer import OptimizerConfig, make_optimizer
from hardem_jax.training.state import init_state, named_leaves
from hardem_jax.training.step import compile_train_step, make_train_step
from tests.marks import slow
from tests.training.toy_problem import count_compilations

CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)
STEPS = 4


def window(rng, mentions):
    length = int(rng.integers(9, 15))
    places = np.arange(length - 5)
    first = 4 + rng.choice(length - 6, mentions, replace=False)
    return Window(
        example_id=f"q{rng.integers(1000)}",
        document=0,
        text="x" * length,
        text_start=0,
        token_ids=rng.integers(4, 50, length),
        context_start=4,
        offsets=np.stack([places, places + 1], axis=1),
        solutions=np.stack([np.sort(first), np.sort(first)], axis=1).reshape(-1, 2),
    )


def batches(buckets=(16,)):
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        windows = [window(rng, mentions=2) for _ in range(8)] + [window(rng, 0) for _ in range(8)]
        yield pad_windows(windows, buckets[step % len(buckets)], num_solutions=4, pad_id=0)


def run(objective, num_devices, **options):
    """Losses of some steps, which of them were hard, and the parameters after them."""
    mesh = data_mesh(num_devices)
    reader = SpanReader(Bert(CONFIG, rngs=nnx.Rngs(0), dtype=options.pop("dtype", jnp.float32)),
                        rngs=nnx.Rngs(1))  # fmt: skip
    graphdef, params = nnx.split(reader, nnx.Param)
    optimizer = make_optimizer(OptimizerConfig(learning_rate=1e-2), params, STEPS)
    state = init_state(params, optimizer, seed=7, mesh=mesh)
    step = compile_train_step(make_train_step(make_span_loss(graphdef, objective), optimizer), mesh)
    losses, hard = [], []
    for batch in batches(**options):
        state, metrics = step(state, place_batch(batch, mesh))
        losses.append(float(metrics["loss"]))
        hard.append(float(metrics.get("hard", jnp.nan)))
    return losses, hard, named_leaves(state.params)


# A softmax does not see what is added to all of its inputs, so that the gradient of these biases
# is rounding noise around zero, which Adam scales up to full steps.
WITHOUT_GRADIENT = ("span_scores.bias", "key.bias")


@pytest.mark.slow
def test_one_device_and_eight_train_alike_dropout_and_annealing_included():
    one = run(HardEM(tau=3), 1)
    eight = run(HardEM(tau=3), 8)
    np.testing.assert_allclose(eight[0], one[0], rtol=2e-6)
    assert eight[1] == one[1]
    for name, expected in one[2].items():
        if not name.endswith(WITHOUT_GRADIENT):
            np.testing.assert_allclose(eight[2][name], expected, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("buckets", [[16, 24], *slow([16])])
def test_one_compilation_per_bucket_and_none_for_annealing(buckets, caplog):
    with jax.log_compiles():
        _, hard, _ = run(HardEM(tau=3), 2, buckets=buckets)
    assert count_compilations(caplog) == len(buckets)
    assert hard[0] == 0 and hard[3] == 1  # both objectives were taken by the one program
