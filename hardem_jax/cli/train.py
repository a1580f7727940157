"""The command ``train`` of every task.

A run folder holds ``config.json`` (every flag, what made the run, and what the task needs to find
its model again), the files of the vocabulary, ``metrics.jsonl`` and the checkpoints ``best`` and
``last``. ``train --config RUN/config.json --out ANOTHER --loop.seed 1`` repeats a run with other
flags.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardem_jax.checksums import MANIFEST, write_checksums
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import read_json, write_json
from hardem_jax.errors import InputError, require, require_different
from hardem_jax.objectives import label
from hardem_jax.registry import task_module, task_type
from hardem_jax.settings import to_json
from hardem_jax.training.config import (
    HEARTBEAT_SECONDS,
    METRICS_FILE,
    DistributedMode,
    LoopConfig,
    OptimizerConfig,
)
from hardem_jax.training.fingerprint import may_change, named_settings
from hardem_jax.version import __version__

if TYPE_CHECKING:
    import numpy as np
    from jax.sharding import Mesh

    from hardem_jax.show.record import View
    from hardem_jax.task.base import Questions, Task
    from hardem_jax.task.start import Start

#: JAX's variable for the folder of compiled programs.
VARIABLE = "JAX_COMPILATION_CACHE_DIR"
#: Packages whose version may change what a run computes.
_PACKAGES = (
    *("hardem-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy"),
    *("tensorflow-datasets", "tokenizers", "transformers"),
)

# Parsing a command imports this module, so jax is imported only by code that needs devices.


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnDevices:
    """A command that computes.

    Attributes:
        num_devices: devices to use; None for all.
        fsdp: devices over which parameters and optimiser state are split, a divisor of the number
            of devices; 1 for a copy on each.
        distributed: join the other processes of the job: "auto" if a launcher or a Cloud TPU
            announces them, "on" always, "off" never.
        heartbeat_seconds: end the job if another process is silent for so long, for it is dead.
    """

    num_devices: int | None = may_change(
        "the same run up to rounding, and dropout in packed rows", default=None
    )
    fsdp: int = may_change("the same run up to rounding", default=1)
    distributed: DistributedMode = may_change("the same run up to rounding", default="auto")
    heartbeat_seconds: int = may_change("when a job has failed", default=HEARTBEAT_SECONDS)

    def __post_init__(self) -> None:
        require(self, "num_devices", "fsdp", "heartbeat_seconds", at_least=1)

    def mesh(self) -> Mesh:
        """The mesh of devices; must be made before anything else uses jax."""
        from hardem_jax.training.distributed import initialize_distributed
        from hardem_jax.training.mesh import data_mesh

        initialize_distributed(self.distributed, heartbeat_seconds=self.heartbeat_seconds)
        mesh = data_mesh(self.num_devices, fsdp=self.fsdp)
        enable_compilation_cache()
        return mesh


def enable_compilation_cache() -> Path | None:
    """Enables JAX's persistent compilation cache; call it before anything is compiled.

    The folder is ``JAX_COMPILATION_CACHE_DIR`` if set (empty disables the cache), or on GPUs and
    TPUs ``hardem_jax/compiled`` in the user's cache folder. On CPUs there is no default: programs
    are compiled for one machine's processor, and home folders are often shared between machines.
    """
    import jax

    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE]) if os.environ[VARIABLE] else None
    if jax.default_backend() == "cpu":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "hardem_jax" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def say(text: str) -> None:
    """Prints in one process only, on behalf of all."""
    from hardem_jax.training.distributed import is_primary

    if is_primary():
        print(text)


def made_by(num_devices: int) -> dict[str, Any]:
    """What a run is made by: command line, commit, versions and devices, for ``config.json``."""
    import jax

    return {
        "command": shlex.join(sys.orig_argv),
        "commit": _commit(Path(__file__).parents[1]),
        "packages": {
            package.name: package.version
            for package in distributions()
            if package.name in _PACKAGES
        },
        "python": platform.python_version(),
        "platform": platform.platform(),
        "devices": f"{num_devices} x {jax.devices()[0].device_kind}",
        "processes": jax.process_count(),
    }


def _commit(folder: Path) -> str | None:
    """The commit of the repository that holds the package, if it is tracked there."""

    def git(*words: str) -> str | None:
        try:
            command = ["git", "-C", str(folder), *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):  # no git, or no repository
            return None
        return done.stdout.strip()

    # An installed package may lie in an environment inside somebody else's repository.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit}+" if commit and git("status", "--porcelain", "-uno", ".") else commit


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting(OnDevices):
    """All flags of a run except its objective.

    Attributes:
        out: folder to write.
        data: prepared training split.
        dev: prepared split to evaluate on.
        model: the model, of one of the task's types.
        optimizer: AdamW and its schedule.
        batches: shapes of the batches.
        loop: steps, evaluations, checkpoints.
        inference: how answers are read off.
        dev_questions: evaluate on only the first N questions; None for all.
        watched: ids of questions among them whose prediction and P(z) over Z each evaluation
            writes to ``watched/<step>.json``.
    """

    #: ``--config`` takes them from a file.
    SAVES_FLAGS: ClassVar[bool] = True

    out: Path = may_change("a run may be moved")
    data: Any = may_change("identified by contents")
    dev: Path = may_change("identified by contents")
    model: Any
    optimizer: OptimizerConfig = OptimizerConfig()
    batches: BatchConfig
    loop: LoopConfig
    inference: Any
    dev_questions: int | None = None
    watched: tuple[str, ...] = may_change("only recorded", default=())

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "dev_questions", at_least=1)
        if self.data == ():
            raise InputError("data: expected at least one prepared split, found none")
        if isinstance(self.data, tuple):
            require_different(self, "data")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainCommand(Setting):
    """Train a model, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which solutions are trusted.
        init_from: start from the best parameters of the run in this folder, which has the same
            model; None starts from the pretrained encoder, or from scratch.
    """

    #: Name of the task.
    TASK: ClassVar[str]

    objective: Any
    init_from: Path | None = may_change("identified by contents", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batches.accumulate > 1 and (why := getattr(self.objective, "whole_batch", "")):
            raise InputError(
                f"--batches.accumulate: expected 1 for {label(self.objective)}, {why}, found "
                f"{self.batches.accumulate}"
            )

    def task(self, data: Any, dev: Any) -> Task:
        """The task, from these flags and what the data were prepared with."""
        del data, dev
        return task_type(self.TASK)(self.inference)

    def open_data(self) -> Questions:
        """The questions to train on."""
        folders = self.data if isinstance(self.data, tuple) else (self.data,)
        return task_type(self.TASK).QUESTIONS.open(*folders)

    def open_dev(self, count: int | None) -> Questions:
        """The first ``count`` questions to evaluate on; all, with those left out, if None."""
        return task_type(self.TASK).QUESTIONS.open(self.dev).first(count)

    def views(
        self, task: Task, data: Questions, inputs: Any, readings: Sequence[tuple[int, Any]]
    ) -> list[View]:
        """What a model says about each question of ``data``, from the readings of its inputs."""
        draw = task_module(self.TASK, "show").views
        return draw(task, self.model, data, inputs, sorted(readings, key=lambda pair: pair[0]))

    def start(self, mesh: Mesh) -> Start:
        """The run, ready for the training loop; see `hardem_jax.task.start.start`."""
        from hardem_jax.task.start import start

        data, dev = self.open_data(), self.open_dev(self.dev_questions)
        return start(
            self.task(data, dev),
            self.model,
            data,
            dev,
            objective=self.objective,
            batches=self.batches,
            num_steps=self.loop.num_steps,
            seed=self.loop.seed,
            mesh=mesh,
            init_from=self.init_from,
        )

    def settings(self, data: Mapping[str, str]) -> dict[str, str]:
        """Everything that must be the same when the run is resumed, as text by dotted name."""
        return named_settings(self) | {f"contents of {name}": text for name, text in data.items()}

    def run(self) -> Callable[[], dict[str, np.ndarray]] | None:
        """Returns what scores every answer of the last evaluation; None if there was none."""
        import jax

        from hardem_jax.training.loop import train

        mesh = self.mesh()
        if self.batches.batch_size % (self.batches.accumulate * jax.process_count()):
            raise InputError(
                f"--batches.batch-size: {self.batches.batch_size} items do not divide into "
                f"{self.batches.accumulate} parts of {jax.process_count()} processes"
            )
        _check_out(self.out)
        say(f"training on {mesh.size} x {mesh.devices.flat[0].device_kind}")
        run = self.start(mesh)
        say(f"{run.about}; {self.objective}")
        settings = self.settings(run.data)

        def describe() -> None:
            content = {"version": __version__, "flags": to_json(self), "settings": settings}
            content["made by"] = made_by(mesh.size)
            # In a folder of their own first: only these files get checksums, whatever else is in
            # the run's folder, such as a log that still grows. Checkpoints have their own.
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self.out) as new:
                write_json(Path(new) / "config.json", content | run.save(Path(new)))
                files = [file.replace(self.out / file.name) for file in Path(new).iterdir()]
            write_checksums(self.out, files)

        answers = observe = None

        def evaluate(params: Any) -> Mapping[str, float]:
            nonlocal answers
            scores, answers = run.evaluate(params)
            return scores

        if self.watched:
            from hardem_jax.cli.watching import observer

            observe = observer(run, self.watched, self.views, self.out)
        result = train(
            loss_fn=run.loss_fn,
            params=run.params,
            optimizer=self.optimizer,
            batches=iter(run.batches),
            accumulate=self.batches.accumulate,
            memory=run.memory,
            params_per_token=run.params_per_token,
            example_batches=run.examples,
            evaluate=evaluate,
            metric_names=run.metric_names,
            config=self.loop,
            directory=self.out,
            mesh=mesh,
            fingerprint=settings,
            on_new_run=describe,
            observe=observe,
        )
        best = "unknown" if result.best_metric is None else f"{result.best_metric:.4g}"
        say(f"best {self.loop.monitor} {best} at step {result.best_step}")
        return None if answers is None else partial(run.task.by_question, run.dev, answers)


def _check_out(out: Path) -> None:
    """Refuses a folder of something else, such as an encoder, whose files a run would replace."""
    # `Path.exists` raises an error for names that are too long, which training refuses later.
    if any(os.path.exists(out / name) for name in ("best", "last", METRICS_FILE)):
        return
    if os.path.isfile(out / "config.json"):
        content = read_json(out / "config.json")
        if isinstance(content, dict) and "flags" in content:  # stopped before its first checkpoint
            return
    for name in ("config.json", "tokenizer.json", "meta.json", MANIFEST):
        if os.path.exists(out / name):
            raise InputError(f"{out}: expected a new folder or one of a run, found {name} in it")
