"""What a machine does with every kind of step: ``python -m experiments.benchmark.everything``.

The parts of `PARTS` are measured one after the other, the most important first, until the minutes
are spent. The same command goes on with those that are left, so that a machine can be lent in
pieces. Each part is a `python -m experiments.benchmark` with the flags that stand in the file.
"""

import dataclasses
import importlib.util
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from experiments.benchmark.steps.setting import Device, Preset
from experiments.benchmark.train_step import COLUMNS, TrainStep, table_rows
from experiments.report import machine, markdown, table, wide_console
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import write_json, write_text
from hardem_jax.errors import InputError, require
from hardem_jax.locks import locked
from hardem_jax.settings import to_json

#: Name -> flags of `TrainStep` that differ from those of the first part. Attention without dropout
#: is what the kernels can compute, and what `docs/scaling.md` recommends.
PARTS: dict[str, dict[str, Any]] = {
    "reader": {"variants": ("ours", "pytorch", "pytorch-compile", "encoder")},
    "heads": {
        "variants": ("encoder", "equations", "queries", "programs", "taggings", "naqanet"),
    },
    "attention by XLA": {"variants": ("ours",), "attention": "xla"},
    "half of the tokens are padding, packed": {
        "variants": ("ours",),
        "shortest": 0.5,
        "packed_tokens": 512,
    },
    "half of the tokens are padding": {
        "variants": ("ours", "pytorch-unpadded", "pytorch-unpadded-compile"),
        "shortest": 0.5,
    },
    "float32": {"dtype": "float32", "variants": ("ours", "pytorch", "pytorch-compile")},
    "bert-large": {"preset": "bert-large", "variants": ("ours", "pytorch-compile", "encoder")},
    "ModernBERT": {"preset": "modernbert-base", "variants": ("ours", "encoder")},
    "dropout drawn by the hardware": {"variants": ("ours",), "random_bits": "unsafe_rbg"},
    "no dropout": {"variants": ("ours", "pytorch-compile"), "dropout": 0.0},
    "dropout of attention": {
        "variants": ("ours", "pytorch-compile"),
        "attention_dropout": 0.1,
    },
    "T = 128": {"tokens": (128,), "variants": ("ours", "pytorch-compile")},
    "T = 512": {"tokens": (512,), "variants": ("ours", "pytorch-compile")},
    "four micro-batches": {"variants": ("ours",), "accumulate": 4},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Everything:
    """Measure the parts that the file does not hold yet, until the minutes are spent.

    Attributes:
        out: the JSON file; the table is written beside it, as Markdown.
        minutes: no part is begun that would not end in time if it took as long as the longest.
        parts: which; all by default, the most important first.
        device: what computes; "auto" is what JAX would take.
        num_devices: numbers of devices over which the first part is measured as well.
        preset: size of the encoder of all parts but the one of bert-large.
        rows: of each device.
        tokens: T of the parts that do not say.
        rounds: turns of every variant.
        steps: training steps in a turn.
    """

    out: Path
    minutes: float = 9.0
    parts: tuple[str, ...] = tuple(PARTS)
    device: Literal["auto", Device] = "auto"
    num_devices: tuple[int, ...] = (1,)
    preset: Preset = "bert-base"
    rows: int = 32
    tokens: int = 300
    rounds: int = 5
    steps: int = 10

    def __post_init__(self) -> None:
        require(self, "minutes", at_least=0)
        for name in self.parts:
            if name not in PARTS:
                raise InputError(f"parts: expected some of {', '.join(PARTS)}, found {name!r}")
        if not self.out.parent.is_dir():
            raise InputError(f"out: expected an existing folder, found none at {self.out.parent}")
        self.plan()

    def plan(self) -> dict[str, TrainStep]:
        """The steps to measure, by part; those of PyTorch only where torch is installed."""
        has_torch = importlib.util.find_spec("torch") is not None
        shared: dict[str, Any] = {
            name: getattr(self, name) for name in ("device", "preset", "rows", "rounds", "steps")
        }
        shared |= {"dtype": "bfloat16", "attention_dropout": 0.0, "tokens": (self.tokens,)}
        found = {}
        for name in self.parts:
            own = {**shared, **PARTS[name]}
            own["variants"] = tuple(
                v for v in own["variants"] if has_torch or not v.startswith("pytorch")
            )
            if self.preset == "tiny":  # only to see that everything runs
                own["preset"] = "tiny"
            if own.get("packed_tokens") is not None:
                own["packed_tokens"] = max(own["packed_tokens"], self.tokens)
            if name == "reader":
                own["num_devices"] = self.num_devices
            if own["variants"]:
                found[name] = TrainStep(**own)
        return found

    def run(self) -> None:
        with locked(self.out.parent, f"{self.out.name}.lock"):
            self._run(time.monotonic())

    def _run(self, began: float) -> None:
        content = self._recorded()
        longest = 0.0
        for name, step in self.plan().items():
            described = to_json(step)
            if content["parts"].get(name, {}).get("flags") == described:
                continue
            begins = time.monotonic()
            if longest and begins - began + longest > 60 * self.minutes:
                print(f"{name}: left for the next {self.minutes:g} minutes")
                continue
            print(f"measuring: {name}")
            content["parts"][name] = {"flags": described, **_measured(step, content)}
            longest = max(longest, time.monotonic() - begins)
            write_json(self.out, content)
        title = "Training steps, medians over rounds (quartiles)"
        drawn = table(title, rows(content), WIDE, left=4)
        write_text(self.out.with_suffix(".md"), markdown(drawn))
        wide_console().print(drawn)

    def _recorded(self) -> dict[str, Any]:
        """What has been measured before, on this machine."""
        if not self.out.exists():
            return {"machine": machine(), "parts": {}}
        try:
            content: dict[str, Any] = json.loads(self.out.read_text("utf-8"))
            processor, _ = content["machine"]["processor"], content["parts"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.out}: expected a file of this command") from error
        if processor != machine()["processor"]:
            raise InputError(f"{self.out}: measured on another machine ({processor})")
        return content


def _measured(step: TrainStep, content: dict[str, Any]) -> dict[str, Any]:
    """Results of a part, or why there are none: the parts after it are measured all the same."""
    try:
        results, device = step.measure()
    except (InputError, RuntimeError) as error:
        print(f"failed: {error}")
        return {"error": str(error)}
    if content.setdefault("device", device) != device:
        raise InputError(f"out: measured on another device ({content['device']['kind']})")
    return {"results": results}


_LEFT_OUT = ("tokens_per_s", "cpu_s", "speed_cpu_s")
#: Columns of the table; the file holds more.
WIDE = {
    "part": "part",
    **{name: form for name, form in COLUMNS.items() if form[0] not in _LEFT_OUT},
}


def rows(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the table, by part.

    Example:
        >>> rows({"parts": {"heads": {"error": "out of memory"}}})
        [{'part': 'heads', 'variant': 'out of memory'}]
    """
    found: list[dict[str, Any]] = []
    for name in (name for name in PARTS if name in content["parts"]):
        part = content["parts"][name]
        if "error" in part:
            found.append({"part": name, "variant": part["error"]})
        else:
            found += [{"part": name, **row} for row in table_rows(part["results"])]
    return found


if __name__ == "__main__":
    run_command(Everything, prog="python -m experiments.benchmark.everything")
