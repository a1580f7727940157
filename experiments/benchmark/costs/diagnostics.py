"""What the diagnostics of z cost: ``python -m experiments.benchmark.costs.diagnostics --help``.

The whole step of hard EM, without and with the memory of every input that tells whether its best z
changed, and the true z whose rank is measured. Steps take turns, and the step without them is
there twice, built before and after the other, because the one that is built later is the slower
one on a CPU.
"""

import dataclasses
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rich.table import Table

from experiments.benchmark.measure import by_measure, interleave, quartiles, timed
from experiments.benchmark.steps.setting import Setting, StepFlags
from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.errors import require

WITHOUT, WITH, WITHOUT_AGAIN = "without", "with", "without, again"
_CLOCKS = {"wall clock": "wall_s", "CPU time": "cpu_s"}


@dataclasses.dataclass(frozen=True)
class DiagnosticsCost(StepFlags):
    """Measure what the diagnostics of z add to the training step of a reader.

    Attributes:
        tokens: T.
        inputs: N, inputs of the run, each of which has a memory.
        rounds: turns of every step.
        steps: training steps in a turn.
    """

    tokens: int = 128
    inputs: int = 100_000
    rounds: int = 20
    steps: int = 5

    def __post_init__(self) -> None:
        self.setting(tokens=self.tokens)  # checks the others
        require(self, "tokens", "rounds", "steps", at_least=1)
        require(self, "inputs", at_least=self.rows * self.accumulate)

    def run(self) -> None:
        report, setting = Report(self, self.out), self.setting(tokens=self.tokens)
        order = (WITHOUT, WITH, WITHOUT_AGAIN)
        steps = {name: _step(setting, self.inputs * (name == WITH)) for name in order}
        turns = {name: lambda _, run=run: timed(run, self.steps) for name, run in steps.items()}
        times = {n: by_measure(found) for n, found in interleave(turns, self.rounds).items()}
        results: dict[str, Any] = {}
        for measure in _CLOCKS.values():
            twice = zip(times[WITHOUT][measure], times[WITHOUT_AGAIN][measure], strict=True)
            before = [statistics.mean(both) for both in twice]
            growth = [b / a - 1 for a, b in zip(before, times[WITH][measure], strict=True)]
            results[measure] = {
                WITHOUT: quartiles(before),
                WITH: quartiles(times[WITH][measure]),
                "growth": quartiles(growth),
            }
        report.write(results, _table(results))


def _step(setting: Setting, num_inputs: int) -> Callable[[int], dict[str, Any]]:
    """Runs training steps, after the first: without diagnostics if there are no inputs.

    What it returns takes their number, and gives the metrics of the last.
    """
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from experiments.benchmark.steps.jax_steps import (
        make_encoder,
        prepare_jax,
        step_batch,
        uncompiled,
    )
    from experiments.benchmark.steps.tasks import TASKS
    from hardem_jax.objectives import HardEM
    from hardem_jax.tasks.z_visits import first_memory
    from hardem_jax.training.devices.mesh import data_mesh, place_batch
    from hardem_jax.training.state import init_state
    from hardem_jax.training.step import compile_train_step

    prepare_jax(setting)
    task, mesh = TASKS[setting.task], data_mesh(1, fsdp=setting.fsdp)
    dtype: Any = jnp.dtype(setting.dtype)
    model = task.model(make_encoder(setting, dtype=dtype, attention=setting.attention))
    graphdef, params = nnx.split(model, nnx.Param)
    k = setting.accumulate
    step, optimizer = uncompiled(task.make_loss(graphdef, HardEM()), params, k)
    batch, memory = step_batch(setting), {}
    if num_inputs:
        memory = first_memory(num_inputs)
        rows = np.arange(setting.examples, dtype=np.int32)
        batch["item"] = rows if k == 1 else rows.reshape(k, setting.rows)
        batch["true_solution"] = np.zeros_like(batch["item"])
    state = init_state(params, optimizer, 0, mesh, memory)
    compiled = compile_train_step(step, mesh)

    def run(count: int) -> dict[str, Any]:
        nonlocal state
        metrics = {}
        for _ in range(count):
            # As the training loop does: the batch comes from the host, the metrics go there.
            state, metrics = compiled(state, place_batch(batch, mesh, accumulate=k))
            metrics = jax.device_get(metrics)
        return metrics

    run(1)
    return run


def _table(results: Mapping[str, Any]) -> Table:
    rows = [{"": name, **results[key]} for name, key in _CLOCKS.items()]
    columns = {
        "": "",
        "ms without": (WITHOUT, 1000, 2),
        "ms with": (WITH, 1000, 2),
        "longer by %": ("growth", 100, 2),
    }
    return table("Whole step of hard EM, medians (quartiles)", rows, columns)


if __name__ == "__main__":
    run_command(DiagnosticsCost, prog="python -m experiments.benchmark.costs.diagnostics")
