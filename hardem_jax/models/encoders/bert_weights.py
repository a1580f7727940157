"""BERT checkpoints in Hugging Face layout: read into `Bert`, and written for PyTorch to read.

One table says where every weight goes and how; reading and writing both follow it, and a
checkpoint that does not match it exactly is refused with the whole list of differences.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from hardem_jax.errors import InputError
from hardem_jax.models.encoders.bert import Bert, BertConfig, Remat
from hardem_jax.models.encoders.checkpoint_files import (
    checkpoint_folder,
    read_config,
    read_weights,
    write_checkpoint,
)
from hardem_jax.models.ops.attention import Implementation

# Transforms, each its own inverse: PyTorch keeps dense kernels as [outputs, inputs].
_TRANSFORMS = {"keep": lambda x: x, "transpose": lambda x: x.T}

# Regex of the checkpoint's name -> (path in `Bert`, transform). In a regex the dots are literal
# (see `_pattern`), `#` is a layer number, and it is the `#` of the path too.
_TABLE = {
    "embeddings.word_embeddings.weight": ("embeddings.word", "keep"),
    "embeddings.position_embeddings.weight": ("embeddings.position", "keep"),
    "embeddings.token_type_embeddings.weight": ("embeddings.token_type", "keep"),
    "embeddings.LayerNorm.weight": ("embeddings.norm.scale", "keep"),
    "embeddings.LayerNorm.bias": ("embeddings.norm.bias", "keep"),
}
for _theirs, _ours in {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attention_output",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
}.items():
    _TABLE[f"encoder.layer.#.{_theirs}.weight"] = (f"layers.#.{_ours}.kernel", "transpose")
    _TABLE[f"encoder.layer.#.{_theirs}.bias"] = (f"layers.#.{_ours}.bias", "keep")
for _theirs, _ours in {
    "attention.output.LayerNorm": "attention_norm",
    "output.LayerNorm": "output_norm",
}.items():
    _TABLE[f"encoder.layer.#.{_theirs}.weight"] = (f"layers.#.{_ours}.scale", "keep")
    _TABLE[f"encoder.layer.#.{_theirs}.bias"] = (f"layers.#.{_ours}.bias", "keep")

# Parts of BERT checkpoints that the encoder has no use for: the pooler and the pre-training heads
# sit on top of it, and the position ids are the numbers 0, 1, 2 ...
_NOT_USED = re.compile(r"pooler\..*|cls\..*|embeddings\.position_ids")

_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def load_bert(
    name_or_path: str | os.PathLike[str],
    *,
    num_layers: int | None = None,
    dtype: DTypeLike = jnp.float32,
    remat: Remat = "none",
    attention: Implementation = "auto",
    scan_layers: bool = False,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
) -> Bert:
    """A pretrained encoder from the Hugging Face hub or a local folder.

    Reads `model.safetensors`, its sharded form with an index, or `pytorch_model.bin` (sharded or
    not; needs torch), in float32, float16 or bfloat16, named with or without a `bert.` prefix and
    with `gamma`/`beta` or `weight`/`bias`. The pooler (`pooler.*`), the pre-training heads
    (`cls.*`) and `embeddings.position_ids` are not used; any other name that the encoder does not
    know is an error.

    Args:
        name_or_path: a folder with `config.json` and weights, or a model name on the hub.
        num_layers: keep only the first so many layers; `None` keeps all.
        dtype, remat, attention, scan_layers: see `Bert`.
        hidden_dropout, attention_dropout: replace the rates of `config.json`.

    Returns:
        The encoder, parameters in float32.

    Raises:
        InputError: the checkpoint cannot be had or read, or its weights and its config disagree;
            one message lists all missing, unused, doubled and misshapen weights.

    Example:
        >>> import tempfile
        >>> config = BertConfig(100, 8, 2, 2, 16)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_bert(Bert(config, rngs=nnx.Rngs(0)), folder)
        ...     bert = load_bert(folder, num_layers=1, hidden_dropout=0.0)
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

    def build(scan: bool) -> Bert:
        return Bert(
            config,
            rngs=nnx.Rngs(0),
            dtype=dtype,
            remat=remat,
            attention=attention,
            scan_layers=scan,
        )

    shapes = _flat_params(nnx.eval_shape(lambda: build(False)))
    weights = _convert(read_weights(folder), shapes, depth, str(folder))
    if scan_layers:
        weights = _stack_layers(weights, config.num_hidden_layers)
    return _fill(nnx.eval_shape(lambda: build(scan_layers)), weights)


def save_bert(bert: Bert, folder: str | os.PathLike[str]) -> None:
    """Write `config.json` and `model.safetensors` that Hugging Face `BertModel` loads.

    Weights are float32. There is no pooler to write: PyTorch users pass
    `add_pooling_layer=False`, or get a freshly initialised one.

    Args:
        bert: the encoder, stacked or not.
        folder: made if absent; files of an earlier save are replaced.

    Example:
        >>> import tempfile
        >>> bert = Bert(BertConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_bert(bert, folder)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['config.json', 'model.safetensors']
    """
    params = {name: np.asarray(value, np.float32) for name, value in _flat_params(bert).items()}
    if bert.scan_layers:
        params = _unstack_layers(params, bert.config.num_hidden_layers)
    tensors = {}
    for path, value in params.items():
        name, transform = _their_name(path)
        tensors[name] = _TRANSFORMS[transform](value)
    write_checkpoint(Path(folder), bert.config, tensors)


