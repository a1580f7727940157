"""Prefetching, compiling ahead, and the timings logged for both."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.data.batching.padding import Batch
from hardem_jax.training.loop import LoopConfig, NonFiniteLossError
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.metrics_log import RunLog
from hardem_jax.training.run_progress import RunProgress, read_metrics
from tests.training import toy_problem as toy

CONFIG = LoopConfig(num_steps=6, monitor="score", progress=False, log_every=2)


def run(folder, **changes):
    own = {"evaluate": lambda params: {"score": 0.0}, "mesh": data_mesh(2)}
    return toy.run(folder, config=CONFIG, **own | changes)


def written(folder, kind):
    return [line for line in read_metrics(folder) if line["kind"] == kind]


@pytest.mark.parametrize(("broken", "fetched"), [(1, 1), (2, 3), (4, 5), (6, 6)])
def test_the_next_batch_is_fetched_while_the_device_computes(tmp_path, broken, fetched):
    """Nothing waits for the result of a step before the batch of the next one is placed.

    The first step is waited for, to tell how long it took, and so is the last.
    """
    drawn = []

    def loss_fn(params, batch, *, step, **keys):
        loss, metrics = toy.loss_fn(params, batch, step=step, **keys)
        return jnp.where(step == broken - 1, jnp.nan, loss), metrics

    batches = toy.observed(toy.batches(), lambda before: drawn.append(before + 1))
    with pytest.raises(NonFiniteLossError, match=f"^step {broken}:"):
        run(tmp_path, loss_fn=loss_fn, batches=batches, mesh=data_mesh(1))
    assert drawn == [*range(1, fetched + 1)]


def test_the_share_of_waiting_leaves_out_evaluations_and_the_first_step(tmp_path):
    now = 100.0
    log = RunLog(tmp_path, CONFIG, 0, RunProgress(), began=90.0, clock=lambda: now)

    def spend(context, seconds):
        nonlocal now
        with context:
            now += seconds

    spend(log.waiting(), 7.0)
    log.first_step(1, compiling=2.0, first=8.0)
    for step, (waiting, computing, evaluating) in enumerate([(1, 3, 50), (2, 2, 0), (0, 4, 9)]):
        spend(log.waiting(), waiting)
        now += computing
        log.step(step + 1, {"loss": 1.0})
        spend(log.paused(), evaluating)
    spend(log.waiting(), 1.0)
    log.step(4, {"loss": 1.0})
    log.close()
    shares = [(line["step"], line["input_wait"]) for line in written(tmp_path, "train")]
    assert shares == [(2, pytest.approx(3 / 8)), (4, pytest.approx(1 / 5))]
    [start] = written(tmp_path, "start")
    assert start == {"step": 1, "kind": "start", "time_to_first_step": 17.0,
                     "compiled_ahead": 2.0, "first_step": 8.0}  # fmt: skip


@pytest.mark.slow
def test_every_shape_is_compiled_before_the_first_step_and_never_again(tmp_path, caplog):
    main = threading.get_ident()

    def two_shapes():
        small, large = (next(toy.batches(batch_size=size)) for size in (8, 16))

        class Alternating(type(toy.batches())):
            def __next__(self):
                super().__next__()
                return (small, large)[self.get_state()["next_index"] % 2]

        iterator = toy.batches()
        iterator.__class__ = Alternating
        return iterator

    # Example batches share only their shapes with the real ones.
    examples = [
        Batch([], {"x": np.zeros((rows, 4), np.float32), "y": np.zeros(rows, np.float32)})
        for rows in (8, 16)
    ]
    jax.config.update("jax_log_compiles", True)  # of all threads
    try:
        run(tmp_path / "ahead", batches=two_shapes(), example_batches=examples)
        assert toy.count_compilations(caplog) == 2
        ahead = [r for r in caplog.records if "compilation of jit(train_step)" in r.getMessage()]
        assert all(record.thread != main for record in ahead)
        caplog.clear()
        run(tmp_path / "ahead", batches=two_shapes(), example_batches=examples)  # has ended
        assert toy.count_compilations(caplog) == 0
    finally:
        jax.config.update("jax_log_compiles", False)
    [start] = written(tmp_path / "ahead", "start")
    assert 0 < start["compiled_ahead"] + start["first_step"] <= start["time_to_first_step"]
    assert all(0 <= line["input_wait"] <= 1 for line in written(tmp_path / "ahead", "train"))
