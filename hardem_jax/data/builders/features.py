"""Records of a built data set: what is stored of a question and its Z, and the way back.

Four kinds of record, one for each task. They hold texts and no tokens: Z is given in characters of
the documents, in rows of equations, of queries, or of programs.

==========  =======================================================  ==================
kind        Z                                                        becomes
==========  =======================================================  ==================
"reading"   ``mentions`` ``[Z, 3]`` int32: document, start, end      `ReadingExample`
"numeric"   ``equations`` ``[Z, 4]`` int32, see `NumericQuestion`    `NumericQuestion`
"queries"   ``queries`` ``[Z, 15]`` int16, see `QueryQuestion`       `QueryQuestion`
"programs"  ``programs`` ``[Z, 5]`` int16, see `ProgramQuestion`     `ProgramQuestion`
==========  =======================================================  ==================

Arrays are stored as their bytes, since the floats of a plain `Tensor` feature lose half of their
digits on disk. Cells and golds, which mix types, are stored as JSON.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core.example_serializer import ExampleSerializer
from tensorflow_datasets.proto import tf_example_pb2

from hardem_jax.data.examples import (
    Document,
    NumericQuestion,
    ProgramQuestion,
    QueryQuestion,
    ReadingExample,
)
from hardem_jax.data.solve import missing_cell
from hardem_jax.solutions.programs.types import ROW_WIDTH as PROGRAM_WIDTH
from hardem_jax.solutions.sql.enumeration import ROW_WIDTH, Table

Kind = Literal["reading", "numeric", "queries", "programs"]
Record = dict[str, Any]

# Name -> (dtype, width): an array with as many rows as there are; None for one dimension.
_ARRAYS: dict[Kind, dict[str, tuple[str, int | None]]] = {
    "reading": {"mentions": ("int32", 3), "true_mention": ("int32", 3)},
    "numeric": {
        "spans": ("int32", 2),
        "values": ("float64", None),
        "kinds": ("int8", None),
        "equations": ("int32", 4),
    },
    "queries": {"words": ("int32", 2), "queries": ("int16", ROW_WIDTH)},
    "programs": {
        "words": ("int32", 2),
        "fields": ("int32", 3),
        "links": ("int16", 4),
        "link_rows": ("int32", None),
        "programs": ("int16", PROGRAM_WIDTH),
    },
}
#: Kinds whose records hold a table.
TABLE_KINDS = ("queries", "programs")
_TABLE = ("table_id", "header", "types", "rows", "defect")
_TEXTS: dict[Kind, tuple[str, ...]] = {
    "reading": ("id", "question"),
    "numeric": ("id", "passage_id", "passage", "question", "golds"),
    "queries": ("id", "question", "answer", "match", "values", *_TABLE),
    "programs": ("id", "question", "answer", "values", *_TABLE),
}
_LISTS: dict[Kind, tuple[str, ...]] = {
    "reading": ("document_ids", "documents", "aliases", "golds"),
    "numeric": (),
    "queries": (),
    "programs": (),
}
_NUMBERS: dict[Kind, tuple[str, ...]] = {
    "reading": (),
    "numeric": ("true_equation",),
    "queries": ("num_queries", "max_conditions"),
    "programs": ("num_programs",),
}


@functools.cache
def features_of(kind: Kind) -> tfds.features.FeaturesDict:
    """The TFDS features of a kind of record."""
    features = tfds.features
    found: dict[str, Any] = {name: features.Text() for name in _TEXTS[kind]}
    found |= {name: features.Sequence(features.Text()) for name in _LISTS[kind]}
    found |= {name: features.Scalar(np.int64) for name in _NUMBERS[kind]}
    for name, (dtype, width) in _ARRAYS[kind].items():
        shape = (None,) if width is None else (None, width)
        found[name] = features.Tensor(shape=shape, dtype=np.dtype(dtype), encoding="bytes")
    return features.FeaturesDict(found)


def serialize(kind: Kind, record: Record) -> bytes:
    """A record as a `tf.train.Example`, the same bytes in every process.

    The order of a protocol buffer's map, which TFDS leaves to chance, is fixed here.
    """
    features = features_of(kind)
    specs: Any = features.get_serialized_info()
    example: Any = ExampleSerializer(specs).get_tf_example(features.encode_example(record))
    return example.SerializeToString(deterministic=True)


def parse(kind: Kind, data: bytes) -> Record:
    """The record that `serialize` wrote; several times as fast as TFDS reads it."""
    protocol: Any = tf_example_pb2
    features = protocol.Example.FromString(data).features.feature
    record: Record = {n: features[n].bytes_list.value[0].decode() for n in _TEXTS[kind]}
    for name in _LISTS[kind]:
        record[name] = [text.decode() for text in features[name].bytes_list.value]
    for name in _NUMBERS[kind]:
        record[name] = features[name].int64_list.value[0]
    for name, (dtype, width) in _ARRAYS[kind].items():
        array = np.frombuffer(features[name].bytes_list.value[0], dtype)
        record[name] = array if width is None else array.reshape(-1, width)
    return record


def facts(kind: Kind, record: Record) -> dict[str, Any]:
    """What is counted of a record: id, |Z| ("found"), on tables also what the rules' cap left."""
    if kind in TABLE_KINDS:
        names = ("table_id", "defect", *(("max_conditions",) if kind == "queries" else ()))
        sizes = {"found": int(record[f"num_{kind}"]), "kept": len(record[kind])}
        found = {"id": record["id"], **sizes, **{name: record[name] for name in names}}
        if kind == "queries" and not sizes["found"]:
            answer, rows = (json.loads(record[name]) for name in ("answer", "rows"))
            found["note"] = missing_cell(record["match"], answer, rows)
        return found
    found = len(record["mentions" if kind == "reading" else "equations"])
    return {"id": record["id"], "found": found}


