"""What padding costs on real windows: ``python -m experiments.benchmark.data.packing --help``.

The training step of the reader on windows of a prepared split, in three layouts that take turns:
every window padded to the longest bucket, batches of similar length padded to their bucket, and
packed rows (`hardem_jax.data.batching.packing`). Weights are random, windows and their lengths are
real. Each layout makes the steps of its own training plan, new batches in every round, as a run
does; batches are made beforehand, and every program is compiled before anything is measured.

Before measuring, the loss of packed batches without dropout must be that of the same batches
padded, to `TOLERANCE`.

With ``--measure inference`` every layout answers instead of training, without a gradient: in each
round all read the same windows, the next ones of the split, as `hardem_jax.tasks.trained.Reader`
does, the making of batches and the reading off of answers included. Programs are compiled
beforehand. Packed log-probabilities of the best spans must be those of padded windows, to
`TOLERANCE`.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.benchmark.data.input_pipeline import prepared_batches
from experiments.benchmark.measure import interleave, median_ratio, quartiles, timed
from experiments.benchmark.steps.setting import MIN_TOKENS, Preset, Setting
from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.data.batching.padding import BatchConfig, Subset
from hardem_jax.data.prepared.spans import PreparedSplit, all_windows
from hardem_jax.errors import InputError, require

# Largest relative difference between the losses of packed and of padded rows.
TOLERANCE = 1e-5
CHECKED_STEPS = 2
Batches = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Packing:
    """Measure training steps or inference on padded, bucketed and packed windows.

    Attributes:
        data: prepared splits of a reading task; their windows are mixed.
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        measure: "training" steps, or "inference".
        batch_size: items, each a window with a mention and one without; for inference, half of the
            windows read at once.
        buckets: lengths of the second layout; the first pads to the last of them.
        packed_tokens: lengths of packed rows.
        dropout: rate, of hidden units and of attention.
        rounds: turns of every layout.
        steps: training steps in a turn; for inference, as many windows as these would have.
        out: write the measurements here, as JSON.
    """

    data: tuple[Path, ...]
    preset: Preset = "minilm"
    layers: int | None = None
    measure: Literal["training", "inference"] = "training"
    batch_size: int = 8
    buckets: tuple[int, ...] = (64, 128, 192, 256, 300)
    packed_tokens: tuple[int, ...] = (300, 512)
    dropout: float = 0.1
    rounds: int = 5
    steps: int = 2
    out: Path | None = None

    def __post_init__(self) -> None:
        counts = ("layers", "batch_size", "buckets", "packed_tokens", "rounds", "steps")
        require(self, *counts, at_least=1)
        require(self, "dropout", at_least=0, below=1)

    def run(self) -> None:
        report = Report(self, self.out)
        windows, _ = all_windows([PreparedSplit(folder) for folder in self.data])
        setting = Setting(
            self.preset, self.layers, dropout=self.dropout, tokens=max(MIN_TOKENS, self.buckets[-1])
        )
        if self.measure == "inference":
            self._run_inference(report, windows, setting)
        else:
            self._run_training(report, windows, setting)

    def _configs(self) -> dict[str, BatchConfig]:
        """The layouts, the padded one first."""
        config = BatchConfig(batch_size=self.batch_size, buckets=self.buckets)
        longest = dataclasses.replace(config, buckets=self.buckets[-1:])
        configs = {f"padded to {self.buckets[-1]}": longest, "buckets": config}
        for tokens in self.packed_tokens:
            configs[f"packed to {tokens}"] = dataclasses.replace(longest, packed_tokens=tokens)
        return configs

    def _run_training(self, report: Report, windows: Any, setting: Setting) -> None:
        from experiments.benchmark.steps.jax_steps import TrainingStep  # imports jax

        configs = self._configs()
        padded = next(iter(configs))
        layouts = {name: self._batches(windows, config) for name, config in configs.items()}
        differences = {
            name: check(name, batches, setting)
            for name, batches in layouts.items()
            if "packing" in batches[0]
        }
        step = TrainingStep(setting)
        first = {name: compile_all(step, batches) for name, batches in layouts.items()}
        turns = {
            name: functools.partial(self._turn, step, batches) for name, batches in layouts.items()
        }
        times = interleave(turns, self.rounds)
        results = {
            name: self._summary(batches, times[name], times[padded]) | first[name]
            for name, batches in layouts.items()
        }
        columns = {
            "rows": "rows",
            "items/s": ("items_per_s", 1, 2),
            "real tokens/s": ("real_tokens_per_s", 1, 0),
            "real tokens, %": ("real_token_share", 100, 1),
            "speed, padded = 1": ("speed", 1, 2),
            "programs": "programs",
        }
        rows = [{"rows": name, **result} for name, result in results.items()]
        worst = max(differences.values(), default=0.0)
        report.write(
            {"results": results, "loss_differences": differences},
            table("Training steps on real windows, new batches in every turn", rows, columns),
            f"packed and padded losses differ by at most {worst:.1e}, relative",
        )

    def _run_inference(self, report: Report, windows: Any, setting: Setting) -> None:
        from experiments.benchmark.steps.inference import LayoutReader  # imports jax

        size = 2 * self.batch_size * self.steps
        if len(windows) < self.rounds * size:
            raise InputError(
                f"data: expected at least {self.rounds * size} windows for {self.rounds} rounds, "
                f"found {len(windows)}"
            )
        order = np.random.default_rng(0).permutation(len(windows))[: self.rounds * size]
        parts: list[Any] = [
            Subset(windows, np.sort(part)) for part in order.reshape(self.rounds, size)
        ]
        readers = {
            name: LayoutReader(setting, config, 2 * self.batch_size)
            for name, config in self._configs().items()
        }
        padded = next(iter(readers))
        # Compiles all programs, too; every part may have its own.
        said = {name: [reader.read(part) for part in parts] for name, reader in readers.items()}
        differences = {
            name: max(map(largest_difference, readings, said[padded]))
            for name, readings in said.items()
        }
        worst = max(differences.values())
        if not worst <= TOLERANCE:
            raise RuntimeError(f"log-probabilities of spans differ by {worst}")
        turns = {
            name: lambda index, reader=reader: timed(lambda _: reader.read(parts[index]))["wall_s"]
            for name, reader in readers.items()
        }
        times = interleave(turns, self.rounds)
        results = {
            name: {
                "windows_per_s": self.rounds * size / sum(times[name]),
                "real_token_share": statistics.mean(map(reader.real_share, parts)),
                "seconds": list(times[name]),
                "seconds_per_turn": quartiles(times[name]),
                "speed": median_ratio(times[padded], times[name]),
                "programs": reader.programs(),
            }
            for name, reader in readers.items()
        }
        columns = {
            "rows": "rows",
            "windows/s": ("windows_per_s", 1, 2),
            "real tokens, %": ("real_token_share", 100, 1),
            "speed, padded = 1": ("speed", 1, 2),
            "programs": "programs",
        }
        rows = [{"rows": name, **result} for name, result in results.items()]
        report.write(
            {"results": results, "differences": differences},
            table("Inference on real windows, other windows in every turn", rows, columns),
            f"log-probabilities of spans differ by at most {worst:.1e}",
        )

    def _batches(self, windows: Any, config: BatchConfig) -> Batches:
        """One for each measured step, on the device."""
        from hardem_jax.training.devices.mesh import data_mesh, place_batch

        made = prepared_batches(windows, config, num_steps=self.rounds * self.steps, seed=0)
        return [place_batch(batch.arrays, data_mesh(1)) for batch in made]

    def _turn(self, step: Any, batches: Batches, index: int) -> float:
        """Seconds of the steps of one round."""
        part = batches[index * self.steps :][: self.steps]
        return timed(lambda _: step.run_on(part))["wall_s"]

    def _summary(
        self, batches: Batches, seconds: Sequence[float], padded_seconds: Sequence[float]
    ) -> dict[str, Any]:
        """What the table and the file say about a layout."""
        from hardem_jax.models.encoders.packing import token_metrics

        tokens = [int(batch["where"].sum()) for batch in batches]
        shares = [float(token_metrics(batch)["real_tokens"]) for batch in batches]
        return {
            "items_per_s": len(batches) * self.batch_size / sum(seconds),
            "real_tokens_per_s": sum(tokens) / sum(seconds),
            "real_token_share": statistics.mean(shares),
            "seconds": list(seconds),
            "seconds_per_turn": quartiles(seconds),
            "speed": median_ratio(padded_seconds, seconds),
        }


def check(name: str, batches: Batches, setting: Setting) -> float:
    """Largest relative difference of the first losses of packed rows from those of padded ones.

    Raises:
        RuntimeError: if it is above `TOLERANCE`.
    """
    from experiments.benchmark.steps.jax_steps import TrainingStep

    without_dropout = dataclasses.replace(setting, dropout=0.0)
    padded = [{n: x for n, x in b.items() if n not in ("packing", "unpacking")} for b in batches]
    losses = [
        [loss for loss, _ in TrainingStep(without_dropout).run_on(some[:CHECKED_STEPS])]
        for some in (batches, padded)
    ]
    difference = max(abs(one / other - 1) for one, other in zip(*losses, strict=True))
    if not difference <= TOLERANCE:
        raise RuntimeError(f"{name}: losses differ by {difference}, relative")
    return difference


def largest_difference(one: Mapping[int, Any], other: Mapping[int, Any]) -> float:
    """Of the log-probabilities of the best spans of the same windows, and of their selectors."""
    pairs = [(one[index], other[index]) for index in other]
    return max(
        max(
            abs(a.log_probs[0] - b.log_probs[0]),
            abs(a.log_prob_answerable - b.log_prob_answerable),
        )
        for a, b in pairs
    )


def compile_all(step: Any, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs one batch of every shape; how many shapes there are, and how long that took."""
    shapes = {str({name: x.shape for name, x in batch.items()}): batch for batch in batches}
    began = time.perf_counter()
    step.run_on(shapes.values())
    return {"programs": len(shapes), "compile_s": time.perf_counter() - began}


def main(argv: Sequence[str] | None = None) -> None:
    run_command(Packing, prog="python -m experiments.benchmark.data.packing", argv=argv)


if __name__ == "__main__":
    main()
