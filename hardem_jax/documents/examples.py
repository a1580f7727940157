"""Questions with documents or passages, as readers yield them."""

from __future__ import annotations

from dataclasses import dataclass

#: The choice that says that the documents hold no answer.
UNKNOWN = "unknown"


def is_unknown(choice: str) -> bool:
    """Whether a choice says that there is no answer.

    Example:
        >>> is_unknown("Unknown"), is_unknown("no")
        (True, False)
    """
    return choice.lower() == UNKNOWN


@dataclass(frozen=True)
class Document:
    """A text that may contain an answer.

    Attributes:
        id: unique within its data set; names the source (file, article and paragraph).
        text: non-empty; all character offsets in the project refer to this string.

    Example:
        >>> Document(id="Rome#0", text="Rome is old.").text[0:4]
        'Rome'
    """

    id: str
    text: str


@dataclass(frozen=True)
class ReadingExample:
    """A question, its documents, and the answer strings that serve as weak supervision.

    Attributes:
        id: question id, by which predictions are keyed.
        question: non-empty text.
        documents: at least one, in the order of the file.
        aliases: distinct strings to search for in `documents` to build Z (Min et al., 2019,
            section 4); empty if a file for prediction gives no answers.
        golds: reference answers for the official metric, starting with the one to display;
            empty if a file for prediction gives no answers.
        true_mention: (index into `documents`, start, end) of the annotated mention, in
            characters, end exclusive; None if unknown. For measurement only, never for training.
        mentions: Z as given by the file, in its order, each like `true_mention`; None if the
            file gives no Z, an empty tuple if it gives an empty one.
        all_required: the answer consists of all `aliases`, each at one or more of its mentions,
            instead of any one of them.

    Example:
        >>> example = ReadingExample(
        ...     id="q1",
        ...     question="Which city is old?",
        ...     documents=(Document("Rome#0", "Rome is old."),),
        ...     aliases=("Rome", "Roma"),
        ...     golds=("Rome", "Roma"),
        ...     true_mention=(0, 0, 4),
        ... )
        >>> document, start, end = example.true_mention
        >>> example.documents[document].text[start:end]
        'Rome'
    """

    id: str
    question: str
    documents: tuple[Document, ...]
    aliases: tuple[str, ...]
    golds: tuple[str, ...]
    true_mention: tuple[int, int, int] | None = None
    mentions: tuple[tuple[int, int, int], ...] | None = None
    all_required: bool = False


@dataclass(frozen=True)
class OpenQuestion:
    """A question and the strings that count as its answer.

    Attributes:
        id: question id, by which predictions are keyed.
        question: text with at least one word.
        answers: reference answers for the official metric, starting with the one to display;
            empty if a file for prediction gives none.

    Example:
        >>> OpenQuestion("q1", "which city is old", ("Rome", "Roma")).answers
        ('Rome', 'Roma')
    """

    id: str
    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Passage:
    """A retrieved passage.

    Attributes:
        id: unique within the collection.
        title: title of the article; may be empty.
        text: the passage, without the title.
        score: the retriever's score, comparable only within a question; None if unknown.
        has_answer: whether the text mentions an answer; None if unknown.
    """

    id: str
    title: str
    text: str
    score: float | None = None
    has_answer: bool | None = None
