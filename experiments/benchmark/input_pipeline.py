"""How fast batches are made: ``python -m experiments.benchmark.input_pipeline --help``.

Windows of prepared splits are read, padded or packed, and handed over as in training, with nothing
to train: the rate that the training step must stay below so that it never waits. What a run really
waits is the metric ``input_wait`` in its ``metrics.jsonl``.
"""

import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from experiments.benchmark.measure import machine, machine_line, quartiles, wide_console
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.batching.plans import TrainingPlan, training_batches
from hardem_jax.data.files import write_json
from hardem_jax.data.inputs.windows import pad_windows
from hardem_jax.data.prepared.spans import PreparedSplit, all_windows
from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class InputPipeline:
    """Make training batches and do nothing with them.

    Attributes:
        data: prepared splits of a reading task; their windows are mixed.
        batches: their shapes.
        steps: batches of a turn; at most an epoch.
        rounds: turns of padded and of packed batches.
        packed_tokens: length of packed rows.
        seed: of the plan.
        out: write the measurements here, as JSON.
    """

    data: tuple[Path, ...]
    batches: BatchConfig = BatchConfig(batch_size=16)
    steps: int = 200
    rounds: int = 5
    packed_tokens: int = 512
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "steps", "rounds", "packed_tokens", at_least=1)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        about = machine()
        windows, _ = all_windows([PreparedSplit(folder) for folder in self.data])
        layouts = {
            "in buckets": dataclasses.replace(self.batches, packed_tokens=None),
            "packed": dataclasses.replace(self.batches, packed_tokens=self.packed_tokens),
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in layouts}
        for turn in range(self.rounds + 1):  # in the first, files are cold
            for name, config in layouts.items():
                measured[name].append(self._turn(windows, config, seed=self.seed + turn))
        about["load_average_after"] = machine()["load_average"]
        results = {name: self._summary(values[1:]) for name, values in measured.items()}
        if self.out is not None:
            write_json(self.out, {"flags": flags(self), "machine": about, "results": results})
        console = wide_console()
        console.print(_table(results))
        console.print(machine_line(about), highlight=False, markup=False)

    def _turn(self, windows: Any, config: BatchConfig, *, seed: int) -> tuple[float, float]:
        """Seconds on the clock and of CPU for all batches of a plan."""
        plan = TrainingPlan(windows.sizes, config, num_steps=self.steps, seed=seed)
        plan[0]  # lays out the epoch, once
        num_solutions = config.num_solutions(windows.sizes)
        pad = functools.partial(pad_windows, num_solutions=num_solutions, pad_id=0)
        # To the end of the plan: what is read ahead is read for these.
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in training_batches(windows, plan, pad=pad):
            pass
        return time.perf_counter() - wall, time.process_time() - cpu

    def _summary(self, values: Sequence[tuple[float, float]]) -> dict[str, Any]:
        wall = quartiles([self.steps / seconds for seconds, _ in values])
        return {
            "batches_per_s": wall,
            "items_per_s": self.batches.batch_size * wall["median"],
            "cpu_ms_per_batch": 1000 * sum(cpu for _, cpu in values) / self.steps / self.rounds,
        }


def _table(results: dict[str, dict[str, Any]]) -> Table:
    drawn = Table(title="Training batches, read and made (one window with a mention, one without)")
    drawn.add_column("rows")
    for name in ("batches/s", "items/s", "CPU ms a batch"):
        drawn.add_column(name, justify="right")
    for name, result in results.items():
        drawn.add_row(
            name,
            f"{result['batches_per_s']['median']:.0f}",
            f"{result['items_per_s']:.0f}",
            f"{result['cpu_ms_per_batch']:.1f}",
        )
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    run_command(InputPipeline, prog="python -m experiments.benchmark.input_pipeline", argv=argv)


if __name__ == "__main__":
    main()
