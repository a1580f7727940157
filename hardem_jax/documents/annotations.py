"""Annotated mentions as Z: full supervision, as an upper bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.mentions import trim_span
from hardem_jax.words import cuts_word, split_words

NO_PLACE = "no annotated place of the answer"


def annotated_mentions(
    examples: Iterable[ReadingExample], *, skips: ExclusionCounts, choices: Collection[str] = ()
) -> Iterator[ReadingExample]:
    """The examples with their annotated mention, shrunk to whole words, as all of Z; others are
    skipped.

    An answer that is one of the choices (`WindowConfig`) has no place in a document, and stays.
    """
    offered = {choice.lower() for choice in choices}
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
        elif any(alias.strip().lower() in offered for alias in example.aliases):
            yield dataclasses.replace(example, mentions=())
        else:
            skips.add(NO_PLACE, example.id)
