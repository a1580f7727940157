"""Draws documents and the spans marked in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardem_jax.show.record import Choose, Entry, Record, Text, everything, in_context, uses
from hardem_jax.words import triviaqa_form

if TYPE_CHECKING:
    from hardem_jax.documents.examples import ReadingExample
    from hardem_jax.documents.prepared import Question
    from hardem_jax.documents.windows import Window


#: Document, first character and exclusive end of a span.
Place = tuple[int, int, int]


def _text(label: str, place: Place, text: str, solutions: Sequence[Sequence[Place]]) -> Text:
    """A part of a document, with the spans of each solution that lie in it."""
    document, begin, end = place
    inside = [
        [(a - begin, b - begin) for n, a, b in spans if n == document and begin <= a and b <= end]
        for spans in solutions
    ]
    return Text(label, text, uses(inside), place=(document, begin))


def window_texts(windows: Sequence[Window], solutions: Sequence[Sequence[Place]]) -> list[Text]:
    """The parts of documents that windows cover, with the spans of each solution."""
    pieces = joined(windows)
    several = len({document for document, _, _ in pieces}) > 1
    texts = []
    for document, begin, text in pieces:
        label = f"Document {document + 1}" if several else "Document"
        label += f", characters {begin:,}-{begin + len(text):,}" if begin else ""
        texts.append(_text(label, (document, begin, begin + len(text)), text, solutions))
    return texts


def joined(windows: Sequence[Window]) -> list[tuple[int, int, str]]:
    """The texts that windows cover: document, first character and text of each stretch."""
    pieces: list[tuple[int, int, str]] = []
    for window in sorted(windows, key=lambda w: (w.document, w.text_start, len(w.text))):
        own = window.text[window.lead :]
        if pieces:
            document, begin, text = pieces[-1]
            gap = window.text_start - (begin + len(text))
            if document == window.document and gap <= 0:
                # What is new of it; nothing if the stretch holds all of it already.
                pieces[-1] = document, begin, text + own[-gap:]
                continue
        pieces.append((window.document, window.text_start, own))
    return pieces


def mentions_record(
    question: Question | ReadingExample,
    mentions: Mapping[Place, Entry],
    size: int,
    choose: Choose,
    texts: Callable[[Sequence[Sequence[Place]]], list[Text]],
) -> Record:
    """A question on documents with all of its Z; ``texts`` marks the spans of those chosen."""
    entries, places = [*mentions.values()], [*mentions]
    chosen = choose([entry.line for entry in entries])
    # Golds as a mention spells them: TriviaQA's are normalised.
    written = {triviaqa_form(entry.text): entry.text for entry in reversed(entries)}
    written |= {entry.text: entry.text for entry in entries}
    return Record(
        title=question.question,
        answer="; ".join(dict.fromkeys(written.get(gold, gold) for gold in question.golds)),
        solutions=[entries[number] for number in chosen],
        size=size,
        texts=texts([[places[number]] for number in chosen]),
    )


def read_windows(
    data: Any, inputs: Sequence[Window], readings: Iterable[tuple[int, Any]]
) -> Iterator[tuple[Any, list[tuple[Window, Any]]]]:
    """Each question, and its windows with what a model says about them."""
    found: list[list[tuple[Window, Any]]] = [[] for _ in data.questions]
    for index, reading in readings:
        found[data.places[index, 0]].append((inputs[index], reading))
    return zip(data.questions, found, strict=True)


#: Characters of a document that are shown around its mentions.
_MARGIN = 5000


def document_record(example: ReadingExample, choose: Choose = everything) -> Record:
    """A question on documents, of which no tokenizer has cut windows."""
    documents = example.documents
    several, mentions = len(documents) > 1, {}
    for number, (n, start, end) in enumerate(example.mentions or ()):
        text, owner = documents[n].text, f"{documents[n].id}, " if several else ""
        place, line = f"{owner}{start:,}-{end:,}", in_context(text, start, end)
        mentions[n, start, end] = Entry(number, text[start:end], place, line)

    def texts(spans: Sequence[Sequence[Place]]) -> list[Text]:
        found = []
        for n, document in enumerate(documents):
            size = len(document.text)
            label = f"Document {n + 1}: {document.id}" if several else "Document"
            for begin, end in _surroundings([(a, b) for [(m, a, b)] in spans if m == n], size):
                part = f", characters {begin:,}-{end:,} of {size:,}" if end - begin < size else ""
                found.append(_text(label + part, (n, begin, end), document.text[begin:end], spans))
        return found

    return mentions_record(example, mentions, len(mentions), choose, texts)


def _surroundings(spans: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """The parts of a text around some spans, or its beginning without any."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans) or [(_MARGIN, _MARGIN)]:
        begin, stop = max(0, start - _MARGIN), min(size, end + _MARGIN)
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((begin, stop))
    return found


def question_record(data: Any, index: int, choose: Choose = everything) -> Record:
    """A question whose documents no tokenizer has cut, with its Z."""
    return document_record(data.questions[index], choose)


def built_record(
    record: Mapping[str, Any], options: Mapping[str, Any], choose: Choose = everything
) -> Record:
    """A record of a build with its Z."""
    from hardem_jax.documents.records import to_reading_example

    del options
    return document_record(to_reading_example(record), choose)
