"""Cuts documents into windows that fit the encoder, each with its Z.

Min et al., 2019, section 4.1 and appendix B: inputs of 300 wordpieces, questions of at
most 64. Windows overlap by a stride of 128, as in the released code. Every window is
read on its own and has its own Z: the mentions that lie wholly inside it.

An answer that no document holds as its own words, such as "yes", can be one of the `choices`: words
that stand in front of the document in every window, so that they are spans like any other.

If the answer consists of several texts, solutions are sets of mentions
(`hardem_jax.span_sets.solutions`). A window knows which text each mention is of, and has none of
them unless it has all texts.
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from hardem_jax.data.records import Codec
from hardem_jax.data.tokenizer import MIN_SPECIAL_TOKENS, Encoding, Tokenizer
from hardem_jax.documents.examples import ReadingExample, is_unknown
from hardem_jax.documents.mentions import (
    AliasMatcher,
    alias_forms,
    count_taggings,
    enumerate_spans,
    trim_span,
)
from hardem_jax.errors import InputError, check_texts, require
from hardem_jax.words import search_terms, split_words, squad_form, stands_alone


def check_choices(choices: Sequence[str]) -> None:
    """Raises `InputError` unless these are distinct single words, without blanks or punctuation.

    In scripts that are written without spaces, a choice may have several letters.

    Example:
        >>> check_choices(["yes", "no"])
        >>> check_choices(["do not know"])
        Traceback (most recent call last):
        hardem_jax.errors.InputError: choices: expected single words, found 'do not know'
    """
    seen = set()
    for choice in choices:
        words = split_words(choice)
        # Each word begins where the one before ends.
        if not words.forms or [0, *words.spans[:, 1]] != [*words.spans[:, 0], len(choice)]:
            raise InputError(f"choices: expected single words, found {choice!r}")
        if words.forms in seen:
            raise InputError(f"choices: expected different words, found {choice!r} twice")
        seen.add(words.forms)


@dataclasses.dataclass(frozen=True)
class WindowConfig:
    """How documents become windows.

    Attributes:
        max_tokens: tokens of a window, question and special tokens included.
        stride: tokens from the start of one window to the start of the next.
        max_question_tokens: longer questions are cut.
        max_windows: windows kept per question, those most similar to it by TF-IDF;
            None keeps all. The paper filters but does not say how many remain.
        choices: words in front of the document in every window, such as "yes" and "no". If an
            answer equals a choice, only the choice counts as a mention of it; all other answers are
            searched for in the documents only. The choice "unknown" means that the question has no
            answer; it is left out of Z if the golds name one.
    """

    max_tokens: int = 300
    stride: int = 128
    max_question_tokens: int = 64
    max_windows: int | None = 16
    choices: tuple[str, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "choices", check_texts(self.choices, "choices"))
        check_choices(self.choices)
        require(self, "max_tokens", "stride", "max_question_tokens", "max_windows", at_least=1)
        self.check_room(MIN_SPECIAL_TOKENS)

    def check_room(self, num_special_tokens: int, num_choice_tokens: int = 0) -> None:
        """Raises `InputError` if windows with so many other tokens cannot cover a document."""
        room = self.max_tokens - self.max_question_tokens - num_special_tokens - num_choice_tokens
        if room < 1:
            choices = f", {num_choice_tokens} tokens of choices" if num_choice_tokens else ""
            raise InputError(
                "max_tokens: expected room for a document besides max_question_tokens "
                f"({self.max_question_tokens}){choices} and {num_special_tokens} special tokens, "
                f"found {self.max_tokens}"
            )
        if self.stride > room:
            raise InputError(
                f"stride: expected at most {room}, the document tokens of a window with the "
                f"longest question, found {self.stride}, which would leave gaps between windows"
            )


@dataclasses.dataclass(frozen=True)
class Window:
    """One input of the encoder.

    Attributes:
        example_id: of the question.
        document: index of the document in the example.
        text: the choices, a blank after each, and the document text that the window covers.
        text_start: character of the document at which its part of ``text`` begins.
        token_ids: ``[T]`` int32, question and context with the tokenizer's special tokens:
            [CLS] question [SEP] context [SEP] for BERT.
        context_start: position of the first context token.
        offsets: ``[C, 2]`` int32, character span in ``text`` of each context token.
        solutions: ``[Z, 2]`` int32, first and last token of each mention, in document order.
        true_solution: index of the annotated mention in ``solutions``; -1 if unknown or outside.
        lead: characters of ``text`` that are choices, see `WindowConfig`.
        texts: ``[Z]`` int32, where an answer consists of several texts, which one each of
            ``solutions`` is a mention of; None elsewhere.
    """

    example_id: str
    document: int
    text: str
    text_start: int
    token_ids: np.ndarray
    context_start: int
    offsets: np.ndarray
    solutions: np.ndarray
    true_solution: int = -1
    lead: int = 0
    texts: np.ndarray | None = None

    @property
    def id(self) -> str:
        """Of its question."""
        return self.example_id

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_solutions(self) -> int:
        """|Z|: mentions, or sets of them.

        Sets count even if their mentions overlap, so that a window with all texts of an answer has
        a Z: no tagging is learned from it, but that the answer is here.
        """
        return len(self.solutions) if self.texts is None else count_taggings(self.texts)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words in front of the document."""
        return tuple(self.text[: self.lead].split())

    @property
    def unknown(self) -> tuple[int, int, int] | None:
        """Place of the choice that says that there is no answer; None if that is no choice."""
        start = -self.lead
        for choice in self.choices:
            if is_unknown(choice):
                return self.document, start, start + len(choice)
            start += len(choice) + 1
        return None

    def span_text(self, first: int, last: int) -> str:
        """The text of the tokens ``first`` to ``last``, positions in the window."""
        start = self.offsets[first - self.context_start, 0]
        return self.text[start : self.offsets[last - self.context_start, 1]]

    def place(self, first: int, last: int) -> tuple[int, int, int]:
        """Document, start and exclusive end of the tokens ``first`` to ``last``, in characters.

        For a choice, start and end are zero or negative, for choices precede the document.
        """
        start = int(self.offsets[first - self.context_start, 0]) - self.lead
        end = int(self.offsets[last - self.context_start, 1]) - self.lead
        shift = self.text_start if start >= 0 else 0
        return self.document, start + shift, end + shift


