"""The stages of each table and figure of the paper, from ``plans.toml``."""

from __future__ import annotations

import dataclasses
import importlib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.download.catalog import DATASETS
from hardem_jax.cli.command import parse

#: Parameters of BERT-base that a token passes through: all but the embeddings, in millions.
_MILLIONS = 86
#: Dense bf16 TFLOP/s of the data sheets, and how many chips.
MACHINES = {"8 x TPU v5e": 8 * 197.0, "1 x H200": 989.0}
#: Share of it that training is taken to reach: what a step of 64 rows of 300 tokens reached on an
#: H200, see docs/performance.md. Nothing was measured on a TPU.
UTILIZATION = 0.3

_CONTENT = tomllib.loads(Path(__file__).with_name("plans.toml").read_text("utf-8"))
#: Table or figure -> task -> names of its stages.
PLANS: Mapping[str, Mapping[str, Sequence[str]]] = _CONTENT["plans"]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A command, and what it costs.

    Attributes:
        name: what it makes, such as "runs/triviaqa".
        command: after ``python -m``.
        bytes: that it downloads; None where the size is not known before.
        tokens: that it trains on, in the longest inputs, over all objectives and seeds.
        always: run it again, too, when it has ended: it only prints.
    """

    name: str
    command: tuple[str, ...]
    bytes: int | None = 0
    tokens: int = 0
    always: bool = False

    @property
    def shell(self) -> str:
        """The command as one types it."""
        return f"python -m {shlex.join(self.command)}"

    def hours(self, machine: str) -> float:
        """Of training on one of `MACHINES`: 6 FLOPs a token and parameter (Kaplan et al., 2020)."""
        flops = 6 * _MILLIONS * 1e6 * self.tokens
        return flops / (MACHINES[machine] * 1e12 * UTILIZATION) / 3600


def outcome_of(command: Sequence[str]) -> list[str]:
    """A command without what does not change its outcome."""
    words = list(command)
    if "--processes" in words:
        place = words.index("--processes")
        del words[place : place + 2]
    return words


def stage_of(name: str, flags: Mapping[str, Sequence[str]], more: Sequence[str] = ()) -> Stage:
    """The stage of a name in `PLANS`.

    Args:
        name: of the stage.
        flags: words that the commands have in common: "out", "encoder", "seeds", "processes".
        more: flags for every training; they override those of the plan.
    """
    written = name.partition(" of ")[0]
    kind, _, last = written.partition("/")
    values = {"name": last} | {flag: shlex.join(words) for flag, words in flags.items()}
    values |= {piece: text.format_map(values) for piece, text in _CONTENT["pieces"].items()}
    commands = _CONTENT["stages"]
    text = commands.get(name) or commands[kind]
    module, *words = shlex.split(text.format_map(values))
    size: int | None = 0
    if kind == "data":
        sizes = [source.size for source in DATASETS[last].sources]
        size = None if None in sizes else sum(size or 0 for size in sizes)
    elif kind == "runs":
        words += more
    tokens = _tokens(module, words) if kind == "runs" else 0
    command = (f"experiments.{module}", *words)
    return Stage(written, command, bytes=size, tokens=tokens, always=kind == "table")


def _tokens(module: str, words: Sequence[str]) -> int:
    """How many a training reads in its longest inputs; 0 if its model is no encoder."""
    commands = importlib.import_module(f"experiments.{module}")
    kind = getattr(commands, "COMMANDS", None) or commands.SetSizes
    command: Any = parse(kind, prog=f"python -m experiments.{module}", argv=words)
    if not hasattr(command.model, "encoder"):
        return 0
    batches = command.batches
    tokens = batches.batch_size * (1 + batches.negatives) * batches.buckets[-1]
    runs = len(command.objectives) * len(command.seeds) * len(getattr(command, "targets", [0]))
    return command.loop.num_steps * tokens * runs