def reading_record(example: ReadingExample) -> Record:
    """The record of an example that brings its Z as ``mentions``.

    Raises:
        ValueError: ``mentions`` is None, or ``all_required`` is set, which a record does not hold.

    Example:
        >>> document = Document("Rome#0", "Rome is old.")
        >>> example = ReadingExample("q", "Which?", (document,), ("Rome",), ("Rome",),
        ...     mentions=((0, 0, 4),))
        >>> to_reading_example(reading_record(example)) == example
        True
    """
    if example.mentions is None:
        raise ValueError(f"{example.id}: expected mentions, found None")
    if example.all_required:
        raise ValueError(f"{example.id}: expected alternatives as aliases, found all_required")
    true = () if example.true_mention is None else (example.true_mention,)
    return {
        "id": example.id,
        "question": example.question,
        "document_ids": [document.id for document in example.documents],
        "documents": [document.text for document in example.documents],
        "aliases": list(example.aliases),
        "golds": list(example.golds),
        "mentions": np.array(example.mentions, np.int32).reshape(-1, 3),
        "true_mention": np.array(true, np.int32).reshape(-1, 3),
    }


def to_reading_example(record: Mapping[str, Any]) -> ReadingExample:
    """The inverse of `reading_record`."""
    true = record["true_mention"].tolist()
    return ReadingExample(
        id=record["id"],
        question=record["question"],
        documents=tuple(map(Document, record["document_ids"], record["documents"])),
        aliases=tuple(record["aliases"]),
        golds=tuple(record["golds"]),
        true_mention=_triple(true[0]) if true else None,
        mentions=tuple(map(_triple, record["mentions"].tolist())),
    )


