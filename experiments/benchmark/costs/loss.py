"""What the loss costs by |Z|: ``python -m experiments.benchmark.costs.loss --help``.

Two answers. First, everything that depends on Z on its own: softmax, gathering of the
solutions, objective, and their gradient, for every objective and size of Z, as a share of the
whole training step. Being called on its own it pays for the call, which inside a step it does not:
an upper bound. Second, the whole step of hard EM with a small and a large Z, in turns: the
difference is the cost of the larger Z, as exactly as the machine is quiet. The step that is built
later is the slower one, whatever its Z (by 4 to 8 % on a CPU): so the smaller Z is there twice,
built before and after the larger.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from rich.table import Table

from experiments.benchmark.measure import by_measure, interleave, median_ratio, quartiles, timed
from experiments.benchmark.steps.setting import Setting, StepFlags
from experiments.benchmark.steps.workers import Step, first_step, libraries
from experiments.report import Report, table
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
        report = Report(self, self.out)
        results = [self._measure(setting) for setting in self._settings()]
        tables = [drawn for result in results for drawn in tables_of(result)]
        report.write({"results": results}, *tables)

    def _measure(self, setting: Setting) -> dict[str, Any]:
        """All sizes at one length, in one process."""
        from experiments.benchmark.steps.jax_steps import LossStep, TrainingStep  # imports jax

        turns: dict[str, Callable[[int], dict[str, float]]] = {}

        def add(name: str, kind: Callable[..., Step], size: int, repeat: int, *more: Any) -> None:
            step = kind(dataclasses.replace(setting, solutions=size), *more)
            first_step(step)
            turns[name] = lambda _: timed(step.run, repeat)

        few, many = self.compare
        for name, size in {FEW: few, MANY: many, FEW_AGAIN: few}.items():
            add(name, TrainingStep, size, self.steps)
        losses = list(itertools.product(OBJECTIVES, self.solutions))
        for objective, size in losses:
            name = f"{objective}, |Z| = {size}"
            add(name, LossStep, size, self.calls, OBJECTIVES[objective])
        rounds = interleave(turns, self.rounds, f"T={setting.tokens}")
        times = {name: by_measure(values) for name, values in rounds.items()}
        whole: dict[str, Any] = {"solutions": list(self.compare)}
        alone: list[dict[str, Any]] = [{"objective": o, "solutions": size} for o, size in losses]
        for measure in ("wall", "cpu"):
            key = f"{measure}_s"
            large = times[MANY][key]
            twice = zip(times[FEW][key], times[FEW_AGAIN][key], strict=True)
            small = [statistics.mean(both) for both in twice]
            whole[key] = [quartiles(small), quartiles(large)]
            longer = [b / a - 1 for a, b in zip(small, large, strict=True)]
            whole[f"growth_{measure}"] = quartiles(longer)
            for row in alone:
                part = times[f"{row['objective']}, |Z| = {row['solutions']}"][key]
                row |= {key: quartiles(part), f"share_{measure}": median_ratio(part, small)}
        return {
            "task": setting.task,
            "tokens": setting.tokens,
            "libraries": libraries(setting.device),
            "rounds": times,
            "alone": alone,
            "whole": whole,
        }


def tables_of(result: Mapping[str, Any]) -> tuple[Table, Table]:
    """The loss by itself, for every objective and size; the whole step with both sizes."""
    what, whole = f"{result['task']}, T = {result['tokens']}", result["whole"]
    columns = {
        "objective": "objective",
        "|Z|": "solutions",
        "µs": ("wall_s", 1e6, 0),
        "CPU µs": ("cpu_s", 1e6, 0),
        "% of the step": ("share_wall", 100, 2),
        "% of its CPU time": ("share_cpu", 100, 2),
    }
    alone = table(f"Loss and gradient alone, {what}, medians (quartiles)", result["alone"], columns)
    steps = [
        {"": name, "longer": whole[f"growth_{m}"], **dict(zip("01", whole[f"{m}_s"], strict=True))}
        for name, m in (("wall clock", "wall"), ("CPU time", "cpu"))
    ]
    sizes = {f"ms, |Z| = {size}": (str(i), 1000, 0) for i, size in enumerate(whole["solutions"])}
    columns = {"": "", **sizes, "longer by %": ("longer", 100, 2)}
    return alone, table(f"Whole step of hard EM, {what}, medians (quartiles)", steps, columns)


def main(argv: Sequence[str] | None = None) -> None:
    run_command(LossCost, prog="python -m experiments.benchmark.costs.loss", argv=argv)


if __name__ == "__main__":
    main()