WINDOWS = Codec(
    Window,
    {
        "token_ids": ("<i4", (-1,)),
        "offsets": ("<i4", (-1, 2)),
        "solutions": ("<i4", (-1, 2)),
        "texts": ("<i4", (-1,)),
    },
    sizes=lambda window: (window.num_tokens, window.num_solutions),
)


def make_windows(
    example: ReadingExample, tokenizer: Tokenizer, config: WindowConfig
) -> list[Window]:
    """All windows of an example's documents, in document order, or the ``max_windows`` best.

    Args:
        example: question, documents and the aliases to look for; ``mentions``, if the
            example brings them, replace the search.
        tokenizer: of the encoder.
        config: sizes.

    Returns:
        The windows; none if every document is empty.

    Raises:
        InputError: the tokenizer's special tokens leave no room, see `WindowConfig.check_room`; or
            choices for an answer of several texts, or for one with mentions and no aliases.
    """
    if example.all_required and config.choices:
        raise InputError(
            f"choices: expected none where answers have several texts, found {config.choices}"
        )
    if config.choices and example.mentions is not None and example.golds and not example.aliases:
        # Which of them are mentions of a choice cannot be told from the answer.
        raise InputError(
            f"choices: expected none where Z holds spans near the answer, found {config.choices}"
        )
    texts = [document.text for document in example.documents]
    lead = "".join(f"{choice} " for choice in config.choices)
    question, choices, *documents = tokenizer.encode([example.question, lead.rstrip(), *texts])
    question = question.ids[: config.max_question_tokens]
    num_special, num_choice_tokens = tokenizer.template.num_special_tokens, len(choices.ids)
    config.check_room(num_special, num_choice_tokens)
    room = config.max_tokens - num_special - num_choice_tokens
    has_answer = bool(example.golds) and "" not in example.golds
    offered = {alias_forms(x) for x in config.choices if not (has_answer and is_unknown(x))}
    forms = {alias: alias_forms(alias) for alias in example.aliases}
    chosen = offered & set(forms.values())
    aliases = [alias for alias, form in forms.items() if form not in offered]
    front = _Front(
        example.id, question, lead, choices, _choice_tokens(config.choices, choices, chosen)
    )
    matchers = alias_matchers(aliases, all_required=example.all_required)
    windows = []
    for index, (text, document) in enumerate(zip(texts, documents, strict=True)):
        words = split_words(text)
        if example.mentions is not None:
            own = (span[1:] for span in example.mentions if span[0] == index)
            # An answer that is a choice is mentioned by the choice alone.
            given = [(a, b) for a, b in own if alias_forms(text[a:b]) not in chosen]
            by_text = [np.array(given, np.int32).reshape(-1, 2)]
        else:
            by_text = [enumerate_spans(words, matcher) for matcher in matchers]
        true_mention = None
        if example.true_mention is not None and example.true_mention[0] == index:
            true_mention = trim_span(words, *example.true_mention[1:])
        true_span = _to_tokens(text, document, np.array([true_mention])) if true_mention else None
        mentions, owners = _by_place([_to_tokens(text, document, spans) for spans in by_text])
        for begin, end in _cut(len(document.ids), room - len(question), config.stride):
            inside = (mentions[:, 0] >= begin) & (mentions[:, 1] < end)
            # None, unless there are some of every text, and as many places as texts.
            places = np.unique(mentions[inside], axis=0)
            inside &= len(np.unique(owners[inside])) == len(by_text) <= len(places)
            window = _window(
                front, index, text, document, mentions[inside], true_span, begin, end, tokenizer
            )
            if example.all_required:
                window = dataclasses.replace(window, texts=owners[inside])
            windows.append(window)
    if config.max_windows is None or len(windows) <= config.max_windows:
        return windows
    return _most_similar(example.question, windows, config.max_windows)


