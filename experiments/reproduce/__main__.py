"""Make a table or figure of the paper, from the official downloads to the scores.

Look at the plan first: its commands, what they download, and an estimate of the hours::

    python -m experiments.reproduce table3 --tasks nq-open --out full --dry-run
    python -m experiments.reproduce table3 --tasks nq-open --out full --minutes 600

Stages that have ended are recorded in ``stages.json`` of ``out`` and not run again. One that was
stopped, by ``--minutes``, Ctrl-C or a machine that went away, continues where it was, as each of
its commands does. Every command can be typed as the plan prints it.

The full size takes accelerators. A smaller size of the same plan, here on a CPU::

    python -m experiments.reproduce table4 --tasks wikisql --out small --encoder MINILM \\
        --seeds 0 --compare="--loop.num-steps 500 --model.dtype float32"
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from experiments.download.__main__ import DATASETS
from hardem_jax.cli.command import parse, run_command
from hardem_jax.data.files import make_out, read_json, write_json
from hardem_jax.errors import InputError, require
from hardem_jax.locks import locked

#: Parameters of BERT-base that a token passes through: all but the embeddings, in millions.
_MILLIONS = 86
#: Dense bf16 TFLOP/s of the data sheets, and how many chips.
MACHINES = {"8 x TPU v5e": 8 * 197.0, "1 x H200": 989.0}
#: Share of it that training is taken to reach, less than a step of 64 rows of 300 tokens reaches on
#: an H200, see docs/performance.md. Nothing was measured on a TPU.
UTILIZATION = 0.3

_CONTENT = tomllib.loads(Path(__file__).with_name("plans.toml").read_text("utf-8"))
#: Table or figure -> task -> names of its stages.
PLANS: Mapping[str, Mapping[str, Sequence[str]]] = _CONTENT["plans"]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A command and what it costs: ``bytes`` that it downloads (None if unknown) and ``tokens``
    that it trains on, in the longest inputs, over all objectives and seeds. ``name`` says what it
    makes; ``always`` runs it again, for it only prints."""

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


def stage_of(name: str, flags: Mapping[str, Sequence[str]], more: Sequence[str] = ()) -> Stage:
    """The stage of a name in `PLANS`, given the ``flags`` that commands have in common ("out",
    "encoder", "seeds", "processes"), and ``more`` flags for every training."""
    written = name.partition(" of ")[0]
    kind, _, last = written.partition("/")
    values = {"name": last} | {flag: shlex.join(words) for flag, words in flags.items()}
    values |= {piece: text.format_map(values) for piece, text in _CONTENT["pieces"].items()}
    commands = _CONTENT["stages"]
    module, *words = shlex.split((commands.get(name) or commands[kind]).format_map(values))
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