def numeric_record(question: NumericQuestion) -> Record:
    """The record of a question on numbers.

    Example:
        >>> from hardem_jax.data.examples import NumericExample
        >>> from hardem_jax.data.solve import numeric_question
        >>> from hardem_jax.solutions.equations.enumeration import EquationRules
        >>> from hardem_jax.solutions.equations.numbers import NumberConfig
        >>> example = NumericExample("q", "p", "41 yards, then 38.", "How many more?", 3.0, ())
        >>> record = numeric_record(numeric_question(example, NumberConfig(), EquationRules()))
        >>> to_numeric_question(record).equations.tolist()
        [[10, 1, 11, 2]]
    """
    return {
        "id": question.id,
        "passage_id": question.passage_id,
        "passage": question.passage,
        "question": question.question,
        "golds": _to_json(question.golds),
        "true_equation": question.true_equation,
        **{name: getattr(question, name) for name in _ARRAYS["numeric"]},
    }


def to_numeric_question(record: Mapping[str, Any]) -> NumericQuestion:
    """The inverse of `numeric_record`; ``golds`` is a list."""
    return NumericQuestion(
        **{name: record[name] for name in _TEXTS["numeric"] if name != "golds"},
        golds=json.loads(record["golds"]),
        true_equation=record["true_equation"],
        **{name: record[name] for name in _ARRAYS["numeric"]},
    )


def query_record(question: QueryQuestion, table: Table, defect: str = "") -> Record:
    """The record of a question on a table; ``defect`` says why it is left out, if so.

    Example:
        >>> table = Table("1-1", ("player", "no."), ("text", "real"), (("ann", 7), ("bo", None)))
        >>> question = QueryQuestion("q", "Who?", "1-1", ["ann"], "execution", None,
        ...     np.array([[0, 3]], np.int32), np.zeros((0, 15), np.int16), 0)
        >>> to_table(query_record(question, table)) == table
        True
    """
    return {
        "id": question.id,
        "question": question.question,
        "answer": _to_json(question.answer),
        "match": question.match,
        "values": _to_json(question.values),
        **_table_record(table),
        "defect": defect,
        "num_queries": question.num_queries,
        "max_conditions": question.max_conditions,
        "words": question.words,
        "queries": question.queries,
    }


def to_query_question(record: Mapping[str, Any]) -> QueryQuestion:
    """The inverse of `query_record`, without the table; answer and values are lists."""
    names = ("id", "question", "table_id", "match", *_NUMBERS["queries"], *_ARRAYS["queries"])
    return QueryQuestion(
        **{name: record[name] for name in names},
        answer=json.loads(record["answer"]),
        values=json.loads(record["values"]),
    )


def program_record(question: ProgramQuestion, table: Table, defect: str = "") -> Record:
    """The record of a question whose Z are programs; arguments as in `query_record`."""
    return {
        "id": question.id,
        "question": question.question,
        "answer": _to_json(question.answer),
        "values": _to_json(question.values),
        **_table_record(table),
        "defect": defect,
        "num_programs": question.num_programs,
        **{name: getattr(question, name) for name in _ARRAYS["programs"]},
    }


def to_program_question(record: Mapping[str, Any]) -> ProgramQuestion:
    """The inverse of `program_record`, without the table; answer and values are lists."""
    names = ("id", "question", "table_id", *_NUMBERS["programs"], *_ARRAYS["programs"])
    return ProgramQuestion(
        **{name: record[name] for name in names},
        answer=json.loads(record["answer"]),
        values=json.loads(record["values"]),
    )


def to_table(record: Mapping[str, Any]) -> Table:
    """The table of a record that `query_record` or `program_record` made."""
    header, types, rows = (json.loads(record[key]) for key in ("header", "types", "rows"))
    return Table(record["table_id"], tuple(header), tuple(types), tuple(map(tuple, rows)))


def _table_record(table: Table) -> Record:
    return {
        "table_id": table.id,
        "header": _to_json(table.header),
        "types": _to_json(table.types),
        "rows": _to_json(table.rows),
    }


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _triple(row: Sequence[int]) -> tuple[int, int, int]:
    document, start, end = row
    return document, start, end