def alias_matchers(aliases: Sequence[str], *, all_required: bool) -> list[AliasMatcher]:
    """One that finds any of the aliases; or if all are required, one for each, though some may have
    the same words, for then the metrics ask for as many spans.

    Example:
        >>> len(alias_matchers(["C", "C++"], all_required=True))
        2
    """
    groups = [[alias] for alias in aliases] if all_required else [aliases]
    return [AliasMatcher(group) for group in groups]


@dataclasses.dataclass(frozen=True)
class _Front:
    """What all windows of a question begin with."""

    example_id: str
    question: np.ndarray  # its tokens
    lead: str  # the choices, with a blank after each
    choices: Encoding
    solutions: np.ndarray  # [Z, 2] int32, tokens of choices, counted from 0, that are answers


def _choice_tokens(
    choices: Sequence[str], encoded: Encoding, chosen: Collection[tuple[str, ...]]
) -> np.ndarray:
    """``[Z, 2]`` int32, first and last token of the choices whose forms are ``chosen``."""
    own, start, text = [np.zeros((0, 2), np.int32)], 0, " ".join(choices)
    for choice in choices:
        tokens = _to_tokens(text, encoded, np.array([[start, start + len(choice)]]))
        if not len(tokens):
            raise InputError(f"choices: expected words that the tokenizer keeps, found {choice!r}")
        if alias_forms(choice) in chosen:
            own.append(tokens)
        start += len(choice) + 1
    return np.concatenate(own)


