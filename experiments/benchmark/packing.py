"""What padding costs on real windows: ``python -m experiments.benchmark.packing --help``.

The training step of the reader on windows of a prepared split, in three layouts that take turns:
every window padded to the longest bucket, batches of similar length padded to their bucket, and
packed rows (`hardem_jax.data.batching.packing`). Weights are random, windows and their lengths are
real. Each layout makes the steps of its own training plan, new batches in every round, as a run
does; batches are made beforehand, and every program is compiled before anything is measured.

Before measuring, the loss of packed batches without dropout must be that of the same batches
padded, to `steps.packing.TOLERANCE`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from experiments.benchmark.measure import machine, machine_line, wide_console, with_quartiles
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import write_json
from hardem_jax.data.prepared.spans import PreparedSplit, all_windows
from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class Packing:
    """Measure training steps on padded, bucketed and packed windows.

    Attributes:
        data: prepared splits of a reading task; their windows are mixed.
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        batch_size: items, each a window with a mention and one without.
        buckets: lengths of the second layout; the first pads to the last of them.
        packed_tokens: lengths of packed rows.
        dropout: rate, of hidden units and of attention.
        dtype: of the computation in the encoder.
        rounds: turns of every layout.
        steps: training steps in a turn.
        seed: of weights, batches and dropout.
        out: write the measurements here, as JSON.
    """

    data: tuple[Path, ...]
    preset: Literal["tiny", "minilm", "bert-base", "bert-large"] = "minilm"
    layers: int | None = None
    batch_size: int = 8
    buckets: tuple[int, ...] = (64, 128, 192, 256, 300)
    packed_tokens: tuple[int, ...] = (300, 512)
    dropout: float = 0.1
    dtype: Literal["float32", "bfloat16"] = "float32"
    rounds: int = 5
    steps: int = 2
    seed: int = 0
    out: Path | None = None

    def __post_init__(self) -> None:
        counts = ("layers", "batch_size", "buckets", "packed_tokens", "rounds", "steps")
        require(self, *counts, at_least=1)
        require(self, "dropout", at_least=0, below=1)
        require(self, "seed", at_least=0, below=2**32)

    def run(self) -> None:
        from experiments.benchmark.steps import packing as steps  # imports jax

        about = machine()
        windows, _ = all_windows([PreparedSplit(folder) for folder in self.data])
        layouts = {
            name: steps.batches(self, windows, config) for name, config in self._layouts().items()
        }
        differences = steps.check(self, layouts)
        step = steps.training_step(self, self.dropout)
        first = {name: steps.compile_all(step, batches) for name, batches in layouts.items()}
        times = steps.interleave(self, step, layouts)
        results = {
            name: steps.summary(batches, times[name], times[_padded(self.buckets)], self.batch_size)
            | first[name]
            for name, batches in layouts.items()
        }
        about["load_average_after"] = machine()["load_average"]
        content = {
            "flags": flags(self),
            "machine": about,
            "loss_differences": differences,
            "results": results,
        }
        if self.out is not None:
            write_json(self.out, content)
        console = wide_console()
        console.print(_table(results))
        worst = max(differences.values(), default=0.0)
        console.print(f"packed and padded losses differ by at most {worst:.1e}, relative")
        console.print(machine_line(about), highlight=False, markup=False)

    def _layouts(self) -> dict[str, BatchConfig]:
        config = BatchConfig(batch_size=self.batch_size, buckets=self.buckets)
        longest = dataclasses.replace(config, buckets=self.buckets[-1:])
        return {
            _padded(self.buckets): longest,
            "buckets": config,
            **{
                f"packed to {tokens}": dataclasses.replace(longest, packed_tokens=tokens)
                for tokens in self.packed_tokens
            },
        }


def _padded(buckets: Sequence[int]) -> str:
    return f"padded to {buckets[-1]}"


def _table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    drawn = Table(title="Training steps on real windows, new batches in every turn")
    drawn.add_column("rows")
    for name in ("items/s", "real tokens/s", "real tokens, %", "speed, padded = 1", "programs"):
        drawn.add_column(name, justify="right")
    for name, result in results.items():
        drawn.add_row(
            name,
            f"{result['items_per_s']:.2f}",
            f"{result['real_tokens_per_s']:,.0f}",
            f"{100 * result['real_token_share']:.1f}",
            with_quartiles(result["speed"], factor=1, digits=2),
            str(result["programs"]),
        )
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Packing, prog="python -m experiments.benchmark.packing", argv=argv)


if __name__ == "__main__":
    main()
