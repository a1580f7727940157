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
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from experiments.benchmark.measure import (
    by_measure,
    interleave,
    machine,
    median_ratio,
    quartiles,
    report,
    table,
    timed,
    with_quartiles,
)
from experiments.benchmark.setting import Setting, StepFlags
from experiments.benchmark.workers import Step, first_step
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError, require
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective

OBJECTIVES: dict[str, Objective] = {
    "first-only": FirstOnly(),
    "mml": MML(),
    "hard-em": HardEM(),
    "hard-em, annealed": HardEM(tau=10_000),
}
FEW, MANY, FEW_AGAIN = "step, smaller |Z|", "step, larger |Z|", "step, smaller |Z| again"
Times = Mapping[str, list[float]]


@dataclasses.dataclass(frozen=True)
class LossCost(StepFlags):
    """Measure what the loss costs by |Z|, by itself and within the training step.

    Attributes:
        tokens: T, one or several.
        task: "spans" of a reader, "equations" of a tagger as a product over tags,
            "normalized-equations" as a softmax over Z_tot, "queries" of SQLova.
        solutions: sizes of Z for the loss by itself.
        compare: smaller and larger Z of the whole step.
        rounds: turns of every step and loss.
        steps: training steps in a turn.
        calls: calls of the loss in a turn.
    """

    tokens: tuple[int, ...] = (128, 300)
    task: Literal["spans", "equations", "normalized-equations", "queries"] = "spans"
    solutions: tuple[int, ...] = (1, 32, 512, 2000)
    compare: tuple[int, int] = (1, 512)
    rounds: int = 10
    steps: int = 3
    calls: int = 50

    def __post_init__(self) -> None:
        require(self, "solutions", "compare", "rounds", "steps", "calls", at_least=1)
        for name in ("tokens", "solutions", "compare"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise InputError(f"{name}: expected distinct sizes, found {values}")
        self._settings()

    def _settings(self) -> list[Setting]:
        few = self.compare[0]
        return [self.setting(tokens=n, task=self.task, solutions=few) for n in self.tokens]

    def run(self) -> None:
        about = machine()
        results = [self._measure(setting) for setting in self._settings()]
        tables = [draw(result) for result in results for draw in (alone_table, whole_table)]
        report(self, about, {"results": results}, *tables)

    def _measure(self, setting: Setting) -> dict[str, Any]:
        """All sizes at one length, in one process."""
        from experiments.benchmark.jax_steps import LossStep, TrainingStep, versions  # imports jax

        few, many = self.compare
        steps: dict[str, tuple[Step, int]] = {}
        for name, size in {FEW: few, MANY: many, FEW_AGAIN: few}.items():
            step = TrainingStep(dataclasses.replace(setting, solutions=size))
            steps[name] = step, self.steps
            first_step(step)
        losses = {
            (name, size): f"{name}, |Z| = {size}" for name in OBJECTIVES for size in self.solutions
        }
        for (objective, size), name in losses.items():
            step = LossStep(dataclasses.replace(setting, solutions=size), OBJECTIVES[objective])
            steps[name] = step, self.calls
            first_step(step)
        turns = {
            name: lambda _, step=step, repeat=repeat: timed(step.run, repeat)
            for name, (step, repeat) in steps.items()
        }
        rounds = interleave(turns, self.rounds, f"T={setting.tokens}")
        times = {name: by_measure(values) for name, values in rounds.items()}
        small, large = mean_of(times[FEW], times[FEW_AGAIN]), times[MANY]
        return {
            "task": setting.task,
            "tokens": setting.tokens,
            "libraries": versions(),
            "rounds": times,
            "alone": [
                {"objective": objective, "solutions": size} | share_of(times[name], small)
                for (objective, size), name in losses.items()
            ],
            "whole": {"solutions": list(self.compare)} | growth(small, large),
        }


def mean_of(one: Times, other: Times) -> Times:
    """Round by round.

    Example:
        >>> mean_of({"wall_s": [1.0, 2.0]}, {"wall_s": [3.0, 2.0]})
        {'wall_s': [2.0, 2.0]}
    """
    return {
        measure: [(a + b) / 2 for a, b in zip(one[measure], other[measure], strict=True)]
        for measure in one
    }


def share_of(part: Times, whole: Times) -> dict[str, Any]:
    """Seconds of a part, and its share of a whole step, within rounds."""
    return {
        "wall_s": quartiles(part["wall_s"]),
        "cpu_s": quartiles(part["cpu_s"]),
        "share_wall": median_ratio(part["wall_s"], whole["wall_s"]),
        "share_cpu": median_ratio(part["cpu_s"], whole["cpu_s"]),
    }


def growth(small: Times, large: Times) -> dict[str, Any]:
    """Seconds of both steps, and by what part the second takes longer, within rounds.

    Example:
        >>> times = {"wall_s": [2.0], "cpu_s": [4.0]}, {"wall_s": [2.5], "cpu_s": [4.0]}
        >>> growth(*times)["growth_wall"]["median"]
        0.25
    """
    result: dict[str, Any] = {}
    for measure in ("wall", "cpu"):
        one, other = small[f"{measure}_s"], large[f"{measure}_s"]
        result[f"{measure}_s"] = [quartiles(one), quartiles(other)]
        more = median_ratio(other, one)
        result[f"growth_{measure}"] = {name: value - 1 for name, value in more.items()}
    return result


def alone_table(result: dict[str, Any]) -> Any:
    """The loss by itself: a row for every objective and size."""
    title = f"Loss and gradient alone, {_what(result)}, medians (quartiles)"
    rows = [
        {
            "objective": row["objective"],
            "|Z|": str(row["solutions"]),
            "µs": with_quartiles(row["wall_s"], factor=1e6, digits=0),
            "CPU µs": with_quartiles(row["cpu_s"], factor=1e6, digits=0),
            "% of the step": with_quartiles(row["share_wall"], factor=100, digits=2),
            "% of its CPU time": with_quartiles(row["share_cpu"], factor=100, digits=2),
        }
        for row in result["alone"]
    ]
    return table(title, rows)


def whole_table(result: dict[str, Any]) -> Any:
    """The whole step with the smaller and the larger Z."""
    whole = result["whole"]
    rows = []
    for name, measure in {"wall clock": "wall", "CPU time": "cpu"}.items():
        few, many = (with_quartiles(x, factor=1000, digits=0) for x in whole[f"{measure}_s"])
        longer = with_quartiles(whole[f"growth_{measure}"], factor=100, digits=2)
        small, large = (f"ms, |Z| = {size}" for size in whole["solutions"])
        rows.append({"": name, small: few, large: many, "longer by %": longer})
    return table(f"Whole step of hard EM, {_what(result)}, medians (quartiles)", rows)


def _what(result: dict[str, Any]) -> str:
    return f"{result['task']}, T = {result['tokens']}"


def main(argv: Sequence[str] | None = None) -> None:
    run_command(LossCost, prog="python -m experiments.benchmark.loss_cost", argv=argv)


if __name__ == "__main__":
    main()