def _cut(num_tokens: int, room: int, stride: int) -> Iterator[tuple[int, int]]:
    """Ranges of ``room`` document tokens, ``stride`` apart, until the end is covered."""
    begin = 0
    while begin < num_tokens:
        yield begin, min(begin + room, num_tokens)
        if begin + room >= num_tokens:
            return
        begin += stride


def _to_tokens(text: str, document: Encoding, mentions: np.ndarray) -> np.ndarray:
    """Character spans ``[M, 2]`` as sorted inclusive token ranges, without duplicates. A mention
    is left out if the metrics read more than it in its tokens."""
    first = np.searchsorted(document.offsets[:, 1], mentions[:, 0], side="right")
    last = np.searchsorted(document.offsets[:, 0], mentions[:, 1], side="left") - 1
    offsets = document.offsets
    spans = [
        (i, j)
        for i, j, (start, end) in zip(first, last, mentions, strict=True)
        # A mention made of characters that the tokenizer drops covers no token at all.
        if i <= j and not squad_form(text[offsets[i, 0] : start] + text[end : offsets[j, 1]])
    ]
    return np.unique(np.array(spans, np.int32).reshape(-1, 2), axis=0)


def _by_place(by_text: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """``[M, 2]`` and ``[M]``, mentions in document order and the number of the text of each."""
    spans = np.concatenate([np.zeros((0, 2), np.int32), *by_text])
    owners = np.repeat(np.arange(len(by_text), dtype=np.int32), [len(own) for own in by_text])
    order = np.lexsort((spans[:, 1], spans[:, 0]))
    return spans[order], owners[order]


def _window(front, index, text, document, inside, true_span, begin, end, tokenizer) -> Window:
    context_start = tokenizer.template.second_start(len(front.question))
    num_choice_tokens, num_chosen = len(front.choices.ids), len(front.solutions)
    text_start, text_end = int(document.offsets[begin, 0]), int(document.offsets[end - 1, 1])
    true_solution = -1
    if true_span is not None and len(true_span):
        hits = np.flatnonzero((inside == true_span).all(axis=1))
        true_solution = num_chosen + int(hits[0]) if len(hits) else -1
    context = np.concatenate([front.choices.ids, document.ids[begin:end]])
    offsets = document.offsets[begin:end] - text_start + len(front.lead)
    solutions = np.concatenate([front.solutions, inside - begin + num_choice_tokens])
    return Window(
        example_id=front.example_id,
        document=index,
        text=front.lead + text[text_start:text_end],
        text_start=text_start,
        token_ids=tokenizer.template.join(front.question, context),
        context_start=context_start,
        offsets=np.concatenate([front.choices.offsets, offsets]),
        solutions=solutions + context_start,
        true_solution=true_solution,
        lead=len(front.lead),
    )


def _most_similar(question: str, windows: Sequence[Window], count: int) -> list[Window]:
    """The ``count`` windows most similar to the question, in document order, by TF-IDF fitted on
    its windows only (Clark and Gardner, 2018); ties to the earlier window."""
    # Here, because they take seconds to import and every command imports this module.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
    from sklearn.metrics.pairwise import linear_kernel

    def terms(text: str) -> list[str]:
        return [
            term
            for term in search_terms(text)
            if term not in ENGLISH_STOP_WORDS and (len(term) > 1 or stands_alone(term))
        ]

    # Any: the stubs infer the type of `analyzer` from its default.
    options: dict[str, Any] = {"analyzer": terms}
    vectorizer = TfidfVectorizer(**options)
    try:
        vectors = vectorizer.fit_transform([window.text[window.lead :] for window in windows])
    except ValueError:  # nothing but stop words and punctuation: no window is better than another
        return list(windows[:count])
    # The vectors have length 1, so that their products are cosines.
    similarity = linear_kernel(vectors, vectorizer.transform([question]))[:, 0]
    return [windows[i] for i in sorted(np.argsort(-similarity, kind="stable")[:count])]
