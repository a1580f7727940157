"""A trained reader of several spans that answers questions about documents of your own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hardem_jax.documents.reader import DocumentReader, named


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSetAnswer:
    """Several texts that are the answer together.

    Attributes:
        texts: in the order of the document.
        probability: P(the window holds the answer) * P(z | window).
        spans: (document, start, end) of every mention, end exclusive.
    """

    texts: tuple[str, ...]
    probability: float
    spans: tuple[tuple[int, int, int], ...]

    @property
    def text(self) -> str:
        """The texts with bars between them."""
        return " | ".join(" ".join(text.split()) for text in self.texts)

    def _places(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            {"document": named(document, names), "start": start, "end": end}
            for document, start, end in self.spans
        ]

    def as_json(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """Texts, probability and places."""
        spans = self._places(names)
        return {"texts": list(self.texts), "probability": self.probability, "spans": spans}

    def lines(self, names: Sequence[str] = (), *, brief: bool = False) -> list[str]:
        """The texts, then the places."""
        del brief
        places = self._places(names)
        shown = ["({document}, characters {start}-{end})".format(**place) for place in places]
        return [f"{self.probability:6.1%}  {self.text}", *shown]


class SpanSetReader(DocumentReader[SpanSetAnswer]):
    """Answers questions with sets of spans, at most one of each window."""

    TASK = "taggings"

    def found(self, answer: Any, texts: Sequence[str]) -> SpanSetAnswer:
        return SpanSetAnswer(texts=answer.texts, probability=answer.probability, spans=answer.spans)


READER = SpanSetReader
