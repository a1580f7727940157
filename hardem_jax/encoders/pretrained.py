"""Loads and saves encoders as Hugging Face checkpoints, whatever their architecture."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.encoders.base import Encoder, EncoderConfig
from hardem_jax.encoders.checkpoint_files import (
    checkpoint_folder,
    read_json,
    read_weights,
    write_checkpoint,
)
from hardem_jax.encoders.config import Implementation, Remat
from hardem_jax.encoders.weights import Architecture, check_heads, stack_layers, unstack_layers
from hardem_jax.errors import InputError

#: For AutoTokenizer: whatever `tokenizer.json` says, for any ``model_type``.
TOKENIZER_CLASS = "PreTrainedTokenizerFast"

#: ``model_type`` of ``config.json`` -> the module of this folder with its ``ARCHITECTURE``.
_MODULES = {
    "bert": "bert",
    "distilbert": "distilbert",
    "dpr": "dpr",
    "electra": "electra",
    "modernbert": "modernbert",
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
    ignore: Collection[str] = (),
) -> Encoder:
    """Loads a pretrained encoder from a local folder or the Hugging Face hub.

    Reads `model.safetensors`, its sharded form with an index, or `pytorch_model.bin` (sharded or
    not; needs torch), in float32, float16 or bfloat16, with or without the name of the encoder
    before the names of its tensors (`bert.`). Poolers and pre-training heads are ignored. The heads
    of a fine-tuned model are an error unless named in `ignore`, and so is any unknown tensor.

    Args:
        name_or_path: a folder with `config.json` and weights, or a model name on the hub.
        num_layers: keep only the first `num_layers` layers; `None` keeps all.
        dtype, remat, attention, scan_layers: see `hardem_jax.encoders.base.Encoder`.
        hidden_dropout, attention_dropout: replace the rates of `config.json`.
        ignore: heads to leave out, keys of `HEADS`: `qa_outputs`, `qa_classifier`, `classifier`. A
            checkpoint need not have them. To keep the first two, see `load_reader`.

    Returns:
        The encoder that `model_type` of `config.json` names (`Bert` for `dpr`), in float32.

    Raises:
        InputError: the checkpoint cannot be found or read, its architecture is not supported, or
            its weights and its config disagree, or it has a head that is not ignored; one message
            lists all missing, unused, doubled and misshapen weights.

    Example:
        >>> import tempfile
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> config = BertConfig(100, 8, 2, 2, 16)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_encoder(Bert(config, rngs=nnx.Rngs(0)), folder)
        ...     bert = load_encoder(folder, num_layers=1, hidden_dropout=0.0)
        >>> bert.config.num_hidden_layers, bert.config.hidden_dropout
        (1, 0.0)
    """
    folder = checkpoint_folder(name_or_path, weights=True)
    kind, config = read_architecture(folder)
    try:
        return encoder_from(
            read_weights(folder),
            kind,
            config,
            num_layers=num_layers,
            hidden_dropout=hidden_dropout,
            attention_dropout=attention_dropout,
            ignore=ignore,
            dtype=dtype,
            remat=remat,
            attention=attention,
            scan_layers=scan_layers,
        )
    except InputError as error:
        named = str(error).startswith(str(folder))
        raise error if named else InputError(f"{folder}: {error}") from error


def encoder_from(
    tensors: Mapping[str, np.ndarray],
    kind: Architecture,
    full: EncoderConfig,
    *,
    num_layers: int | None = None,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    ignore: Collection[str] = (),
    scan_layers: bool = False,
    **computed: Any,
) -> Encoder:
    """The encoder in the tensors of a checkpoint of this kind, of ``full`` size.

    ``computed`` are ``dtype``, ``remat`` and ``attention``; they and the rest: see `load_encoder`.
    """
    check_heads(ignore)
    depth = full.num_hidden_layers
    if num_layers is not None and not 1 <= num_layers <= depth:
        raise InputError(f"num_layers: expected 1 to {depth}, found {num_layers}")
    changes = {
        "num_hidden_layers": num_layers,
        "hidden_dropout": hidden_dropout,
        "attention_dropout": attention_dropout,
    }
    config = dataclasses.replace(full, **{k: v for k, v in changes.items() if v is not None})

    def abstract(stacked: bool) -> Encoder:
        return nnx.eval_shape(lambda: untrained_encoder(config, scan_layers=stacked, **computed))

    shapes = flat_params(abstract(False))
    params = kind.adapt(kind.weights.read(tensors, shapes, num_layers=depth, ignore=ignore))
    return fill(abstract(scan_layers), stack_layers(params) if scan_layers else params)


def save_encoder(encoder: Encoder, folder: str | os.PathLike[str]) -> None:
    """Writes `config.json` and `model.safetensors` for Hugging Face transformers to load.

    Weights are float32. There is no pooler: PyTorch users pass `add_pooling_layer=False`, or get a
    freshly initialised one. Nor is there a tokenizer, so AutoTokenizer fails until
    `hardem_jax.data.tokenizer.Tokenizer.save_pretrained` writes one into the folder.

    Args:
        encoder: its layers may be stacked.
        folder: created if absent; files of an earlier save are replaced.

    Example:
        >>> import tempfile
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> bert = Bert(BertConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_encoder(bert, folder)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['config.json', 'model.safetensors']
    """
    kind = architecture(encoder.config.model_type)
    content = {"architectures": [kind.class_name], **config_content(encoder.config)}
    write_checkpoint(Path(folder), content, encoder_tensors(encoder))


def config_content(config: EncoderConfig) -> dict[str, Any]:
    """What `config.json` says about an encoder.

    It makes AutoTokenizer read `tokenizer.json`. By default, transformers chooses a tokenizer by
    `model_type`: one of five words, without complaint, if there are no files, and one with the
    casing of `tokenizer_config.json` if there are.
    """
    kind = architecture(config.model_type)
    content = {"model_type": config.model_type, "tokenizer_class": TOKENIZER_CLASS}
    return content | {key: getattr(config, field) for field, key in kind.config_keys.items()}


def encoder_tensors(encoder: Encoder) -> dict[str, np.ndarray]:
    """The weights of an encoder in float32, by their names in a checkpoint, without prefix."""
    params = {path: np.asarray(value, np.float32) for path, value in flat_params(encoder).items()}
    if not any(path.startswith("layers.0.") for path in params):
        params = unstack_layers(params)
    return architecture(encoder.config.model_type).weights.write(params)


def load_config(name_or_path: str | os.PathLike[str]) -> EncoderConfig:
    """The configuration of a checkpoint, without its weights.

    Args:
        name_or_path: a folder with `config.json`, or a model name on the hub.

    Raises:
        InputError: the file is missing or broken, lacks keys, or describes another kind of model.
    """
    return read_config(checkpoint_folder(name_or_path, weights=False))


def read_config(folder: Path) -> EncoderConfig:
    """The configuration in a folder's `config.json`."""
    return read_architecture(folder)[1]


def read_architecture(folder: Path) -> tuple[Architecture, EncoderConfig]:
    """The architecture of the checkpoint in a folder, and its configuration.

    `InputError`: the file is missing or broken, lacks keys, or describes another kind of model.
    """
    path = folder / "config.json"
    raw = read_json(path)
    try:
        kind = architecture(raw.get("model_type", "bert"))
        raw = kind.published(raw)
        needed = [key for field, key in kind.config_keys.items() if field not in kind.optional]
        faults = []
        if absent := [key for key in ("model_type", *needed) if key not in raw]:
            faults.append(f"missing keys {', '.join(absent)}")
        for key, expected in kind.required_values.items():
            if raw.get(key, expected) != expected:
                faults.append(f"{key}: expected {expected!r}, found {raw[key]!r}")
        if faults:
            raise InputError("; ".join(faults))
        fields = {field: raw[key] for field, key in kind.config_keys.items() if key in raw}
        return kind, kind.config(**fields)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def architecture(model_type: Any) -> Architecture:
    """The architecture of a `model_type`; `InputError` if it is not supported."""
    if not isinstance(model_type, str) or model_type not in _MODULES:
        raise InputError(f"model_type: expected one of {', '.join(_MODULES)}, found {model_type!r}")
    return importlib.import_module(f"{__package__}.{_MODULES[model_type]}").ARCHITECTURE


def untrained_encoder(config: EncoderConfig, **computed: Any) -> Encoder:
    """An encoder with random weights; inside `nnx.eval_shape`, one without any."""
    return architecture(config.model_type).encoder(config, rngs=nnx.Rngs(0), **computed)


def fill(abstract: Any, params: Mapping[str, np.ndarray]) -> Any:
    """The module ``abstract`` (from `nnx.eval_shape`) with parameters of its shapes, by path."""
    graphdef, state = nnx.split(abstract, nnx.Param)
    filled = jax.tree_util.tree_map_with_path(
        lambda path, _: jax.device_put(params[_dotted(path)]), nnx.to_pure_dict(state)
    )
    nnx.replace_by_pure_dict(state, filled)
    return nnx.merge(graphdef, state)


def flat_params(module: Any) -> dict[str, Any]:
    """The parameters of a module by dotted path, such as `layers.0.query.kernel`."""
    tree = nnx.to_pure_dict(nnx.state(module, nnx.Param))
    return {_dotted(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(str(entry.key) for entry in path)
