"""What it takes to read and write the Hugging Face checkpoints of an architecture.

Reading and writing both follow its `WeightTable`. A checkpoint that does not match is refused, with
all differences in one message.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from hardem_jax.encoders.base import Encoder, EncoderConfig
from hardem_jax.errors import InputError, check_texts

Tensors = Mapping[str, np.ndarray]
_LAYER = re.compile(r"^layers\.(\d+)\.")

#: Heads of fine-tuned checkpoints, by the name of their layer, and what they score.
HEADS = {
    "qa_outputs": "first and last tokens of an answer",
    "qa_classifier": "whether a passage holds the answer (DPR, qa-hard-em)",
    "classifier": "classes of a text or of its tokens",
}
_HEAD = re.compile(rf"(?:span_predictor\.)?({'|'.join(HEADS)})\..*")


@dataclasses.dataclass(frozen=True)
class Target:
    """Where one tensor of a checkpoint goes: dotted paths of parameters.

    Several divide it along its first axis, in order. `transpose` exchanges the axes of each part,
    for PyTorch stores dense kernels as [outputs, inputs].
    """

    paths: tuple[str, ...]
    transpose: bool = False


def embedding(name: str, path: str) -> dict[str, Target]:
    """Table entry of an embedding."""
    return {f"{name}.weight": Target((path,))}


def dense(name: str, *paths: str, bias: bool = True) -> dict[str, Target]:
    """Table entries of a dense layer; of a fused one if there are several paths."""
    kernels = Target(tuple(f"{path}.kernel" for path in paths), transpose=True)
    biases = Target(tuple(f"{path}.bias" for path in paths))
    return {f"{name}.weight": kernels} | ({f"{name}.bias": biases} if bias else {})


def layer_norm(name: str, path: str, *, bias: bool = True) -> dict[str, Target]:
    """Table entries of a layer normalisation."""
    scale = {f"{name}.weight": Target((f"{path}.scale",))}
    return scale | ({f"{name}.bias": Target((f"{path}.bias",))} if bias else {})


@dataclasses.dataclass(frozen=True)
class WeightTable:
    """Names of a checkpoint's tensors -> parameters of an encoder.

    Attributes:
        targets: by the tensor's name. `#` in a name and in its paths is the number of a layer.
        prefix: which either all names have or none: checkpoints of the whole model have it.
        ignored: regular expression of tensors that an encoder has no use for, without prefix.
        old_endings: ending of a name -> the ending that replaced it in later releases.
    """

    targets: Mapping[str, Target]
    prefix: str
    ignored: str
    old_endings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def read(
        self,
        tensors: Mapping[str, np.ndarray],
        shapes: Mapping[str, Any],
        *,
        num_layers: int,
        ignore: Collection[str] = (),
    ) -> dict[str, np.ndarray]:
        """Parameters in float32, by path, of the layers in `shapes` out of `num_layers`.

        One `InputError` lists all tensors that are missing, doubled, of the wrong shape, integers,
        unknown, or of a head that is not among `ignore`.
        """
        params: dict[str, np.ndarray] = {}
        origin: dict[str, str] = {}
        faults: list[str] = []
        wanted = {_layer_number(path) for path in shapes} | {""}
        for name, value in sorted(tensors.items()):
            target = self._target(name)
            if target is None:
                ignored = re.fullmatch(self.ignored, name.removeprefix(self.prefix))
                if head_of(name) not in ignore and not ignored:
                    faults.append(f"not used: {name}")
                continue
            first = target.paths[0]
            if first not in shapes:
                # Of a layer that the caller does not want, unless the config does not have it.
                number = _layer_number(first)
                if number in wanted:
                    faults.append(f"not used: {name}")
                elif int(number) >= num_layers:
                    faults.append(f"not used: {name} (the config has {num_layers} layers)")
                continue
            if first in origin:
                faults.append(f"doubled: {origin[first]} and {name}")
                continue
            origin |= dict.fromkeys(target.paths, name)
            order = -1 if target.transpose else 1
            parts = [shapes[path].shape[::order] for path in target.paths]
            expected = (sum(part[0] for part in parts), *parts[0][1:])
            if value.shape != expected:
                faults.append(f"misshapen: {name} expected {expected}, found {value.shape}")
                continue
            if value.dtype.kind in "iub":  # without its scale, a quantised weight is noise
                faults.append(f"not floats: {name}, found {value.dtype}")
                continue
            ends = np.cumsum([part[0] for part in parts])[:-1]
            for path, part in zip(target.paths, np.split(value, ends), strict=True):
                part = part.T if target.transpose else part
                params[path] = np.ascontiguousarray(part, np.float32)
        missing = {self._name(path)[0] for path in set(shapes) - set(origin)}
        faults += [f"missing: {name}" for name in sorted(missing)]
        if faults:
            found = {head_of(name) for name in tensors}
            heads = [head for head in HEADS if head in found and head not in ignore]
            raise InputError(
                f"weights do not fit the config in {len(faults)} places: {'; '.join(faults)}"
                + (f" ({_how_to_ignore(heads)})" if heads else "")
            )
        return params

    def write(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The tensors of a checkpoint, the inverse of `read`."""
        tensors = {}
        for name, target in dict(self._name(path) for path in params).items():
            parts = [params[path] for path in target.paths]
            tensors[name] = np.concatenate([p.T if target.transpose else p for p in parts])
        return tensors

    @functools.cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], Target]]:
        return [
            (re.compile(re.escape(name).replace(re.escape("#"), r"(\d+)")), target)
            for name, target in self.targets.items()
        ]

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        return {path: name for name, target in self.targets.items() for path in target.paths}

    def _target(self, name: str) -> Target | None:
        """Where a tensor goes, or `None` if the table does not have it."""
        name = name.removeprefix(self.prefix)
        for old, new in self.old_endings.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        for pattern, target in self._patterns:
            if match := pattern.fullmatch(name):
                return _numbered(target, match.group(1) if match.groups() else "")
        return None

    def _name(self, path: str) -> tuple[str, Target]:
        """The name of the tensor that holds a parameter, and where that tensor goes."""
        number = _layer_number(path)
        name = self._names[_LAYER.sub("layers.#.", path)]
        return name.replace("#", number), _numbered(self.targets[name], number)


