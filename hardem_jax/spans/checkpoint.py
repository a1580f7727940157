"""Span readers as Hugging Face checkpoints, and those that the paper's released code trained.

All of these checkpoints have span scores (``qa_outputs``); they differ in what tells whether an
input holds the answer (``qa_classifier``), which becomes the two classes of `SpanReader.selector`:

============================  ===========  ===================================================
checkpoint                    classes      selector
============================  ===========  ===================================================
`save_reader`                 2            as it is; in a file of its own
``DPRReader``                 1            its logit against 0, from the first token
qa-hard-em (released)         4            the logits of "no answer" and "span"
``BertForQuestionAnswering``  none         a new one, if ``rngs`` are given
============================  ===========  ===================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from hardem_jax.encoders.base import EncoderConfig
from hardem_jax.encoders.checkpoint_files import (
    checkpoint_folder,
    read_json,
    read_selector,
    read_torch,
    read_weights,
    write_checkpoint,
)
from hardem_jax.encoders.pretrained import (
    architecture,
    config_content,
    encoder_from,
    encoder_tensors,
    read_architecture,
)
from hardem_jax.encoders.weights import Architecture, WeightTable, dense, head_of
from hardem_jax.errors import InputError
from hardem_jax.settings import from_json
from hardem_jax.spans.model import SelectorInput, SoftmaxOver, SpanReader

_SPANS, _SELECTOR = "qa_outputs", "qa_classifier"
_TABLE = WeightTable(
    {**dense(_SPANS, "spans"), **dense(_SELECTOR, "selector")}, prefix="span_predictor.", ignored=""
)
#: Key of ``config.json`` for what other programs do not know.
_OWN = "hardem_jax"
# Classes of the released code: 0 span, 1 yes, 2 no, 3 no answer.
_RELEASED = [3, 0]


def load_reader(
    name_or_path: str | os.PathLike[str],
    *,
    softmax_over: SoftmaxOver | None = None,
    rngs: nnx.Rngs | None = None,
    **options: Any,
) -> SpanReader:
    """Loads a span reader from a local folder or the Hugging Face hub.

    Reads checkpoints of `save_reader`, of transformers (``BertForQuestionAnswering``,
    ``RobertaForQuestionAnswering``, ``DPRReader``), and of the paper's released code beside the
    ``config.json`` of their BERT. Logits are those of the original.

    Args:
        name_or_path: a folder with ``config.json`` and weights, or a model name on the hub.
        softmax_over: see `SpanReader`; None for what ``config.json`` says, and "tokens" where it
            says nothing, as such models were trained.
        rngs: stream ``params`` initialises a selector that the checkpoint lacks; an error if None.
        **options: ``dtype``, ``remat``, ``attention``, ``scan_layers``, ``hidden_dropout``,
            ``attention_dropout`` and ``ignore`` of `load_encoder`. With "qa_classifier" in
            ``ignore``, a selector in the checkpoint is left out, and a new one needs ``rngs``.

    Raises:
        InputError: the checkpoint cannot be found or read, weights are missing, unknown or of the
            wrong shape, see `load_encoder`, or "qa_outputs" is to be ignored.

    Example:
        >>> import tempfile
        >>> from hardem_jax.encoders.bert import Bert, BertConfig
        >>> bert = Bert(BertConfig(100, 8, 2, 2, 16), rngs=nnx.Rngs(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_reader(SpanReader(bert, rngs=nnx.Rngs(1)), folder)
        ...     load_reader(folder).softmax_over
        'context'
    """
    folder = checkpoint_folder(name_or_path, weights=True)
    kind, config = read_architecture(folder)
    own = _own_options(folder, softmax_over)
    try:
        tensors = _with_span_scores(read_weights(folder), folder, kind) | read_selector(folder)
        return _reader(tensors, kind, config, own, rngs, options)
    except InputError as error:
        named = str(error).startswith(str(folder))
        raise error if named else InputError(f"{folder}: {error}") from error


def load_released_reader(
    file: str | os.PathLike[str],
    encoder: EncoderConfig,
    *,
    softmax_over: SoftmaxOver = "tokens",
    **options: Any,
) -> SpanReader:
    """The reader in a file that the paper's code saved (``best-model.pt``); needs torch.

    Logits of rows without padding are those of the original. The original includes padding in the
    softmax and in the max-pooling; this implementation excludes it from both. The original ranks
    windows by the logit of "no answer" alone; here they are ranked by P(span) against it. The
    classes "yes" and "no", which do not occur in open-domain questions, are left out.

    Args:
        file: a state dict; names may begin with ``module.``, as several GPUs leave them.
        encoder: sizes of the BERT that the reader was trained on, see `load_config`.
        softmax_over: see `SpanReader`.
        **options: see `load_reader`.

    Raises:
        InputError: the file cannot be read, or does not fit.

    Example:
        >>> from hardem_jax.encoders.bert import BertConfig
        >>> load_released_reader("no/best-model.pt", BertConfig(9, 8, 2, 2, 8))
        ... # doctest: +ELLIPSIS
        Traceback (most recent call last):
        hardem_jax.errors.InputError: no/best-model.pt: ...
    """
    file = Path(file)
    tensors = {name.removeprefix("module."): x for name, x in read_torch(file).items()}
    own = {"softmax_over": softmax_over}
    try:
        return _reader(tensors, architecture(encoder.model_type), encoder, own, None, options)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error


def save_reader(
    reader: SpanReader, folder: str | os.PathLike[str], *, details: Mapping[str, Any] | None = None
) -> None:
    """Writes a span reader for ``AutoModelForQuestionAnswering`` and for `load_reader`.

    ``model.safetensors`` holds the encoder and the span scores in float32, ``selector.safetensors``
    the selector, which transformers has no place for.

    Args:
        reader: its encoder may have stacked layers.
        folder: created if absent; files of an earlier save are replaced.
        details: more to say under the key ``hardem_jax`` of ``config.json``.
    """
    config = reader.encoder.config
    kind = architecture(config.model_type)
    own = {"softmax_over": reader.softmax_over, "selector_input": reader.selector_input}
    content = {
        "architectures": [kind.reader_class_name],
        **config_content(config),
        **kind.reader_head.config,
        _OWN: {**(details or {}), **own},
    }
    encoder = encoder_tensors(reader.encoder)
    tensors = {kind.weights.prefix + name: x for name, x in encoder.items()}
    tensors |= kind.reader_head.write(_head_tensors(reader.span_scores, _SPANS), encoder)
    write_checkpoint(Path(folder), content, tensors, _head_tensors(reader.selector, _SELECTOR))


def _with_span_scores(
    tensors: Mapping[str, np.ndarray], folder: Path, kind: Architecture
) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint with span scores by the name of `_SPANS`."""
    content, head = read_json(folder / "config.json"), kind.reader_head
    for key, expected in head.config.items():
        if content.get(key) != expected:
            raise InputError(
                f"{key}: expected {expected!r}, as in readers that are exported from here, "
                f"found {content.get(key)!r}"
            )
    prefix = kind.weights.prefix
    return dict(head.read(tensors, {name.removeprefix(prefix): x for name, x in tensors.items()}))


def read_details(folder: Path) -> dict[str, Any]:
    """What `save_reader` wrote into ``config.json`` for this project; empty if nothing.

    Raises:
        InputError: the file cannot be read, or holds something other than an object for it.
    """
    file = folder / "config.json"
    content = read_json(file).get(_OWN, {})
    if not isinstance(content, dict):
        raise InputError(f"{file}: {_OWN}: expected an object, found {type(content).__name__}")
    return content


def _own_options(folder: Path, softmax_over: SoftmaxOver | None) -> dict[str, Any]:
    """Arguments of `SpanReader` that a ``config.json`` has for it."""
    content = {"softmax_over": "tokens"} | read_details(folder)
    if softmax_over is not None:
        content["softmax_over"] = softmax_over
    kinds = {"softmax_over": SoftmaxOver, "selector_input": SelectorInput}
    place = f"{folder / 'config.json'}: {_OWN}"
    return {
        name: from_json(kind, content[name], f"{place}.{name}")
        for name, kind in kinds.items()
        if name in content
    }


def _reader(
    tensors: Mapping[str, np.ndarray],
    kind: Architecture,
    config: EncoderConfig,
    own: Mapping[str, Any],
    rngs: nnx.Rngs | None,
    options: Mapping[str, Any],
) -> SpanReader:
    """The reader in the tensors of a checkpoint."""
    ignore = options.get("ignore", ())
    if _SPANS in ignore:
        raise InputError(f"ignore: expected no {_SPANS}, which a reader consists of, found it")
    if _SELECTOR in ignore:
        tensors = {name: x for name, x in tensors.items() if head_of(name) != _SELECTOR}
    heads = {name: x for name, x in tensors.items() if head_of(name) in (_SPANS, _SELECTOR)}
    selector = [x for name, x in heads.items() if head_of(name) == _SELECTOR and x.ndim == 2]
    has_selector = any(head_of(name) == _SELECTOR for name in heads)
    if not has_selector and rngs is None:
        raise InputError(
            f"expected {_SELECTOR}, which tells whether a text holds the answer, found none; "
            "load_reader makes a new one, given rngs"
        )
    num_classes = len(selector[0]) if selector else 2
    if num_classes not in (1, 2, 4):
        raise InputError(f"{_SELECTOR}: expected 1, 2 or 4 classes, found {num_classes}")
    sizes = {"spans": 2} | ({"selector": num_classes} if has_selector else {})
    shapes = {}
    for path, classes in sizes.items():
        shapes[f"{path}.kernel"] = jax.ShapeDtypeStruct((config.hidden_size, classes), np.float32)
        shapes[f"{path}.bias"] = jax.ShapeDtypeStruct((classes,), np.float32)
    found = _TABLE.read(heads, shapes, num_layers=0)
    rest = {name: x for name, x in tensors.items() if name not in heads}
    encoder = encoder_from(rest, kind, config, **options)
    if num_classes == 1:
        own = {**own, "selector_input": "first"}
    reader = SpanReader(encoder, rngs=rngs or nnx.Rngs(0), **own)
    for part in ("kernel", "bias"):
        getattr(reader.span_scores, part)[...] = jax.device_put(found[f"spans.{part}"])
        if has_selector:
            two = _two_classes(found[f"selector.{part}"])
            getattr(reader.selector, part)[...] = jax.device_put(two)
    return reader


def _two_classes(part: np.ndarray) -> np.ndarray:
    """Kernel or bias of a selector, ``[..., 1, 2 or 4]``, for the classes "no answer" and "answer".
    A single logit is one against 0, so that the probability of "answer" is its sigmoid."""
    if part.shape[-1] == 4:
        return part[..., _RELEASED]
    return np.concatenate([np.zeros_like(part), part], axis=-1) if part.shape[-1] == 1 else part


def _head_tensors(head: nnx.Linear, name: str) -> dict[str, np.ndarray]:
    """The weights of a dense layer as PyTorch has them."""
    assert head.bias is not None
    kernel, bias = (np.asarray(x[...], np.float32) for x in (head.kernel, head.bias))
    return {f"{name}.weight": kernel.T, f"{name}.bias": bias}
