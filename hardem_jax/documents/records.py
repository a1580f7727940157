"""Questions with documents and their Z: mentions, in characters of the documents; their records."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hardem_jax.data.data_sets import Record, RecordKind, Solver
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.mentions import AliasMatcher, alias_forms, enumerate_spans, trim_span
from hardem_jax.words import cuts_word, split_words

#: Reason of `ExclusionCounts`, for questions left out.
NO_PLACE = "no annotated place of the answer"


def reading_record(example: ReadingExample) -> Record:
    """The record of an example that brings its Z as ``mentions``."""
    true = () if example.true_mention is None else (example.true_mention,)
    return {
        "id": example.id,
        "question": example.question,
        "document_ids": [document.id for document in example.documents],
        "documents": [document.text for document in example.documents],
        "aliases": list(example.aliases),
        "golds": list(example.golds),
        "mentions": np.array(example.mentions or (), np.int32).reshape(-1, 3),
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


def _triple(row: Sequence[int]) -> tuple[int, int, int]:
    document, start, end = row
    return document, start, end


#: Of ``mentions``, each row: document, start, end.
RECORDS = RecordKind(
    name="documents",
    to_example=to_reading_example,
    texts=("id", "question"),
    lists=("document_ids", "documents", "aliases", "golds"),
    arrays={"mentions": ("int32", 3), "true_mention": ("int32", 3)},
    solutions="mentions",
)


def with_mentions(example: ReadingExample) -> ReadingExample:
    """The example with every mention of an alias in every document as its ``mentions``."""
    matcher = AliasMatcher(example.aliases)
    found = tuple(
        (index, start, end)
        for index, document in enumerate(example.documents)
        for start, end in enumerate_spans(split_words(document.text), matcher).tolist()
    )
    return dataclasses.replace(example, mentions=found)


def annotated_mentions(
    examples: Iterable[ReadingExample], *, skips: ExclusionCounts, choices: Collection[str] = ()
) -> Iterator[ReadingExample]:
    """The examples with their annotated mention, shrunk to whole words, as all of Z: full
    supervision, as an upper bound. Others are skipped. An answer that is one of the choices
    (`WindowConfig`) has no place in a document, and stays."""
    offered = set(map(alias_forms, choices))
    for example in examples:
        mention = None
        if example.true_mention is not None:
            document, *span = example.true_mention
            text = example.documents[document].text
            mention = trim_span(split_words(text), *span)
            # No reader answers with a part of a number, such as "700" of "1,700".
            if mention is not None and any(cuts_word(text)[list(mention)]):
                mention = None
        if mention is not None:
            yield dataclasses.replace(example, mentions=((document, *mention),))
        elif any(alias_forms(alias) in offered for alias in example.aliases):
            yield dataclasses.replace(example, mentions=())
        else:
            skips.add(NO_PLACE, example.id)


@dataclasses.dataclass(frozen=True)
class SpanSolver(Solver):
    """Mentions of the answer (Min et al., 2019, section 4.1)."""

    kind: ClassVar[RecordKind] = RECORDS

    def records(self, examples: Sequence[ReadingExample]) -> Iterator[Record]:
        return map(reading_record, map(with_mentions, examples))
