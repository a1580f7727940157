"""The inputs of models that read whole words, from prepared questions.

A batch holds, for `x` in `passage` and `question`, ``x_words`` ``[R, T]`` and ``x_chars`` ``[R, T,
C]`` int32, padded with 0, ``x_where`` ``[R, T]``, and what `pad_equations` adds.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.inputs import NumericInput, NumericInputs, pad_equations
from hardem_jax.equations.words import PAD, Vocabulary, Words, char_ids, split_words, words_at
from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class WordConfig:
    """How much of a text is read; the defaults are those of Dua et al. (2019) in training.

    Attributes:
        max_passage_words: longer passages are cut, with their numbers.
        max_question_words: longer questions are cut.
        max_word_characters: longer words are cut to this many characters.
    """

    max_passage_words: int = 400
    max_question_words: int = 50
    max_word_characters: int = 16

    def __post_init__(self) -> None:
        require(self, *(field.name for field in dataclasses.fields(WordConfig)), at_least=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordInput(NumericInput):
    """One question on one passage, in words."""

    passage_words: np.ndarray  # [P] int32
    passage_chars: np.ndarray  # [P, C] int32
    question_words: np.ndarray  # [Q] int32
    question_chars: np.ndarray  # [Q, C] int32


def read_texts(questions: Iterable[NumericQuestion], config: WordConfig) -> Iterator[Words]:
    """Every distinct passage and every question, as far as they are read, to count words in."""
    passages: set[str] = set()
    for question in questions:
        if question.passage not in passages:
            passages.add(question.passage)
            yield split_words(question.passage, limit=config.max_passage_words)
        yield split_words(question.question, limit=config.max_question_words)


class WordInputs(NumericInputs[WordInput]):
    """Questions as words and characters; a passage with several questions is held once."""

    def __init__(
        self,
        questions: Sequence[NumericQuestion],
        words: Vocabulary,
        characters: Vocabulary,
        config: WordConfig | None = None,
    ):
        config = config or WordConfig()
        length = config.max_word_characters

        def ids(text: Words) -> tuple[np.ndarray, np.ndarray]:
            return words.ids(text.texts), char_ids(text, characters, length=length)

        @functools.cache
        def passage(text: str) -> tuple[Words, np.ndarray, np.ndarray]:
            split = split_words(text, limit=config.max_passage_words)
            return split, *ids(split)

        inputs: list[WordInput] = []
        for question in questions:
            text, passage_words, passage_chars = passage(question.passage)
            asked = split_words(question.question, limit=config.max_question_words)
            question_words, question_chars = ids(asked)
            tokens = words_at(text, question.spans[:, 0])
            found = WordInput.of(
                question,
                tokens,
                tokens < len(passage_words),
                passage_words=passage_words,
                passage_chars=passage_chars,
                question_words=question_words,
                question_chars=question_chars,
            )
            inputs.append(found)
        super().__init__(inputs, [len(x.passage_words) for x in inputs])
        self.num_question_words = max(1, *(len(x.question_words) for x in inputs))


def pad_word_inputs(
    inputs: Sequence[WordInput | None],
    num_passage_words: int,
    *,
    num_question_words: int,
    num_characters: int,
    num_numbers: int,
    num_solutions: int,
) -> Arrays:
    """A batch of R inputs, None for padding, see `pad_equations`."""
    rows = len(inputs)
    batch = pad_equations(inputs, num_numbers, num_solutions)
    for text, length in (("passage", num_passage_words), ("question", num_question_words)):
        words = np.full((rows, length), PAD, np.int32)
        chars = np.full((rows, length, num_characters), PAD, np.int32)
        where = np.zeros((rows, length), bool)
        for row, item in enumerate(inputs):
            if item is not None:
                count = len(getattr(item, f"{text}_words"))
                words[row, :count] = getattr(item, f"{text}_words")
                chars[row, :count] = getattr(item, f"{text}_chars")
                where[row, :count] = True
        batch |= {f"{text}_words": words, f"{text}_chars": chars, f"{text}_where": where}
    return batch
