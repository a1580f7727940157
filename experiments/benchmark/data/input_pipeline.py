"""How fast batches are made: ``python -m experiments.benchmark.data.input_pipeline --help``.

Windows of prepared splits are read, padded or packed, and handed over as in training, with nothing
to train: the rate that the training step must stay below so that it never waits. What a run really
waits is the metric ``input_wait`` in its ``metrics.jsonl``.
"""

import collections
import dataclasses
import functools
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmark.measure import interleave, quartiles, timed
from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.batching.padding import Batch, BatchConfig
from hardem_jax.data.batching.plans import TrainingPlan, training_batches
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
        out: write the measurements here, as JSON.
    """

    data: tuple[Path, ...]
    batches: BatchConfig = BatchConfig(batch_size=16)
    steps: int = 200
    rounds: int = 5
    packed_tokens: int = 512
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "steps", "rounds", "packed_tokens", at_least=1)

    def run(self) -> None:
        report = Report(self, self.out)
        windows, _ = all_windows([PreparedSplit(folder) for folder in self.data])
        turns = {
            name: functools.partial(
                self._turn, windows, dataclasses.replace(self.batches, packed_tokens=packed)
            )
            for name, packed in (("in buckets", None), ("packed", self.packed_tokens))
        }
        # In the first round, files are cold.
        measured = interleave(turns, self.rounds + 1)
        results = {name: self._summary(values[1:]) for name, values in measured.items()}
        columns = {
            "rows": "rows",
            "batches/s": ("batches_per_s", 1, 0),
            "items/s": ("items_per_s", 1, 0),
            "CPU ms a batch": ("cpu_ms_per_batch", 1, 1),
        }
        title = "Training batches, read and made (one window with a mention, one without)"
        rows = [{"rows": name, **result} for name, result in results.items()]
        report.write({"results": results}, table(title, rows, columns))

    def _turn(self, windows: Any, config: BatchConfig, seed: int) -> dict[str, float]:
        """Seconds on the clock and of CPU for all batches of a plan."""
        batches = prepared_batches(windows, config, num_steps=self.steps, seed=seed)
        # To the end of the plan: what is read ahead is read for these.
        return timed(lambda _: collections.deque(batches, maxlen=0))

    def _summary(self, values: Sequence[dict[str, float]]) -> dict[str, Any]:
        rates = quartiles([self.steps / turn["wall_s"] for turn in values])
        return {
            "batches_per_s": rates,
            "items_per_s": self.batches.batch_size * rates["median"],
            "cpu_ms_per_batch": 1000 * statistics.mean(t["cpu_s"] for t in values) / self.steps,
        }


def prepared_batches(
    windows: Any, config: BatchConfig, *, num_steps: int, seed: int
) -> Iterable[Batch]:
    """The batches of a plan, made when iterated; its first epoch is laid out beforehand."""
    plan = TrainingPlan(windows.sizes, config, num_steps=num_steps, seed=seed)
    plan[0]
    num_solutions = config.num_solutions(windows.sizes)
    pad = functools.partial(pad_windows, num_solutions=num_solutions, pad_id=0)
    return training_batches(windows, plan, pad=pad)


def main(argv: Sequence[str] | None = None) -> None:
    run_command(
        InputPipeline, prog="python -m experiments.benchmark.data.input_pipeline", argv=argv
    )


if __name__ == "__main__":
    main()
