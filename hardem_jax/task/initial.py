"""The parameters that a new run starts from, if they are those of an earlier run."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from hardem_jax.checksums import MANIFEST, has_checksums
from hardem_jax.data.files import file_digest
from hardem_jax.errors import InputError
from hardem_jax.search.protocol import LOSS_ONLY
from hardem_jax.task.base import Model, Task
from hardem_jax.task.run_config import RunConfig
from hardem_jax.training.checkpoint_series import numbers
from hardem_jax.training.checkpoints import load_params, newest_step
from hardem_jax.training.fingerprint import digest_without_seed, flatten
from hardem_jax.training.mesh import with_shardings


def params_of(run_dir: Path, task: Task, model: Model, mesh: Mesh) -> tuple[Any, dict[str, str]]:
    """The best parameters of an earlier run, an average if it kept one, loaded on these devices.
    The run may have had other data, another objective and other rules for Z. With them come
    ``content``, which identifies them, and ``run``, the same for runs that differ only in seed."""
    run = RunConfig(run_dir, task.NAME)
    _check_same_model(run, model)
    folder = run_dir / "best"
    content = _content(folder)
    params = load_params(folder, with_shardings(model.params, mesh), leave_out=LOSS_ONLY)
    if _content(folder) != content:
        raise InputError(
            f"{folder}: changed while it was read, its run is still training; try again"
        )
    # A converted run has no settings, and is not a seed of any other.
    settings = run.settings
    return params, {
        "content": content,
        "run": digest_without_seed(settings) if settings else content,
    }


def _check_same_model(run: RunConfig, model: Model) -> None:
    """What shapes of parameters do not show: vocabularies, and how the encoder computes."""
    with tempfile.TemporaryDirectory() as folder:
        own = model.save(Path(folder))
        for file in sorted(Path(folder).iterdir()):
            theirs = run.folder / file.name
            if not os.path.isfile(theirs) or theirs.read_bytes() != file.read_bytes():
                raise InputError(
                    f"{theirs}: expected the vocabulary of the new model, found another"
                )
    ours, before = (
        flatten({name: json.dumps(value) for name, value in entries.items()})
        for entries in (own, run.model)
    )
    for name in ours.keys() & before.keys():
        # Dropout belongs to training. Earlier versions stored fewer entries.
        if ours[name] != before[name] and not name.endswith("_dropout"):
            raise InputError(
                f"{run.place}: model.{name}: expected {ours[name]}, as the new model has it, found "
                f"{before[name]}"
            )


def _content(folder: Path) -> str:
    """Identifies the newest checkpoint of a folder by its checksums, or by its step without any;
    does not verify it."""
    number = next(iter(numbers(folder)), None)
    if number is None:
        raise InputError(f"{folder}: expected a folder with a checkpoint, found none")
    where = folder / str(number)
    if has_checksums(where):
        return file_digest(where / MANIFEST)
    return f"step {newest_step(folder)}"