def head_of(name: str) -> str | None:
    """The head of `HEADS` that a tensor belongs to, or `None`."""
    match = _HEAD.fullmatch(name)
    return match.group(1) if match else None


def check_heads(ignore: Collection[str]) -> None:
    """Raises `InputError` if one of these names is not in `HEADS`."""
    if unknown := sorted(set(check_texts(ignore, "ignore")) - set(HEADS)):
        raise InputError(f"ignore: expected some of {', '.join(HEADS)}, found {unknown[0]!r}")


def _how_to_ignore(heads: Collection[str]) -> str:
    names = ", ".join(f"{name}: {HEADS[name]}" for name in heads)
    return (
        f"heads of a fine-tuned model: {names}; to read the encoder without them, "
        f"ignore={(*heads,)!r}, or --model.ignore {' '.join(heads)}"
    )


def _numbered(target: Target, number: str) -> Target:
    paths = tuple(path.replace("#", number) for path in target.paths)
    return dataclasses.replace(target, paths=paths)


def _layer_number(path: str) -> str:
    match = _LAYER.match(path)
    return match.group(1) if match else ""


def stack_layers(params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`layers.0.x`, `layers.1.x`, ... -> `layers.x`, stacked along a new first axis."""
    stacked: dict[str, Any] = {}
    for path, value in sorted(params.items(), key=lambda item: int(_layer_number(item[0]) or -1)):
        if _LAYER.match(path):
            stacked.setdefault(_LAYER.sub("layers.", path), []).append(value)
        else:
            stacked[path] = value
    return {
        path: np.stack(value) if isinstance(value, list) else value
        for path, value in stacked.items()
    }


def unstack_layers(params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `stack_layers`."""
    unstacked = {}
    for path, value in params.items():
        if path.startswith("layers."):
            rest = path.removeprefix("layers.")
            unstacked |= {f"layers.{number}.{rest}": part for number, part in enumerate(value)}
        else:
            unstacked[path] = value
    return unstacked


@dataclasses.dataclass(frozen=True)
class ReaderHead:
    """How an architecture's class for question answering holds span scores.

    `write` maps ``qa_outputs`` and the encoder's tensors to the tensors of the class that are not
    the encoder's, `read` all tensors and the encoder's to those with ``qa_outputs``; `config` is
    what ``config.json`` says of them.
    """

    write: Callable[[Tensors, Tensors], Tensors] = lambda tensors, _: tensors
    read: Callable[[Tensors, Tensors], Tensors] = lambda tensors, _: tensors
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Architecture:
    """An encoder and its Hugging Face checkpoints.

    Attributes:
        class_name, reader_class_name: in transformers, of the latter with span scores on top.
        config_keys: field of the configuration -> key of ``config.json``.
        optional: fields whose key a ``config.json`` may lack.
        required_values: key of ``config.json`` -> the only value supported, and the default.
        published: maps a ``config.json`` of a newer transformers to the keys in `config_keys`.
        adapt: what has to change in parameters by path, once they are read.
    """

    class_name: str
    config: type[EncoderConfig]
    encoder: Callable[..., Encoder]
    weights: WeightTable
    config_keys: Mapping[str, str]
    optional: frozenset[str]
    required_values: Mapping[str, Any]
    reader_class_name: str
    reader_head: ReaderHead = ReaderHead()
    published: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda content: content
    adapt: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda params: params
