"""What the loss costs by |Z|: ``python -m experiments.benchmark.loss_cost --help``.

Two answers. First, everything that depends on Z on its own: softmax, gathering of the
solutions, objective, and their gradient, for every objective and size of Z, as a share of the
whole training step. Being called on its own it pays for the call, which inside a step it does not:
an upper bound. Second, the whole step of hard EM with a small and a large Z, in turns: the
difference is the cost of the larger Z, as exactly as the machine is quiet. The step that is built
later is the slower one, whatever its Z (by 4 to 8 % on a CPU): so the smaller Z is there twice,
built before and after the larger.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from experiments.benchmark.measure import (
    Times,
    interleave,
    machine_line,
    measure_all,
    median_ratio,
    quartiles,
    wide_console,
    with_quartiles,
)
from experiments.benchmark.steps.setting import OBJECTIVES, BenchmarkFlags, Setting
from experiments.benchmark.steps.worker import Worker, WorkerError, worker_pool
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError, require

FEW, MANY, FEW_AGAIN = "step, smaller |Z|", "step, larger |Z|", "step, smaller |Z| again"


@dataclasses.dataclass(frozen=True)
class LossCost(BenchmarkFlags):
    """Measure what the loss costs by |Z|, by itself and within the training step.

    Attributes:
        task: "spans" of a reader, "equations" of a tagger as a product over tags,
            "normalized-equations" as a softmax over Z_tot, "queries" of SQLova.
        solutions: sizes of Z for the loss by itself.
        compare: smaller and larger Z of the whole step.
        calls: calls of the loss in a turn.
    """

    task: Literal["spans", "equations", "normalized-equations", "queries"] = "spans"
    solutions: tuple[int, ...] = (1, 32, 512, 2000)
    compare: tuple[int, int] = (1, 512)
    calls: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "solutions", "compare", "calls", at_least=1)
        for name in ("solutions", "compare"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise InputError(f"{name}: expected distinct sizes, found {values}")

    def run(self) -> None:
        settings = [dataclasses.replace(s, task=self.task) for s in self.settings(self.compare[0])]
        content = measure_all(self, settings, self._measure)
        console = wide_console()
        for result in content["results"]:
            console.print(alone_table(result), whole_table(result))
        console.print(machine_line(content["machine"]), highlight=False, markup=False)

    def _measure(self, setting: Setting, folder: Path) -> dict[str, Any]:
        """All sizes at one length, in one process."""
        turns: dict[str, tuple[Worker, int]] = {}
        with worker_pool(folder, device=self.device, threads=self.threads) as new_worker:
            worker = new_worker()

            def build(name: str, variant: str, solutions: int, steps: int) -> None:
                worker.build(name, variant, dataclasses.replace(setting, solutions=solutions))
                turns[name] = worker, steps

            try:
                few, many = self.compare
                for name, size in {FEW: few, MANY: many, FEW_AGAIN: few}.items():
                    build(name, "ours", size, self.steps)
                for objective in OBJECTIVES:
                    for size in self.solutions:
                        name = f"{objective}, |Z| = {size}"
                        build(name, f"loss {objective}", size, self.calls)
                libraries = worker.ask("describe")
            except WorkerError as error:
                raise InputError(f"nothing could be measured: {error}") from error
            times = interleave(turns, rounds=self.rounds, label=f"T={setting.tokens}")
        small, large = mean_of(times[FEW], times[FEW_AGAIN]), times[MANY]
        return {
            "task": setting.task,
            "tokens": setting.tokens,
            "libraries": libraries,
            "rounds": {name: dataclasses.asdict(t) for name, t in times.items()},
            "alone": [
                {"objective": objective, "solutions": size}
                | share_of(times[f"{objective}, |Z| = {size}"], small)
                for objective in OBJECTIVES
                for size in self.solutions
            ],
            "whole": {"solutions": list(self.compare)} | growth(small, large),
        }


def mean_of(one: Times, other: Times) -> Times:
    """Round by round.

    Example:
        >>> mean_of(Times([1.0], [2.0]), Times([3.0], [2.0]))
        Times(wall_s=[2.0], cpu_s=[2.0], peak_mib=None)
    """
    wall = [(a + b) / 2 for a, b in zip(one.wall_s, other.wall_s, strict=True)]
    cpu = [(a + b) / 2 for a, b in zip(one.cpu_s, other.cpu_s, strict=True)]
    return Times(wall, cpu)


def share_of(part: Times, whole: Times) -> dict[str, Any]:
    """Seconds of a part, and its share of a whole step, within rounds."""
    return {
        "wall_s": quartiles(part.wall_s),
        "cpu_s": quartiles(part.cpu_s),
        "share_wall": median_ratio(part.wall_s, whole.wall_s),
        "share_cpu": median_ratio(part.cpu_s, whole.cpu_s),
    }


def growth(small: Times, large: Times) -> dict[str, Any]:
    """Seconds of both steps, and by what part the second takes longer, within rounds.

    Example:
        >>> growth(Times([2.0], [4.0]), Times([2.5], [4.0]))["growth_wall"]["median"]
        0.25
    """
    result: dict[str, Any] = {}
    for measure in ("wall", "cpu"):
        one, other = getattr(small, f"{measure}_s"), getattr(large, f"{measure}_s")
        result[f"{measure}_s"] = [quartiles(one), quartiles(other)]
        more = median_ratio(other, one)
        result[f"growth_{measure}"] = {name: value - 1 for name, value in more.items()}
    return result


def alone_table(result: dict[str, Any]) -> Table:
    """The loss by itself: a row for every objective and size."""
    table = Table(title=f"Loss and gradient alone, {_what(result)}, medians (quartiles)")
    table.add_column("objective")
    for name in ("|Z|", "µs", "CPU µs", "% of the step", "% of its CPU time"):
        table.add_column(name, justify="right")
    for row in result["alone"]:
        table.add_row(
            row["objective"],
            str(row["solutions"]),
            with_quartiles(row["wall_s"], factor=1e6, digits=0),
            with_quartiles(row["cpu_s"], factor=1e6, digits=0),
            with_quartiles(row["share_wall"], factor=100, digits=2),
            with_quartiles(row["share_cpu"], factor=100, digits=2),
        )
        if row["solutions"] == result["alone"][-1]["solutions"]:
            table.add_section()
    return table


def whole_table(result: dict[str, Any]) -> Table:
    """The whole step with the smaller and the larger Z."""
    whole = result["whole"]
    small, large = whole["solutions"]
    table = Table(title=f"Whole step of hard EM, {_what(result)}, medians (quartiles)")
    for name in ("", f"ms, |Z| = {small}", f"ms, |Z| = {large}", "longer by %"):
        table.add_column(name, justify="right")
    for name, measure in {"wall clock": "wall", "CPU time": "cpu"}.items():
        table.add_row(
            name,
            *(with_quartiles(x, factor=1000, digits=0) for x in whole[f"{measure}_s"]),
            with_quartiles(whole[f"growth_{measure}"], factor=100, digits=2),
        )
    return table


def _what(result: dict[str, Any]) -> str:
    return f"{result['task']}, T = {result['tokens']}"


def main(argv: Sequence[str] | None = None) -> None:
    run_command(LossCost, prog="python -m experiments.benchmark.loss_cost", argv=argv)


if __name__ == "__main__":
    main()
