"""What padding costs on real windows: ``python -m experiments.benchmark.packing --help``.

The training step of the reader on windows of a prepared split, in three layouts that take turns:
every window padded to the longest bucket, batches of similar length padded to their bucket, and
packed rows (`hardem_jax.data.packing`). Weights are random, windows and their lengths are real.
Each layout makes the steps of its own training plan, new batches in every round, as a run does;
batches are made beforehand, and every program is compiled before anything is measured.

Before measuring, the loss of packed batches without dropout must be that of the same batches
padded, to `TOLERANCE`.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from rich.progress import track
from rich.table import Table

from experiments.benchmark.measure import (
    machine,
    machine_line,
    median_ratio,
    quartiles,
    wide_console,
    with_quartiles,
)
from experiments.benchmark.ours import OPTIMIZER_CONFIG, bert_config
from experiments.benchmark.setting import NUM_STEPS, sizes_of
from experiments.cli import flags, run_command
from hardem_jax.data.batches import BatchConfig
from hardem_jax.data.plans import TrainingPlan, training_batches
from hardem_jax.data.prepared import PreparedSplit, all_windows
from hardem_jax.data.records import write_json
from hardem_jax.data.windows import pad_windows
from hardem_jax.errors import require
from hardem_jax.models.bert import Bert
from hardem_jax.models.packing import real_token_share
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import HardEM
from hardem_jax.tasks.span_qa import make_loss
from hardem_jax.training.mesh import data_mesh, place_batch, split_ids
from hardem_jax.training.optimizer import learning_rate_schedule, make_optimizer
from hardem_jax.training.state import init_state
from hardem_jax.training.step import compile_train_step, make_train_step

# Largest relative difference between the losses of packed and of padded rows.
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}
CHECKED_STEPS = 2


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
        about = machine()
        windows, _ = all_windows([PreparedSplit(folder) for folder in self.data])
        layouts = {name: self._batches(windows, config) for name, config in self._layouts().items()}
        differences = self._check(layouts)
        step = self._step(self.dropout)
        first = {name: _compile(step, batches) for name, batches in layouts.items()}
        times = self._interleave(step, layouts)
        results = {
            name: _summary(batches, times[name], times[_padded(self.buckets)], self.batch_size)
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

    def _batches(self, windows: Any, config: BatchConfig) -> list[dict[str, jax.Array]]:
        """One for each measured step, on the device."""
        plan = TrainingPlan(
            windows.sizes, config, num_steps=self.rounds * self.steps, seed=self.seed
        )
        num_solutions = config.num_solutions(windows.sizes)
        pad = functools.partial(pad_windows, num_solutions=num_solutions, pad_id=0)
        mesh = data_mesh(1)
        return [
            place_batch(split_ids(batch)[1], mesh)
            for batch in training_batches(windows, plan, pad=pad)
        ]

    def _step(self, dropout: float) -> Callable[[Mapping[str, jax.Array]], dict[str, jax.Array]]:
        """Makes a training step on a batch; the state is its own."""
        rates = {"hidden_dropout": dropout, "attention_dropout": dropout}
        positions = max(512, self.buckets[-1])
        config = bert_config(sizes_of(self.preset, self.layers), positions, **rates)
        encoder = Bert(config, rngs=nnx.Rngs(self.seed), dtype=jnp.dtype(self.dtype))
        graphdef, params = nnx.split(SpanReader(encoder, rngs=nnx.Rngs(self.seed)), nnx.Param)
        mesh = data_mesh(1)
        optimizer = make_optimizer(OPTIMIZER_CONFIG, params, NUM_STEPS)
        schedule = learning_rate_schedule(OPTIMIZER_CONFIG, NUM_STEPS)
        train_step = compile_train_step(
            make_train_step(make_loss(graphdef, HardEM()), optimizer, schedule), mesh
        )
        state = init_state(params, optimizer, self.seed, mesh)

        def step(batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
            nonlocal state
            state, metrics = train_step(state, batch)
            return metrics

        return step

    def _check(self, layouts: Mapping[str, list[dict[str, jax.Array]]]) -> dict[str, float]:
        """Largest relative difference of the first losses of each packed layout from padded ones.

        Raises:
            RuntimeError: if one is above `TOLERANCE`.
        """
        differences = {}
        for name, batches in layouts.items():
            if "packing" not in batches[0]:
                continue
            # Both make the same updates in turn.
            packed_step, padded_step = self._step(0.0), self._step(0.0)
            found = []
            for batch in batches[:CHECKED_STEPS]:
                padded = {n: x for n, x in batch.items() if n not in ("packing", "unpacking")}
                one, other = packed_step(batch), padded_step(padded)
                found.append(abs(float(one["loss"]) / float(other["loss"]) - 1))
            differences[name] = max(found)
            if not differences[name] <= TOLERANCE[self.dtype]:
                raise RuntimeError(f"{name}: losses differ by {differences[name]}, relative")
        return differences

    def _interleave(
        self, step: Callable[..., Any], layouts: Mapping[str, list[dict[str, jax.Array]]]
    ) -> dict[str, list[float]]:
        """Seconds of each turn."""
        names = list(layouts)
        times: dict[str, list[float]] = {name: [] for name in names}
        for index in track(range(self.rounds), "measuring", transient=True):
            begin = index % len(names)
            for name in names[begin:] + names[:begin]:
                began = time.perf_counter()
                for batch in layouts[name][index * self.steps :][: self.steps]:
                    metrics = step(batch)
                jax.block_until_ready(metrics)
                times[name].append(time.perf_counter() - began)
        return times


def _padded(buckets: Sequence[int]) -> str:
    return f"padded to {buckets[-1]}"


def _compile(step: Callable[..., Any], batches: Sequence[Mapping[str, jax.Array]]) -> dict:
    """Runs one batch of every shape; how many shapes there are, and how long that took."""
    shapes = {str(jax.tree.map(jnp.shape, batch)): batch for batch in batches}
    began = time.perf_counter()
    for batch in shapes.values():
        jax.block_until_ready(step(batch))
    return {"programs": len(shapes), "compile_s": time.perf_counter() - began}


def _summary(
    batches: Sequence[Mapping[str, jax.Array]],
    seconds: Sequence[float],
    padded_seconds: Sequence[float],
    batch_size: int,
) -> dict[str, Any]:
    shares = [float(real_token_share(batch)) for batch in batches]
    tokens = [int(batch["where"].sum()) for batch in batches]
    return {
        "items_per_s": len(batches) * batch_size / sum(seconds),
        "real_tokens_per_s": sum(tokens) / sum(seconds),
        "real_token_share": statistics.mean(shares),
        "seconds": list(seconds),
        "seconds_per_turn": quartiles(seconds),
        "speed": median_ratio(padded_seconds, seconds),
    }


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