RECORD = "stages.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Make a table or figure of the paper, from the official downloads to the scores.

    Attributes:
        table: which table or figure to make.
        tasks: rows (tasks) to make; all by default.
        out: folder for everything, some of which is large.
        encoder: a hub name, or a folder.
        seeds: seeds of every comparison.
        processes: worker processes for ``prepare``.
        compare: more flags for the trainings, in quotes and after "="; they override the plan's.
        minutes: stop after this time; None for no limit.
        dry_run: only print the plan.
    """

    table: Annotated[Literal["table3", "table4", "table6", "figure3"], tyro.conf.Positional]
    tasks: tuple[str, ...] = ()
    out: Path = Path("full")
    encoder: str = "bert-base-uncased"
    seeds: tuple[int, ...] = (0, 1, 2)
    processes: int = 1
    compare: str = ""
    minutes: float | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            found = " ".join(map(str, self.seeds)) or "none"
            raise InputError(f"seeds: expected different values, at least one, found {found}")
        require(self, "seeds", at_least=0, below=2**32)
        require(self, "processes", at_least=1)
        require(self, "minutes", at_least=0)
        for task in self.tasks:
            if task not in PLANS[self.table]:
                expected = ", ".join(PLANS[self.table])
                raise InputError(f"tasks: expected some of {expected}, found {task!r}")

    def stages(self) -> list[Stage]:
        """All stages, each once."""
        try:
            more = shlex.split(self.compare)
        except ValueError as error:
            raise InputError(f"compare: expected flags of a training, found {error}") from error
        flags = {"out": [str(self.out)], "encoder": [self.encoder]}
        flags |= {"seeds": list(map(str, self.seeds)), "processes": [str(self.processes)]}
        plans = PLANS[self.table]
        names = [name for task in self.tasks or plans for name in plans[task]]
        return [stage_of(name, flags, more) for name in dict.fromkeys(names)]

    def run(self) -> None:
        if self.dry_run:
            print(plan(self.stages()), end="")
            return
        make_out(self.out)
        until = None if self.minutes is None else time.monotonic() + 60 * self.minutes
        with locked(self.out):
            run_stages(self.stages(), self.out / RECORD, until)


def plan(stages: list[Stage]) -> str:
    """The commands in order, each after what is known of its cost, and their sums.

    Example:
        >>> print(plan([Stage("data/drop", ("experiments.download", "drop"), bytes=2_000_000)]))
        # data/drop: downloads 2 MB
        python -m experiments.download drop
        <BLANKLINE>
        # in all: downloads 2 MB
        <BLANKLINE>
    """
    lines = []
    for stage in stages:
        lines += [f"# {stage.name}{_costs([stage])}", stage.shell, ""]
    lines.append(f"# in all{_costs(stages)}")
    if any(stage.tokens for stage in stages):
        lines.append(
            "# (hours of training alone, estimated: 6 FLOPs for each parameter and token of the"
            f" longest inputs, at {UTILIZATION:.0%} of the data sheet; small batches take longer)"
        )
    return "".join(f"{line}\n" for line in lines)


def _costs(stages: list[Stage]) -> str:
    costs = []
    if known := sum(stage.bytes or 0 for stage in stages):
        costs.append(f"downloads {known / 1e6:,.0f} MB")
    if unknown := sum(stage.bytes is None for stage in stages):
        costs.append(f"{unknown} downloads of unknown size")
    for machine in MACHINES if any(stage.tokens for stage in stages) else ():
        costs.append(f"{sum(stage.hours(machine) for stage in stages):.1f} h on {machine}")
    return f": {', '.join(costs)}" if costs else ""


def run_stages(stages: list[Stage], record: Path, until: float | None) -> None:
    """Runs the stages that have not ended, in order, until this moment of `time.monotonic`."""
    ended: dict[str, Any] = read_json(record) if record.exists() else {}
    for number, stage in enumerate(stages, start=1):
        done = ended.setdefault(stage.name, [])
        about = f"{number} of {len(stages)}: {stage.name}"
        same = not stage.always and _deciding(stage.command) in map(_deciding, done)
        # A folder that was removed, because it was damaged, is made again.
        if same and all(x.exists() for x in _outputs(stage.command)):
            print(f"{about}: has ended", flush=True)
            continue
        print(f"{about}\n$ {stage.shell}", flush=True)
        code = _run(stage, until)
        if code is None:
            print("stopped after the given minutes; the same command continues")
            return
        if code:
            raise InputError(f"{stage.name}: expected the command to end well, found code {code}")
        if not stage.always:
            done.append(list(stage.command))
            write_json(record, ended)


def _outputs(command: Sequence[str]) -> list[Path]:
    return [Path(word) for before, word in itertools.pairwise(command) if before == "--out"]


def _deciding(command: Sequence[str]) -> list[str]:
    """The words on which a result depends; it does not on the number of processes."""
    pairs = zip(("", *command), command, strict=False)
    return [word for before, word in pairs if "--processes" not in (before, word)]


def _run(stage: Stage, until: float | None) -> int | None:
    """The exit code of a stage; None if it was stopped because its time is over."""
    left = None if until is None else until - time.monotonic()
    if left is not None and left <= 0:
        return None
    process = subprocess.Popen([sys.executable, "-m", *stage.command])
    try:
        return process.wait(left)
    except subprocess.TimeoutExpired:
        # Training saves its last step, a download what has arrived.
        process.send_signal(signal.SIGTERM)
        code = process.wait()
        # Python that is still starting has no handler for the signal, and dies of it.
        return None if code in (128 + signal.SIGTERM, -signal.SIGTERM) else code
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


if __name__ == "__main__":
    run_command(Reproduce, prog="python -m experiments.reproduce")
