"""Loads parsers that the authors' code of SQLova trained (naver/sqlova, PyTorch).

That code saves the modules as ``model_best.pt`` and the encoder as ``model_bert_best.pt``. Both are
read by a `WeightTable`, which refuses anything that does not match. Three things differ from the
parameters of `SQLova`:

- an LSTM's two biases, which are only ever added, become one;
- the hidden layer of the value module has a bias, which moves into the layers that feed it;
- outputs for a fourth condition and for a fourth operator (``OP``), which no query here has, are
  left out, so that the probabilities of the rest are those given that they do not occur.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from flax import nnx

from hardem_jax.encoders.base import EncoderConfig
from hardem_jax.encoders.checkpoint_files import read_torch
from hardem_jax.encoders.pretrained import architecture, fill, flat_params, untrained_encoder
from hardem_jax.encoders.weights import Target, WeightTable, dense
from hardem_jax.errors import InputError
from hardem_jax.queries.model import SQLova

#: The authors' names of the modules, in the order of `SQLova`.
_MODULES = ("scp", "sap", "wnp", "wcp", "wop", "wvp")
_LSTMS = {"question": "enc_n", "headers": "enc_h"}
#: Parameters of which a checkpoint has more: path -> the axis, and how many it has there.
_LONGER = {
    "number.output.kernel": (1, 5),
    "number.output.bias": (0, 5),
    "operator.output.kernel": (1, 4),
    "operator.output.bias": (0, 4),
    "value.operator.kernel": (0, 4),
}
#: The bias that `SQLova` lacks, and those that its value is added to.
_EXTRA = "value.hidden.bias"
_FEEDING = ("value.context", "value.header", "value.operator")

#: Their dense layers: names in a checkpoint and parameters of `SQLova`.
_LAYERS = """
scp.W_att=attention.0 scp.W_c=select.context scp.W_hs=select.header
scp.sc_out.1=select.output sap.W_att=attention.1 sap.sa_out.0=aggregator.hidden
sap.sa_out.2=aggregator.output wnp.W_att_h=number_header wnp.W_hidden=number_hidden
wnp.W_cell=number_cell wnp.W_att_n=number_pool wnp.wn_out.0=number.hidden
wnp.wn_out.2=number.output wcp.W_att=attention.2 wcp.W_c=column.context
wcp.W_hs=column.header wcp.W_out.1=column.output wop.W_att=attention.3
wop.W_c=operator.context wop.W_hs=operator.header wop.wo_out.0=operator.hidden
wop.wo_out.2=operator.output wvp.W_att=attention.4 wvp.W_c=value.context
wvp.W_hs=value.header wvp.W_op=value.operator wvp.wv_out.0=value.hidden
wvp.wv_out.2=value.output
"""
_DENSE: dict[str, Target] = {}
for _pair in _LAYERS.split():
    _DENSE |= dense(*_pair.split("="))


def load_sqlova(
    model_file: str | os.PathLike[str], bert_file: str | os.PathLike[str], encoder: EncoderConfig
) -> SQLova:
    """The parser in the two files that naver/sqlova writes; reading them needs torch.

    The widths of the modules, the layers of their LSTMs and the layers of the encoder that they
    read follow from the files. Values are scored over wordpieces, as in the original.

    Args:
        model_file: ``model_best.pt``, a state dict under ``model``.
        bert_file: ``model_bert_best.pt``, a state dict under ``model_bert``.
        encoder: sizes of the BERT that the parser was trained on.

    Returns:
        A `SQLova` in float32 whose logits are the original's.

    Raises:
        InputError: a file cannot be read, or weights do not fit; the message lists them all.

    Example:
        >>> from hardem_jax.encoders.bert import BertConfig
        >>> load_sqlova("no/model_best.pt", "no/model_bert_best.pt", BertConfig(9, 8, 2, 2, 8))
        ... # doctest: +ELLIPSIS
        Traceback (most recent call last):
        hardem_jax.errors.InputError: no/model_best.pt: ...
    """
    model_file, bert_file = Path(model_file), Path(bert_file)
    tensors = read_torch(model_file, key="model")
    try:
        sizes = _sizes(tensors, encoder)
        num_layers = sizes["num_lstm_layers"]
        abstract = nnx.eval_shape(
            lambda: SQLova(
                untrained_encoder(encoder), **sizes, value_units="wordpieces", rngs=nnx.Rngs(0)
            )
        )
        shapes = {path: value.shape for path, value in flat_params(abstract).items()}
        params = _modules(tensors, shapes, num_layers)
    except InputError as error:
        raise InputError(f"{model_file}: {error}") from error
    encoder_shapes = flat_params(abstract.encoder)
    table = architecture(encoder.model_type).weights
    try:
        found = table.read(
            read_torch(bert_file, key="model_bert"),
            encoder_shapes,
            num_layers=encoder.num_hidden_layers,
        )
    except InputError as error:
        named = str(error).startswith(str(bert_file))
        raise error if named else InputError(f"{bert_file}: {error}") from error
    return fill(abstract, params | {f"encoder.{path}": value for path, value in found.items()})


def _sizes(tensors: Mapping[str, np.ndarray], encoder: EncoderConfig) -> dict[str, int]:
    """Arguments of `SQLova` that follow from the shapes of a checkpoint's tensors."""
    attention, lstm = "scp.W_att.weight", "scp.enc_n.weight_ih_l0"
    for name in (attention, lstm):
        if name not in tensors or tensors[name].ndim != 2:
            raise InputError(f"expected a parser of naver/sqlova, found no matrix {name}")
    inputs, width = tensors[lstm].shape[1], encoder.hidden_size
    if inputs % width or not inputs:
        raise InputError(
            f"expected inputs of layers {width} wide, the hidden_size of the encoder, found "
            f"{inputs}: the parser was trained on another encoder"
        )
    layers = [name for name in tensors if re.fullmatch(r"scp\.enc_n\.weight_ih_l\d+", name)]
    return {
        "hidden_size": tensors[attention].shape[0],
        "num_lstm_layers": len(layers),
        "num_target_layers": inputs // width,
    }


