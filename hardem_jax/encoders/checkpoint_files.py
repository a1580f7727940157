"""Finds, downloads, reads and writes the files of a Hugging Face checkpoint."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from hardem_jax.errors import InputError, similar_path

#: Head of a span reader that Hugging Face's classes have no place for, see `write_checkpoint`.
SELECTOR_FILE = "selector.safetensors"


def checkpoint_folder(name_or_path: str | os.PathLike[str], *, weights: bool) -> Path:
    """The local folder of a checkpoint, downloaded from the hub if it is not a folder already.

    Without `weights`, `config.json` is all that is wanted.
    """
    path = Path(name_or_path).expanduser()
    if os.path.isdir(path):
        return path
    if os.path.isfile(path) or not isinstance(name_or_path, str) or name_or_path[:1] in "./~":
        found = f"none{similar_path(path)}"
        raise InputError(f"{name_or_path}: expected a folder with a checkpoint, found {found}")
    from hardem_jax.hub import download

    fetch = functools.partial(download, name_or_path, what="a checkpoint")
    if not weights:
        return fetch(["config.json"])
    folder = fetch(["config.json", "model*.safetensors", "model*.index.json", SELECTOR_FILE])
    if not _weight_files(folder):
        # Only now: most repositories hold both formats, and one is enough.
        folder = fetch(["config.json", "pytorch_model*"])
    return folder


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an `InputError` if it is missing or holds something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; expected part of a checkpoint") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # broken, not UTF-8, or nested absurdly
        raise InputError(f"{path}: expected JSON, found something else ({error})") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    selector: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes `config.json` and `model.safetensors`; files of an earlier checkpoint are replaced.

    The selector goes to `SELECTOR_FILE`, so that transformers finds no tensors in
    `model.safetensors` that its class does not have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name, part in ("model.safetensors", tensors), (SELECTOR_FILE, selector):
        if part is None:
            (folder / name).unlink(missing_ok=True)
            continue
        # safetensors writes the memory of an array: a transposed view would be written wrong.
        part = {name: np.ascontiguousarray(value) for name, value in part.items()}
        safetensors.numpy.save_file(part, folder / name, metadata={"format": "pt"})


#: Types in safetensors files that numpy has: of weights, and of buffers such as position ids.
_FLOATS = ("F64", "F32", "F16", "BF16")
_INTEGERS = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")


def _weight_files(folder: Path) -> list[Path]:
    for stem, suffix in ("model", "safetensors"), ("pytorch_model", "bin"):
        single = folder / f"{stem}.{suffix}"
        if single.is_file():
            return [single]
        index = folder / f"{stem}.{suffix}.index.json"
        if index.is_file():
            shards = read_json(index).get("weight_map")
            if not isinstance(shards, dict) or not shards:
                raise InputError(f"{index}: expected a weight_map of names to files, found none")
            names = set(map(str, shards.values()))
            if outside := [name for name in names if Path(name).name != name]:
                raise InputError(f"{index}: expected names of files, found {outside[0]!r}")
            paths = [folder / name for name in sorted(names)]
            if absent := [shard.name for shard in paths if not os.path.isfile(shard)]:
                raise InputError(f"{index}: names files that are missing: {', '.join(absent)}")
            return paths
    return []


def read_weights(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of a checkpoint by name, in the file's own types (`.bin`: float32)."""
    files = _weight_files(folder)
    if not files:
        raise InputError(
            f"{folder}: expected model.safetensors, model.safetensors.index.json or "
            "pytorch_model.bin, found none of them"
        )
    weights: dict[str, np.ndarray] = {}
    for path in files:
        weights |= read_torch(path) if path.suffix == ".bin" else _read_safetensors(path)
    return weights


def read_selector(folder: Path) -> dict[str, np.ndarray]:
    """The tensors of `SELECTOR_FILE`, by name; none if there is no such file."""
    path = folder / SELECTOR_FILE
    return _read_safetensors(path) if path.is_file() else {}


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    try:
        with safetensors.safe_open(path, framework="np") as file:
            types = {name: file.get_slice(name).get_dtype() for name in file.keys()}
        for name, kind in types.items():
            if kind not in _FLOATS + _INTEGERS:
                expected = ", ".join(_FLOATS)
                raise InputError(f"{path}: expected one of {expected}, found {kind} in {name}")
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from error


def read_torch(path: Path, *, key: str | None = None) -> dict[str, np.ndarray]:
    """The tensors of a file that `torch.save` wrote, by name, floats in float32.

    `key` is what the file holds them under; None if they are all that it holds.
    """
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"{path}: reading this format needs torch, which is not installed; "
            "convert the checkpoint to model.safetensors or install torch"
        ) from error
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # any type: of a damaged file torch lets all kinds through
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a readable PyTorch checkpoint ({reason})") from error
    place = "" if key is None else f" under {key!r}"
    if key is not None:
        tensors = tensors.get(key) if isinstance(tensors, dict) else tensors
    if not isinstance(tensors, dict):
        found = type(tensors).__name__
        raise InputError(f"{path}: expected a table of tensors{place}, found {found}")
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            found = f"{type(value).__name__} under {name!r}"
            raise InputError(f"{path}: expected a table of tensors{place}, found {found}")
    # Through float32, because numpy has no bfloat16 of its own.
    values = {name: tensor.detach() for name, tensor in tensors.items()}
    return {
        name: np.asarray(value.float() if value.is_floating_point() else value)
        for name, value in values.items()
    }
