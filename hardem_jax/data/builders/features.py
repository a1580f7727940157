"""Records as TFDS stores them: `tf.train.Example` protocol buffers in ArrayRecord files."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.example_serializer import ExampleSerializer
from tensorflow_datasets.proto import tf_example_pb2

from hardem_jax.data.data_sets import Record, RecordKind

#: Version of records and their order. Raise it with any change in what a build of the same files
#: holds.
FORMAT = "build 11"

BUILD_FILE = "build.json"


def index_file(split: str) -> str:
    """The name of the file with the index of a split."""
    return f"{split}.index.json"


def features_of(kind: RecordKind) -> tfds.features.FeaturesDict:
    """The TFDS features of a kind of record."""
    return _features(kind.name, kind.texts, kind.lists, kind.numbers, tuple(kind.arrays.items()))


@functools.cache
def _features(name_of_kind, texts, lists, numbers, arrays) -> tfds.features.FeaturesDict:
    features = tfds.features
    found: dict[str, Any] = {name: features.Text() for name in texts}
    found |= {name: features.Sequence(features.Text()) for name in lists}
    found |= {name: features.Scalar(np.int64) for name in numbers}
    for name, (dtype, width) in arrays:
        shape = (None,) if width is None else (None, width)
        found[name] = features.Tensor(shape=shape, dtype=np.dtype(dtype), encoding="bytes")
    return features.FeaturesDict(found)


def serialize(kind: RecordKind, record: Record) -> bytes:
    """A record as a `tf.train.Example`, with the order of its map fixed: the same bytes in every
    process."""
    features = features_of(kind)
    specs: Any = features.get_serialized_info()
    example: Any = ExampleSerializer(specs).get_tf_example(features.encode_example(record))
    return example.SerializeToString(deterministic=True)


def parse(kind: RecordKind, data: bytes) -> Record:
    """The record that `serialize` wrote; several times as fast as TFDS reads it."""
    protocol: Any = tf_example_pb2
    features = protocol.Example.FromString(data).features.feature
    record: Record = {n: features[n].bytes_list.value[0].decode() for n in kind.texts}
    for name in kind.lists:
        record[name] = [text.decode() for text in features[name].bytes_list.value]
    for name in kind.numbers:
        record[name] = features[name].int64_list.value[0]
    for name, (dtype, width) in kind.arrays.items():
        array = np.frombuffer(features[name].bytes_list.value[0], dtype)
        record[name] = array if width is None else array.reshape(-1, width)
    return record