def _modules(
    tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], num_layers: int
) -> dict[str, np.ndarray]:
    """Parameters of everything but the encoder, by path."""
    targets, wanted = dict(_DENSE), {}
    for target in _DENSE.values():
        (path,) = target.paths
        shape = list(shapes.get(path, shapes["value.context.bias"]))
        if path in _LONGER:
            axis, size = _LONGER[path]
            shape[axis] = size
        wanted[path] = jax.ShapeDtypeStruct(shape, np.float32)
    for name, path, shape, transpose in _lstm_parts(shapes, num_layers):
        targets[name] = Target((path,), transpose)
        wanted[path] = jax.ShapeDtypeStruct(shape, np.float32)
    found = WeightTable(targets, prefix="", ignored="").read(tensors, wanted, num_layers=0)

    params = {target.paths[0]: found[target.paths[0]] for target in _DENSE.values()}
    for path, (axis, _) in _LONGER.items():
        params[path] = np.take(params[path], np.arange(shapes[path][axis]), axis)
    _move_bias(params)
    for text in _LSTMS:
        params |= _joined(text, found, num_layers)
    return params


def _lstm_parts(shapes: Mapping[str, tuple[int, ...]], num_layers: int):
    """Tensors of all LSTMs: name, path of the part it holds, its shape, whether it is transposed.
    Parts are named text.kind.layer.module.direction; `_joined` puts them together."""
    for text, layer, (number, module), (way, ending) in itertools.product(
        _LSTMS, range(num_layers), enumerate(_MODULES), enumerate(("", "_reverse"))
    ):
        inputs, *_, gates = shapes[f"{text}.kernel"]
        size, hidden = gates // 2, gates // 4
        for kind, tensor, shape in (
            ("input", "weight_ih", (size if layer else inputs, gates)),
            ("recurrent", "weight_hh", (hidden, gates)),
            ("input_bias", "bias_ih", (gates,)),
            ("recurrent_bias", "bias_hh", (gates,)),
        ):
            name = f"{module}.{_LSTMS[text]}.{tensor}_l{layer}{ending}"
            yield name, f"{text}.{kind}.{layer}.{number}.{way}", shape, len(shape) == 2


def _joined(text: str, parts: Mapping[str, np.ndarray], num_layers: int) -> dict[str, np.ndarray]:
    """The parameters of `BiLSTMs` from those of each LSTM, direction and layer."""

    def stacked(kind: str, layer: int) -> np.ndarray:
        return np.stack(
            [
                [parts[f"{text}.{kind}.{layer}.{module}.{way}"] for way in range(2)]
                for module in range(len(_MODULES))
            ]
        )

    params = {f"{text}.kernel": np.moveaxis(stacked("input", 0), 2, 0)}
    for layer in range(num_layers):
        params[f"{text}.recurrent.{layer}"] = stacked("recurrent", layer)
        biases = stacked("input_bias", layer) + stacked("recurrent_bias", layer)
        params[f"{text}.bias.{layer}"] = biases
        if layer:
            params[f"{text}.deeper.{layer - 1}"] = stacked("input", layer)
    return params


def _move_bias(params: dict[str, np.ndarray]) -> None:
    """Moves the bias of the value module's hidden layer into the biases of what feeds it. Of all
    shifts of these biases that add the same to the hidden layer, it takes the smallest."""
    bias = params.pop(_EXTRA).astype(np.float64)
    kernel = params["value.hidden.kernel"][: len(_FEEDING) * len(bias)].astype(np.float64)
    shift, *_ = np.linalg.lstsq(kernel.T, bias, rcond=None)
    if not np.allclose(shift @ kernel, bias, rtol=0, atol=1e-5):
        raise InputError("wvp.wv_out.0: expected a weight of full rank, found a lower one")
    for path, part in zip(_FEEDING, np.split(shift, len(_FEEDING)), strict=True):
        params[f"{path}.bias"] = (params[f"{path}.bias"] + part).astype(np.float32)
