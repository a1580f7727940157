"""The files of a BERT checkpoint: finding or downloading them, `config.json`, and the tensors."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from hardem_jax.errors import InputError
from hardem_jax.hub import download
from hardem_jax.models.encoders.bert import BertConfig

# Field of `BertConfig`: (key of config.json, whether a checkpoint must state it).
_CONFIG_KEYS = {
    "vocab_size": ("vocab_size", True),
    "hidden_size": ("hidden_size", True),
    "num_hidden_layers": ("num_hidden_layers", True),
    "num_attention_heads": ("num_attention_heads", True),
    "intermediate_size": ("intermediate_size", True),
    "max_position_embeddings": ("max_position_embeddings", False),
    "type_vocab_size": ("type_vocab_size", False),
    "layer_norm_eps": ("layer_norm_eps", False),
    "hidden_act": ("hidden_act", False),
    "hidden_dropout": ("hidden_dropout_prob", False),
    "attention_dropout": ("attention_probs_dropout_prob", False),
}


# --- where a checkpoint lies ---------------------------------------------------------------------


def checkpoint_folder(name_or_path: str | os.PathLike[str], *, weights: bool) -> Path:
    """The local folder of a checkpoint, downloaded from the hub if it is not a folder already.

    Args:
        name_or_path: a folder, or a model name on the hub.
        weights: whether the weights are wanted too, or `config.json` alone.

    Raises:
        InputError: there is neither such a folder nor a checkpoint that can be downloaded.

    Example:
        >>> checkpoint_folder(".", weights=False)
        PosixPath('.')
    """
    path = Path(name_or_path).expanduser()
    if os.path.isdir(path):
        return path
    if os.path.isfile(path) or not isinstance(name_or_path, str) or name_or_path[:1] in "./~":
        raise InputError(f"{name_or_path}: expected a folder with a BERT checkpoint, found none")
    if not weights:
        return _download(name_or_path, ["config.json"])
    folder = _download(name_or_path, ["config.json", "model*.safetensors", "model*.index.json"])
    if not _weight_files(folder):
        # Only now: most repositories hold both formats, and one is enough.
        folder = _download(name_or_path, ["config.json", "pytorch_model*"])
    return folder


def _download(name: str, patterns: list[str]) -> Path:
    return download(name, patterns, what="a checkpoint")


# --- config.json ---------------------------------------------------------------------------------


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; expected part of a BERT checkpoint") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # broken, not UTF-8, or nested absurdly
        raise InputError(f"{path}: expected JSON, found something else ({error})") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def read_config(folder: Path) -> BertConfig:
    """The encoder that `config.json` describes.

    Raises:
        InputError: the file is missing or broken, lacks keys, or describes something other than a
            BERT encoder with absolute positions.
    """
    path = folder / "config.json"
    raw = _read_json(path)
    faults = []
    required = ["model_type", *(key for key, needed in _CONFIG_KEYS.values() if needed)]
    if absent := [key for key in required if key not in raw]:
        faults.append(f"missing keys {', '.join(absent)}")
    for key, expected in {
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "is_decoder": False,
    }.items():
        if raw.get(key, expected) != expected:
            faults.append(f"{key}: expected {expected!r}, found {raw[key]!r}")
    if faults:
        raise InputError(f"{path}: {'; '.join(faults)}")
    try:
        return BertConfig(
            **{field: raw[key] for field, (key, _) in _CONFIG_KEYS.items() if key in raw}
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def write_checkpoint(folder: Path, config: BertConfig, tensors: Mapping[str, np.ndarray]) -> None:
    """Write `config.json` and `model.safetensors`; files of an earlier checkpoint are replaced.

    Args:
        folder: made if absent.
        config: of the encoder.
        tensors: weights by the names of Hugging Face `BertModel`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tensors = {"embeddings.LayerNorm.bias": np.zeros(8, np.float32)}
        ...     write_checkpoint(Path(folder), BertConfig(100, 8, 2, 2, 16), tensors)
        ...     print(read_config(Path(folder)).head_size, *read_weights(Path(folder)))
        4 embeddings.LayerNorm.bias
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {"architectures": ["BertModel"], "model_type": "bert"}
    content |= {key: getattr(config, field) for field, (key, _) in _CONFIG_KEYS.items()}
    (folder / "config.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    # safetensors writes the buffer as it lies: a transposed view would be written wrong.
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


# --- weights -------------------------------------------------------------------------------------


def _weight_files(folder: Path) -> list[Path]:
    for stem, suffix in ("model", "safetensors"), ("pytorch_model", "bin"):
        single = folder / f"{stem}.{suffix}"
        if single.is_file():
            return [single]
        index = folder / f"{stem}.{suffix}.index.json"
        if index.is_file():
            shards = _read_json(index).get("weight_map")
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
    """All tensors of a checkpoint by name, in the file's own types (`.bin`: float32).

    Raises:
        InputError: there are no weights, shards are missing, or a file cannot be read.
    """
    files = _weight_files(folder)
    if not files:
        raise InputError(
            f"{folder}: expected model.safetensors, model.safetensors.index.json or "
            "pytorch_model.bin, found none of them"
        )
    weights: dict[str, np.ndarray] = {}
    for path in files:
        weights |= _read_torch(path) if path.suffix == ".bin" else _read_safetensors(path)
    return weights


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from error


def _read_torch(path: Path) -> dict[str, np.ndarray]:
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"{path}: reading this format needs torch, which is not installed; "
            "convert the checkpoint to model.safetensors or install torch"
        ) from error
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a readable PyTorch checkpoint ({reason})") from error
    if not isinstance(tensors, dict):
        raise InputError(f"{path}: expected a table of tensors, found {type(tensors).__name__}")
    # Through float32, because numpy has no bfloat16 of its own.
    return {name: np.asarray(tensor.float()) for name, tensor in tensors.items()}
