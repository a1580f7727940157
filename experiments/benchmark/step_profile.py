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
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from experiments.benchmark.measure import machine, machine_line, wide_console
from experiments.benchmark.steps.setting import MIN_TOKENS, Setting, sizes_of
from hardem_jax.cli.command import flags, run_command
from hardem_jax.data.files import write_json
from hardem_jax.errors import InputError, require

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = (?:\(.*?\)|\S+) ([\w-]+)\(")
_OP_NAME = re.compile(r'op_name="([^";]*)')
# They last as long as the instructions inside them, which are counted.
_CONTAINERS = {"while", "call", "conditional"}


@dataclasses.dataclass(frozen=True)
class StepProfile:
    """Profile the training step of hard EM.

    Attributes:
        task: "spans" of a reader, "equations" of a tagger, "queries" of SQLova.
        preset: size of the encoder; "tiny" only to see that everything runs.
        layers: of the encoder; None for the preset's number.
        rows: of the batch.
        tokens: T.
        solutions: Z.
        dropout: rate, of hidden units and of attention.
        attention_dropout: of attention, if it has a rate of its own.
        dtype: of the computation in the encoder.
        device: "cpu" or "gpu".
        steps: training steps that are profiled.
        top: rows of the table of instructions.
        out: write the figures here, as JSON.
    """

    task: Literal["spans", "equations", "queries"] = "spans"
    preset: Literal["tiny", "minilm", "bert-base", "bert-large"] = "minilm"
    layers: int | None = None
    rows: int = 16
    tokens: int = 128
    solutions: int = 32
    dropout: float = 0.1
    attention_dropout: float | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: Literal["cpu", "gpu"] = "cpu"
    steps: int = 3
    top: int = 10
    out: Path | None = None

    def __post_init__(self) -> None:
        require(self, "layers", "solutions", "steps", "top", at_least=1)
        require(self, "rows", at_least=2)
        require(self, "tokens", at_least=MIN_TOKENS)
        require(self, "dropout", "attention_dropout", at_least=0, below=1)

    def run(self) -> None:
        import jax  # for which help does not have to wait

        from experiments.benchmark.steps.ours import TaskStep, write_weights

        setting = Setting(
            *(sizes_of(self.preset, self.layers), self.rows, self.tokens, self.solutions),
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            dtype=self.dtype,
            device=self.device,
            task=self.task,
        )
        about = machine()
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            write_weights(setting, Path(folder))
            step = TaskStep(setting, Path(folder))
            origins = instructions(step.program())
            step.run(2)
            began = time.perf_counter()
            with jax.profiler.trace(folder):
                step.run(self.steps)
            seconds = (time.perf_counter() - began) / self.steps
            times = instruction_times(Path(folder))
        about["load_average_after"] = machine()["load_average"]
        times = {name: total / self.steps for name, total in times.items() if name in origins}
        if not times:
            raise InputError("the profiler reported no instruction of the step")
        results = {"step_ms": 1000 * seconds, "instructions_ms": times, "groups": []}
        for (where, operation), (ms, count) in grouped(times, origins).items():
            group = {"pass": where, "operation": operation, "ms": ms, "instructions": count}
            results["groups"].append(group)
        if self.out is not None:
            write_json(self.out, {"flags": flags(self), "machine": about, "results": results})
        console = wide_console()
        console.print(_group_table(results), _instruction_table(times, origins, self.top))
        console.print(f"{results['step_ms']:.0f} ms a step with the profiler", highlight=False)
        console.print(machine_line(about), highlight=False, markup=False)


def instructions(hlo: str) -> dict[str, tuple[str, str]]:
    """Name -> (opcode, operation it came from) of the instructions of a compiled program.

    Example:
        >>> instructions('  %add.3 = f32[2]{0} add(%a, %b), metadata={op_name="jit(f)/add"}')
        {'add.3': ('add', 'jit(f)/add')}
    """
    found = {}
    for line in hlo.splitlines():
        if match := _INSTRUCTION.match(line):
            origin = _OP_NAME.search(line)
            found[match[1]] = match[2], origin[1] if origin else ""
    return {name: both for name, both in found.items() if both[0] not in _CONTAINERS}


def instruction_times(folder: Path) -> dict[str, float]:
    """Name of an instruction -> milliseconds in all, from the newest trace in a folder."""
    traces = sorted(folder.rglob("*.trace.json.gz"), key=lambda path: path.stat().st_mtime)
    if not traces:
        raise InputError(f"{folder}: the profiler wrote no trace")
    with gzip.open(traces[-1], "rt") as file:
        return event_times(json.load(file)["traceEvents"])


def event_times(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The same from the events of a trace: those of devices, if there are any, else of the host."""
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


def _group_table(results: Mapping[str, Any]) -> Table:
    total = sum(group["ms"] for group in results["groups"])
    drawn = Table(title="Time of a training step by pass and operation, above 1 %")
    for name in ("pass", "operation"):
        drawn.add_column(name)
    for name in ("ms a step", "%", "instructions"):
        drawn.add_column(name, justify="right")
    for group in results["groups"]:
        share = 100 * group["ms"] / total
        if share >= 1:
            figures = f"{group['ms']:.1f}", f"{share:.1f}", str(group["instructions"])
            drawn.add_row(group["pass"], group["operation"], *figures)
    return drawn


def _instruction_table(
    times: Mapping[str, float], origins: Mapping[str, tuple[str, str]], top: int
) -> Table:
    drawn = Table(title="The longest instructions")
    for name in ("instruction", "operation"):
        drawn.add_column(name)
    drawn.add_column("ms a step", justify="right")
    for name in sorted(times, key=lambda name: -times[name])[:top]:
        drawn.add_row(name, origins[name][1], f"{times[name]:.2f}")
    return drawn


def main(argv: Sequence[str] | None = None) -> None:
    run_command(StepProfile, prog="python -m experiments.benchmark.step_profile", argv=argv)


if __name__ == "__main__":
    main()
