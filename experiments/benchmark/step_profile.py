"""Where the time of a training step goes: ``python -m experiments.benchmark.step_profile --help``.

JAX's profiler says how long each instruction of the compiled program ran, and the program itself
where the instruction came from: forward pass, backward pass or the optimiser's update, and which
operation. An instruction that fuses several operations counts as the one it ends with.
"""

import dataclasses
import gzip
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmark.measure import timed
from experiments.benchmark.steps.setting import Setting
from experiments.report import Report, table
from hardem_jax.cli.command import run_command
from hardem_jax.errors import InputError, require

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (?:\(.*?\)|\S+) ([\w-]+)\(")
_OP_NAME = re.compile(r'op_name="([^";]*)')
# They last as long as the instructions inside them, which are counted.
_CONTAINERS = {"while", "call", "conditional"}


@dataclasses.dataclass(frozen=True)
class StepProfile(Setting):
    """Profile the training step of hard EM.

    Attributes:
        steps: training steps that are profiled.
    """

    steps: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "steps", at_least=1)

    def run(self) -> None:
        import jax  # for which help does not have to wait

        from experiments.benchmark.steps.jax_steps import TrainingStep

        report = Report(self, self.out)
        step = TrainingStep(self)
        origins = instructions(step.program())
        step.run(2)
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            with jax.profiler.trace(folder):
                seconds = timed(step.run, self.steps)["wall_s"]
            [trace] = Path(folder).rglob("*.trace.json.gz")
            with gzip.open(trace, "rt") as file:
                events = json.load(file)["traceEvents"]
        times = {n: ms / self.steps for n, ms in event_times(events).items() if n in origins}
        if not times:
            raise InputError("the profiler reported no instruction of the step")
        groups = [
            {"pass": where, "operation": operation, "ms": ms, "instructions": count}
            for (where, operation), (ms, count) in grouped(times, origins).items()
        ]
        results = {"step_ms": 1000 * seconds, "instructions_ms": times, "groups": groups}
        total = sum(times.values())
        shares = [{**group, "share": group["ms"] / total} for group in groups]
        columns = {
            "pass": "pass",
            "operation": "operation",
            "ms a step": ("ms", 1, 1),
            "%": ("share", 100, 1),
            "instructions": "instructions",
        }
        rows = [row for row in shares if row["share"] >= 0.01]
        report.write(
            {"results": results},
            table("Time of a training step, above 1 %", rows, columns, left=2),
            f"{results['step_ms']:.0f} ms a step with the profiler",
        )


def instructions(hlo: str) -> dict[str, tuple[str, str]]:
    """Name -> (opcode, operation it came from) of the instructions of a compiled program.

    Example:
        >>> instructions('  %add.3 = f32[2]{0} add(%a, %b), metadata={op_name="jit(f)/add"}')
        {'add.3': ('add', 'jit(f)/add')}
    """
    found = {}
    for line in hlo.splitlines():
        if (match := _INSTRUCTION.match(line)) and match[2] not in _CONTAINERS:
            origin = _OP_NAME.search(line)
            found[match[1]] = match[2], origin[1] if origin else ""
    return found


def event_times(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Instruction -> milliseconds, from a trace: of devices, if it has any, else of the host."""
    events = list(events)
    devices = {
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and "/device:" in event["args"]["name"]
    }
    ran = [event for event in events if "hlo_op" in event.get("args", {}) and "dur" in event]
    on_devices = [event for event in ran if event["pid"] in devices]
    times: dict[str, float] = defaultdict(float)
    for event in on_devices or ran:
        times[event["args"]["hlo_op"]] += event["dur"] / 1000
    return dict(times)


def grouped(
    times: Mapping[str, float], origins: Mapping[str, tuple[str, str]]
) -> dict[tuple[str, str], tuple[float, int]]:
    """(pass, operation) -> milliseconds and number of instructions, the longest first."""
    groups: dict[tuple[str, str], tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for name, ms in times.items():
        opcode, origin = origins[name]
        where = (
            "backward" if "transpose(" in origin else "forward" if "jvp(" in origin else "update"
        )
        last = origin.rpartition("/")[2] or opcode
        product = opcode in {"dot", "convolution"} or last == "dot_general"
        group = where, "matrix products" if product else last
        total, count = groups[group]
        groups[group] = total + ms, count + 1
    return dict(sorted(groups.items(), key=lambda item: -item[1][0]))


def main(argv: Sequence[str] | None = None) -> None:
    run_command(StepProfile, prog="python -m experiments.benchmark.step_profile", argv=argv)


if __name__ == "__main__":
    main()
