"""Trains on examples that a program holds, by the commands of a task: `train_on`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from hardem_jax.data.files import write_text
from hardem_jax.errors import InputError, nearest
from hardem_jax.objectives import HardEM
from hardem_jax.registry import task_module

# What `train_on` itself decides.
_DECIDED = {"out", "data", "dev", "train", "test", "file", "tokenizer", "split", "force"}


def rows_of(examples: Any) -> list[dict[str, Any]]:
    """The rows of a list of mappings, a pandas DataFrame, or a `datasets.Dataset`."""
    if hasattr(examples, "itertuples"):  # a DataFrame
        examples = examples.to_dict("records")
    rows = list(examples)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            found = type(row).__name__
            raise InputError(f"example {number}: expected a mapping, such as a dict, found {found}")
    return [dict(row) for row in rows]


def train_on(
    task: str,
    lines: Mapping[str, Iterable[Mapping[str, Any]]],
    encoder: str | os.PathLike[str],
    out: Path,
    num_steps: int | None,
    flags: dict[str, Any],
) -> None:
    """``prepare`` and ``train`` of a task, for the lines of a JSON file of each split."""
    commands = task_module(task, "commands").COMMANDS
    prepare, train = commands["prepare"], commands["train"]
    fields = {field.name: field for kind in (prepare, train) for field in dataclasses.fields(kind)}
    known = fields.keys() - _DECIDED
    if unknown := sorted(flags.keys() - known):
        expected = f"expected one of {', '.join(sorted(known))}"
        raise InputError(f"{unknown[0]}: {expected}{nearest(unknown[0], known)}")
    files = {split: out / "examples" / f"{split}.jsonl" for split in lines}
    for split, file in files.items():
        write_lines(file, lines[split])
    own = {field.name for field in dataclasses.fields(prepare)}
    folders, count = prepare.of_files(
        files, out / "prepared", os.fspath(encoder), **{k: x for k, x in flags.items() if k in own}
    )
    chosen = {name: flags.get(name, fields[name].default) for name in ("model", "batches", "loop")}
    if "batches" not in flags:
        devices = flags.get("num_devices") or jax.device_count()
        size = min(chosen["batches"].batch_size, count)
        size = size // devices * devices or size  # equal parts
        chosen["batches"] = dataclasses.replace(chosen["batches"], batch_size=size)
    if num_steps is None and "loop" not in flags:
        num_steps = max(200, 2 * count // chosen["batches"].batch_size)
    if num_steps is not None:
        often = {"num_steps": num_steps, "eval_every": max(1, num_steps // 4)}
        chosen["loop"] = dataclasses.replace(chosen["loop"], **often)
    chosen["model"] = dataclasses.replace(chosen["model"], encoder=os.fspath(encoder))
    objective = HardEM(tau=chosen["loop"].num_steps / 2)
    rest = {name: value for name, value in flags.items() if name not in own}
    train(out=out, **folders, **{"objective": objective} | rest | chosen).run()


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Writes a JSON file of these lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(f"{json.dumps(line, default=_plain)}\n" for line in lines))


def _plain(value: Any) -> Any:
    """NumPy's values as Python's, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise InputError(f"examples: expected texts and numbers, found a {type(value).__name__}")
