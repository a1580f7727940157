"""Trains on examples that a program holds, by the commands of a task: `train_on`."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import hashlib
import json
import numbers
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hardem_jax.buckets.names import address
from hardem_jax.data.files import make_out, write_text
from hardem_jax.data.rows import USUAL, Columns, column_of
from hardem_jax.errors import InputError, nearest
from hardem_jax.locks import locked
from hardem_jax.objectives import HardEM
from hardem_jax.registry import task_module

# What `train_on` itself decides.
_DECIDED = {"out", "data", "dev", "train", "test", "file", "tokenizer", "split", "force"}


def rows_of(examples: Any, name: str = "example") -> list[dict[str, Any]]:
    """The rows of a list of mappings, a pandas DataFrame, or a `datasets.Dataset`. One without an
    id gets this name and its number, from 0."""
    if isinstance(examples, (str, Mapping)) or not hasattr(examples, "__iter__"):
        expected = "expected a list of rows or a DataFrame (of a file: hardem TASK prepare)"
        raise InputError(f"examples: {expected}, found {type(examples).__name__}")
    if hasattr(examples, "itertuples"):  # a DataFrame
        examples = examples.to_dict("records")
    rows = list(examples)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            found = type(row).__name__
            raise InputError(f"example {number}: expected a mapping, such as a dict, found {found}")
    texts = ({str(key): value for key, value in row.items()} for row in rows)
    own = {"id", "query_id"}
    return [row if own & row.keys() else row | {"id": f"{name}-{n}"} for n, row in enumerate(texts)]


def train_on(
    task: str,
    lines: Mapping[str, Iterable[Mapping[str, Any]]],
    encoder: str | os.PathLike[str],
    out: Path,
    num_steps: int | None,
    flags: dict[str, Any],
) -> None:
    """``prepare`` and ``train`` of a task, for the lines of a JSON file of each split."""
    if where := address(out):
        raise InputError(f"out: expected a folder on a disk, found {where}")
    commands = task_module(task, "commands").COMMANDS
    prepare, train = commands["prepare"], commands["train"]
    fields = {field.name: field for kind in (prepare, train) for field in dataclasses.fields(kind)}
    known = fields.keys() - _DECIDED
    if unknown := sorted(flags.keys() - known):
        expected = f"expected one of {', '.join(sorted(known))}"
        raise InputError(f"{unknown[0]}: {expected}{nearest(unknown[0], known)}")
    for name, value in flags.items():
        kind, found = type(fields[name].default), type(value)
        if dataclasses.is_dataclass(kind) and not dataclasses.is_dataclass(found):
            expected = f"expected a dataclass, such as {fields[name].default}"
            raise InputError(f"{name}: {expected}, found {found.__name__} {value}")
    if num_steps is not None and not isinstance(num_steps, numbers.Integral):
        raise InputError(f"num_steps: expected a whole number, found {num_steps}")
    texts = {name: json_lines(rows, flags.get("columns", USUAL)) for name, rows in lines.items()}
    own = {field.name for field in dataclasses.fields(prepare)}
    options = {name: value for name, value in flags.items() if name in own}
    chosen = {name: flags.get(name, fields[name].default) for name in ("model", "batches", "loop")}
    content = repr((texts, os.fspath(encoder), sorted(options.items())))
    with _data_folder(out, hashlib.sha256(content.encode()).hexdigest()[:16]) as folder:
        files = {split: folder / "examples" / f"{split}.jsonl" for split in texts}
        (folder / "examples").mkdir(parents=True, exist_ok=True)
        for split, file in files.items():
            if not file.exists() or file.read_text("utf-8") != texts[split]:
                write_text(file, texts[split])
        try:
            folders, count = prepare.of_files(files, folder, os.fspath(encoder), **options)
        except InputError as error:
            raise InputError(_of_example(str(error), folder / "examples", texts)) from error
        if "batches" not in flags:
            size = min(chosen["batches"].batch_size, count)
            chosen["batches"] = dataclasses.replace(chosen["batches"], batch_size=size)
        if num_steps is None and "loop" not in flags:
            num_steps = max(200, 2 * count // chosen["batches"].batch_size)
        if num_steps is not None:
            often = {} if "loop" in flags else {"eval_every": max(1, int(num_steps) // 4)}
            chosen["loop"] = dataclasses.replace(chosen["loop"], num_steps=int(num_steps), **often)
        chosen["model"] = dataclasses.replace(chosen["model"], encoder=os.fspath(encoder))
        objective = HardEM(tau=chosen["loop"].num_steps / 2)
        rest = {name: value for name, value in flags.items() if name not in own}
        train(out=out, **folders, **{"objective": objective} | rest | chosen).run()


def _of_example(message: str, folder: Path, texts: Mapping[str, str]) -> str:
    """A message that names an example instead of a line in a file that its user has not seen."""
    for split, text in texts.items():
        if found := re.match(rf"{re.escape(str(folder / split))}\.jsonl: line (\d+)", message):
            row = json.loads(text.split("\n")[int(found[1]) - 1])
            return f"example {row.get('id', row.get('query_id'))!r}{message[found.end() :]}"
    return message


@contextlib.contextmanager
def _data_folder(out: Path, digest: str) -> Iterator[Path]:
    """The folder of data with this digest, which nobody else changes meanwhile. After an error it
    is removed unless the run in ``out`` names it: a refused call changes nothing of that run."""
    folder = make_out(out / "prepared") / digest
    with locked(folder.parent):
        try:
            yield folder
        except Exception:
            config = out / "config.json"
            if not os.path.isfile(config) or digest not in config.read_text("utf-8"):
                shutil.rmtree(folder, ignore_errors=True)
            raise


def json_lines(rows: Iterable[Mapping[str, Any]], columns: Columns = USUAL) -> str:
    """A JSON file of these rows, without values that JSON cannot hold and nothing reads."""
    text = ""
    for row in rows:
        line = []
        for key, value in row.items():
            try:
                line.append(f"{json.dumps(key)}: {json.dumps(value, default=_plain)}")
            except (TypeError, ValueError) as error:
                roles = dataclasses.asdict(USUAL)
                used = {x: column_of(row, x, columns, "", required=False) for x in roles}
                if key in used.values():
                    which = f"example {row.get(used['question'])!r}"
                    raise InputError(f"{which}: {key!r}: {error}") from error
        text += f"{{{', '.join(line)}}}\n"
    return text


def _plain(value: Any) -> Any:
    """Values of NumPy and pandas as Python's, for JSON."""
    if type(value).__name__ in ("NaTType", "NAType"):  # pandas' for missing ones
        return None
    if type(value).__name__ == "datetime64":
        value = value.astype("datetime64[us]")  # finer ones become integers
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (decimal.Decimal, datetime.date, datetime.time)):
        return str(value).removesuffix(" 00:00:00")  # pandas has midnights for dates
    raise TypeError(f"expected texts and numbers, found a {type(value).__name__}")