def load_bert_config(name_or_path: str | os.PathLike[str]) -> BertConfig:
    """The configuration of a checkpoint, without its weights.

    Args:
        name_or_path: a folder with `config.json`, or a model name on the hub.

    Raises:
        InputError: `config.json` is missing or broken, lacks keys, or describes something other
            than a BERT encoder with absolute positions.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_bert(Bert(BertConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0)), folder)
        ...     load_bert_config(folder).intermediate_size
        16
    """
    return read_config(checkpoint_folder(name_or_path, weights=False))


# --- names ---------------------------------------------------------------------------------------


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(re.escape("#"), r"(\d+)"))


_PATTERNS = [(_pattern(theirs), *target) for theirs, target in _TABLE.items()]
_BY_PATH = {ours: (theirs, transform) for theirs, (ours, transform) in _TABLE.items()}


def _our_name(name: str) -> tuple[str, str] | None:
    """Path in `Bert` and transform for a checkpoint's name, or `None` if the table lacks it."""
    name = name.removeprefix("bert.")
    for old, new in _OLD_NAMES.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    for pattern, ours, transform in _PATTERNS:
        if match := pattern.fullmatch(name):
            return ours.replace("#", match.group(1) if match.groups() else ""), transform
    return None


def _convert(
    weights: Mapping[str, np.ndarray],
    shapes: Mapping[str, Any],
    layers_in_file: int,
    source: str,
) -> dict[str, np.ndarray]:
    """Checkpoint tensors as float32 by path in `Bert`, or one error with everything wrong."""
    found: dict[str, np.ndarray] = {}
    origin: dict[str, str] = {}
    faults: list[str] = []
    for name, value in sorted(weights.items()):
        target = _our_name(name)
        if target is None:
            if not _NOT_USED.fullmatch(name.removeprefix("bert.")):
                faults.append(f"not used: {name}")
            continue
        path, transform = target
        if path not in shapes:
            # A layer that num_layers leaves out, or one that the config does not speak of.
            if int(path.split(".")[1]) >= layers_in_file:
                faults.append(f"not used: {name} (the config has {layers_in_file} layers)")
            continue
        if path in found:
            faults.append(f"doubled: {origin[path]} and {name}")
            continue
        origin[path] = name
        found[path] = np.ascontiguousarray(_TRANSFORMS[transform](value), np.float32)
        if found[path].shape != shapes[path].shape:
            expected = _TRANSFORMS[transform](np.empty(shapes[path].shape, np.bool_)).shape
            faults.append(f"misshapen: {name} expected {expected}, found {value.shape}")
    missing = sorted(_their_name(path)[0] for path in set(shapes) - set(found))
    faults += [f"missing: {name}" for name in missing]
    if faults:
        raise InputError(
            f"{source}: weights do not fit the config in {len(faults)} places: {'; '.join(faults)}"
        )
    return found


def _their_name(path: str) -> tuple[str, str]:
    """The checkpoint's name and transform for a path in `Bert` (unstacked)."""
    number = re.search(r"\d+", path)
    digits = number.group() if number else ""
    template = re.sub(r"\d+", "#", path)
    theirs, transform = _BY_PATH[template]
    return theirs.replace("#", digits), transform


def _fill(abstract: Bert, weights: Mapping[str, np.ndarray]) -> Bert:
    """The encoder of these shapes with these parameters, which `_convert` has checked."""
    graphdef, state = nnx.split(abstract, nnx.Param)
    filled = jax.tree_util.tree_map_with_path(
        lambda path, _: jnp.asarray(weights[_dotted(path)]), nnx.to_pure_dict(state)
    )
    nnx.replace_by_pure_dict(state, filled)
    return nnx.merge(graphdef, state)


def _flat_params(bert: Bert) -> dict[str, Any]:
    """Parameters by dotted path, such as `layers.0.query.kernel`."""
    tree = nnx.to_pure_dict(nnx.state(bert, nnx.Param))
    return {_dotted(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(str(entry.key) for entry in path)


def _stack_layers(weights: Mapping[str, np.ndarray], depth: int) -> dict[str, np.ndarray]:
    stacked = {name: value for name, value in weights.items() if not name.startswith("layers.")}
    for name in weights:
        if name.startswith("layers.0."):
            rest = name.removeprefix("layers.0.")
            stacked[f"layers.{rest}"] = np.stack(
                [weights[f"layers.{layer}.{rest}"] for layer in range(depth)]
            )
    return stacked


def _unstack_layers(params: Mapping[str, np.ndarray], depth: int) -> dict[str, np.ndarray]:
    unstacked = {}
    for name, value in params.items():
        if name.startswith("layers."):
            rest = name.removeprefix("layers.")
            unstacked |= {f"layers.{layer}.{rest}": value[layer] for layer in range(depth)}
        else:
            unstacked[name] = value
    return unstacked
