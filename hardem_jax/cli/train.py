"""The command ``train`` of every task.

A run folder holds ``config.json`` (every flag, what made the run, and what the task needs to find
its model again), the files of the vocabulary, ``metrics.jsonl`` and the checkpoints ``best`` and
``last``. ``train --config RUN/config.json --out ANOTHER --loop.seed 1`` repeats a run with other
flags.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardem_jax.checksums import MANIFEST, write_checksums
from hardem_jax.cli.devices import OnDevices, made_by, say
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import read_json, write_json
from hardem_jax.errors import InputError, require
from hardem_jax.objectives import label, whole_batch
from hardem_jax.registry import task_module, task_type
from hardem_jax.settings import to_json
from hardem_jax.training.config import METRICS_FILE, LoopConfig, OptimizerConfig
from hardem_jax.training.fingerprint import may_change, named_settings
from hardem_jax.version import __version__

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from hardem_jax.show.record import View
    from hardem_jax.task.base import Questions, Task
    from hardem_jax.task.start import Start

# Parsing a command imports this module, so jax is imported only when one runs.


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
        if self.batches.accumulate > 1 and (why := whole_batch(self.objective)):
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

    def run(self) -> None:
        import jax

        from hardem_jax.training.loop import train

        mesh = self.mesh()
        parts = self.batches.accumulate * jax.process_count()
        if self.batches.batch_size % parts:
            raise InputError(
                f"--batches.batch-size: {self.batches.batch_size} items do not divide into "
                f"{self.batches.accumulate} parts of {jax.process_count()} processes"
            )
        _check_out(self.out)
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

        observe = None
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
            evaluate=run.evaluate,
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


def _check_out(out: Path) -> None:
    """Refuses a folder of something else, such as an encoder, whose files a run would replace."""
    config = out / "config.json"
    # `Path.exists` raises an error for names that are too long, which training refuses later.
    if any(os.path.exists(out / name) for name in ("best", "last", METRICS_FILE)):
        return
    if os.path.isfile(config):
        content = read_json(config)
        if isinstance(content, dict) and "flags" in content:  # stopped before its first checkpoint
            return
    for name in ("config.json", "tokenizer.json", "meta.json", MANIFEST):
        if os.path.exists(out / name):
            raise InputError(f"{out}: expected a new folder or one of a run, found {name} in it")
