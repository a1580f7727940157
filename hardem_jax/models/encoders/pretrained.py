"""Loads and saves encoders as Hugging Face checkpoints, whatever their architecture."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.errors import InputError
from hardem_jax.models.config import Implementation, Remat
from hardem_jax.models.encoders.base import Architecture, Encoder, EncoderConfig
from hardem_jax.models.encoders.checkpoint_files import (
    checkpoint_folder,
    read_json,
    read_weights,
    write_checkpoint,
)
from hardem_jax.models.encoders.weights import stack_layers, unstack_layers

#: ``model_type`` of ``config.json`` -> the module of this folder with its ``ARCHITECTURE``.
_MODULES = {
    "bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
}


def load_encoder(
    name_or_path: str | os.PathLike[str],
    *,
    num_layers: int | None = None,
    dtype: DTypeLike = jnp.float32,
    remat: Remat = "none",
    attention: Implementation = "auto",
    scan_layers: bool = False,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
) -> Encoder:
    """Loads a pretrained encoder from a local folder or the Hugging Face hub.

    Reads `model.safetensors`, its sharded form with an index, or `pytorch_model.bin` (sharded or
    not; needs torch), in float32, float16 or bfloat16, with or without the name of the encoder
    before the names of its tensors (`bert.`). Poolers and pre-training heads are ignored; any other
    unknown tensor is an error.

    Args:
        name_or_path: a folder with `config.json` and weights, or a model name on the hub.
        num_layers: keep only the first `num_layers` layers; `None` keeps all.
        dtype, remat, attention, scan_layers: see `TransformerEncoder`.
        hidden_dropout, attention_dropout: replace the rates of `config.json`.

    Returns:
        The encoder that `model_type` of `config.json` names, with parameters in float32.

    Raises:
        InputError: the checkpoint cannot be found or read, its architecture is not supported, or
            its weights and its config disagree; one message lists all missing, unused, doubled and
            misshapen weights.

    Example:
        >>> import tempfile
        >>> from hardem_jax.models.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(100, 8, 2, 2, 16)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_encoder(Bert(config, rngs=nnx.Rngs(0)), folder)
        ...     bert = load_encoder(folder, num_layers=1, hidden_dropout=0.0)
        >>> bert.config.num_hidden_layers, bert.config.hidden_dropout
        (1, 0.0)
    """
    folder = checkpoint_folder(name_or_path, weights=True)
    full = read_config(folder)
    depth = full.num_hidden_layers
    if num_layers is not None and not 1 <= num_layers <= depth:
        raise InputError(f"{name_or_path}: num_layers: expected 1 to {depth}, found {num_layers}")
    changes = {
        "num_hidden_layers": num_layers,
        "hidden_dropout": hidden_dropout,
        "attention_dropout": attention_dropout,
    }
    config = dataclasses.replace(full, **{k: v for k, v in changes.items() if v is not None})

    def build(scan: bool) -> Encoder:
        return untrained_encoder(
            config, dtype=dtype, remat=remat, attention=attention, scan_layers=scan
        )

    shapes = flat_params(nnx.eval_shape(lambda: build(False)))
    table = architecture(config.model_type).weights
    try:
        params = table.read(read_weights(folder), shapes, num_layers=depth)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    abstract = nnx.eval_shape(lambda: build(scan_layers))
    return fill(abstract, stack_layers(params) if scan_layers else params)


def save_encoder(encoder: Encoder, folder: str | os.PathLike[str]) -> None:
    """Writes `config.json` and `model.safetensors` for Hugging Face transformers to load.

    Weights are float32. There is no pooler: PyTorch users pass `add_pooling_layer=False`, or get a
    freshly initialised one.

    Args:
        encoder: its layers may be stacked.
        folder: created if absent; files of an earlier save are replaced.

    Example:
        >>> import tempfile
        >>> from hardem_jax.models.encoders.bert import Bert, BertConfig
        >>> bert = Bert(BertConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_encoder(bert, folder)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['config.json', 'model.safetensors']
    """
    config = encoder.config
    kind = architecture(config.model_type)
    params = {path: np.asarray(value, np.float32) for path, value in flat_params(encoder).items()}
    if not any(path.startswith("layers.0.") for path in params):
        params = unstack_layers(params)
    content = {"architectures": [kind.class_name], "model_type": config.model_type}
    content |= {key: getattr(config, field) for field, key in kind.config_keys.items()}
    write_checkpoint(Path(folder), content, kind.weights.write(params))


def load_config(name_or_path: str | os.PathLike[str]) -> EncoderConfig:
    """The configuration of a checkpoint, without its weights.

    Args:
        name_or_path: a folder with `config.json`, or a model name on the hub.

    Raises:
        InputError: see `read_config`.
    """
    return read_config(checkpoint_folder(name_or_path, weights=False))


def read_config(folder: Path) -> EncoderConfig:
    """The configuration in a folder's `config.json`.

    Raises:
        InputError: the file is missing or broken, lacks keys, or describes an encoder that is not
            supported.
    """
    path = folder / "config.json"
    raw = read_json(path)
    try:
        kind = architecture(raw.get("model_type", "bert"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    needed = [key for field, key in kind.config_keys.items() if field not in kind.optional]
    faults = []
    if absent := [key for key in ("model_type", *needed) if key not in raw]:
        faults.append(f"missing keys {', '.join(absent)}")
    for key, expected in kind.required_values.items():
        if raw.get(key, expected) != expected:
            faults.append(f"{key}: expected {expected!r}, found {raw[key]!r}")
    if faults:
        raise InputError(f"{path}: {'; '.join(faults)}")
    fields = {field: raw[key] for field, key in kind.config_keys.items() if key in raw}
    try:
        return kind.config(**fields)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def architecture(model_type: Any) -> Architecture:
    """The architecture of a `model_type`.

    Raises:
        InputError: it is not supported.

    Example:
        >>> architecture("roberta").class_name
        'RobertaModel'
        >>> architecture("gpt2")
        Traceback (most recent call last):
        hardem_jax.errors.InputError: model_type: expected one of bert, roberta, xlm-roberta, \
found 'gpt2'
    """
    if not isinstance(model_type, str) or model_type not in _MODULES:
        names = ", ".join(_MODULES)
        raise InputError(f"model_type: expected one of {names}, found {model_type!r}")
    module = importlib.import_module(f"{__package__}.{_MODULES[model_type]}")
    return module.ARCHITECTURE


def untrained_encoder(
    config: EncoderConfig,
    *,
    dtype: DTypeLike = jnp.float32,
    remat: Remat = "none",
    attention: Implementation = "auto",
    scan_layers: bool = False,
) -> Encoder:
    """An encoder with random weights; inside `nnx.eval_shape`, one without any.

    Args:
        config: of any architecture.
        dtype, remat, attention, scan_layers: see `TransformerEncoder`.
    """
    return architecture(config.model_type).encoder(
        config,
        rngs=nnx.Rngs(0),
        dtype=dtype,
        remat=remat,
        attention=attention,
        scan_layers=scan_layers,
    )


def fill(abstract: Any, params: Mapping[str, np.ndarray]) -> Any:
    """A module with these parameters, by dotted path, whose shapes have been checked.

    Args:
        abstract: the module with shapes for parameters, from `nnx.eval_shape`.
        params: all of its parameters.

    Example:
        >>> abstract = nnx.eval_shape(lambda: nnx.Linear(1, 2, use_bias=False, rngs=nnx.Rngs(0)))
        >>> fill(abstract, {"kernel": np.ones((1, 2))})(jnp.ones((1, 1))).tolist()
        [[1.0, 1.0]]
    """
    graphdef, state = nnx.split(abstract, nnx.Param)
    filled = jax.tree_util.tree_map_with_path(
        lambda path, _: jnp.asarray(params[_dotted(path)]), nnx.to_pure_dict(state)
    )
    nnx.replace_by_pure_dict(state, filled)
    return nnx.merge(graphdef, state)


def flat_params(module: Any) -> dict[str, Any]:
    """The parameters of a module by dotted path, such as `layers.0.query.kernel`.

    Example:
        >>> {path: x.shape for path, x in flat_params(nnx.Linear(1, 2, rngs=nnx.Rngs(0))).items()}
        {'bias': (2,), 'kernel': (1, 2)}
    """
    tree = nnx.to_pure_dict(nnx.state(module, nnx.Param))
    return {_dotted(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(str(entry.key) for entry in path)
