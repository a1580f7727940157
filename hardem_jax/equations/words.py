"""Whole words for models that read word vectors: splitting, vocabularies, GloVe files, inputs.

A batch holds, for `x` in `passage` and `question`, ``x_words`` ``[R, T]`` and ``x_chars`` ``[R, T,
C]`` int32, padded with 0, ``x_where`` ``[R, T]``, and what `pad_equations` adds.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.data.json_stream import read_json_object
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.inputs import NumericInput, NumericInputs, pad_equations
from hardem_jax.errors import InputError, found_by, require
from hardem_jax.words import LETTERS_ALONE

PAD, UNKNOWN = 0, 1
NUM_SPECIAL = 2

# In order of preference at each place of the text.
_WORD = re.compile(
    rf"""
      (?:[^\W\d_]\.){{2,}}            # initials: U.S.
    | \d+(?:[.,]\d+)+               # numbers with separators: 2,582.5
    | [^\W_{LETTERS_ALONE}]+?(?=n['\u2019]t\b)     # the verb before n't
    | n['\u2019]t\b
    | ['\u2019](?:s|re|ve|ll|d|m)\b # contractions, as in the vocabularies of word vectors
    | (?:[^\W_{LETTERS_ALONE}]|\d)+  # letters and digits: 1990s
    | [^\W_]                        # a letter that is a word of its own
    | \S                            # any other character by itself, hyphens among them
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Words:
    """A text as T words, as written."""

    texts: tuple[str, ...]
    offsets: np.ndarray  # [T, 2] int32, character start and exclusive end of each word


def split_words(text: str, *, limit: int | None = None) -> Words:
    """Splits at whitespace, punctuation and hyphens; keeps at most the first `limit` words. Numbers
    keep their separators (2,582.5) and initials their dots (U.S.); contractions are cut as word
    vectors expect them (did | n't, team | 's)."""
    matches = list(itertools.islice(_WORD.finditer(text), limit))
    offsets = np.array([match.span() for match in matches], np.int32).reshape(-1, 2)
    return Words(tuple(match.group() for match in matches), offsets)


def words_at(words: Words, starts: Sequence[int] | np.ndarray) -> np.ndarray:
    """[M] int32, the word that holds each character, or else the next word; T beyond the last
    word."""
    return np.searchsorted(words.offsets[:, 1], np.asarray(starts), side="right").astype(np.int32)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Ids of words or of characters; id 0 is padding and 1 whatever is not listed in
    ``entries``."""

    entries: tuple[str, ...]
    lower: bool

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return {entry: i for i, entry in enumerate(self.entries, NUM_SPECIAL)}

    def __len__(self) -> int:
        """Number of ids, padding and unknown included."""
        return len(self.entries) + NUM_SPECIAL

    def ids(self, texts: Iterable[str]) -> np.ndarray:
        """Ids of the given strings (a string gives those of its characters), [T] int32."""
        keys = (text.lower() for text in texts) if self.lower else texts
        return np.array([self._index.get(key, UNKNOWN) for key in keys], np.int32)

    def save(self, file: str | Path) -> None:
        """Writes one JSON object, readable by `Vocabulary.load`."""
        record = {"lower": self.lower, "entries": self.entries}
        Path(file).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, file: str | Path) -> Vocabulary:
        """Reads what `save` wrote; the checksums of a run say whether it is intact."""
        record = read_json_object(file)
        return cls(tuple(record["entries"]), record["lower"])


def build_vocabularies(
    texts: Iterable[Words], *, min_words: int = 1, min_chars: int = 1
) -> tuple[Vocabulary, Vocabulary]:
    """Vocabularies of lower-cased words and of characters, most frequent first, ties in code point
    order, none of the rare."""
    lowered, chars = collections.Counter(), collections.Counter()
    for words in texts:
        lowered.update(map(str.lower, words.texts))
        chars.update("".join(words.texts))
    return (
        Vocabulary(_frequent(lowered, min_words), lower=True),
        Vocabulary(_frequent(chars, min_chars), lower=False),
    )


def _frequent(counts: collections.Counter[str], least: int) -> tuple[str, ...]:
    kept = [entry for entry, count in counts.items() if count >= least]
    return tuple(sorted(kept, key=lambda entry: (-counts[entry], entry)))


def char_ids(words: Words, vocabulary: Vocabulary, *, length: int = 16) -> np.ndarray:
    """[T, length] int32, characters of each word, cut or padded; 16 in Yu et al. (2018), section
    4.1.1."""
    ids = np.full((len(words.texts), length), PAD, np.int32)
    for row, text in zip(ids, words.texts, strict=True):
        row[: len(text)] = vocabulary.ids(text[:length])
    return ids


def load_word_vectors(
    file: str | Path, words: Vocabulary, *, size: int = 300
) -> tuple[Vocabulary, np.ndarray]:
    """The words that have a vector in a text file in GloVe's format, and [V, W] float32 vectors:
    row 0 (padding) is zero, row 1 (unknown) the mean of all others. Of a repeated word the first
    line counts; a word may contain spaces."""
    wanted = set(words.entries)
    found: dict[str, np.ndarray] = {}
    try:
        # Lines end only at "\n": some words of the published files hold other line separators.
        with open(file, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                # Millions of lines, of which thousands matter: a look at the first field will do.
                if line.count(" ") == size and line.partition(" ")[0] not in wanted:
                    continue
                word, fields = _split_line(line, size, f"{file}: line {number}")
                if word in wanted and word not in found:
                    found[word] = _vector(fields, f"{file}: line {number}: {word!r}")
    except OSError as error:
        raise InputError(f"{file}: expected a file, found {found_by(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: expected word vectors as UTF-8 text, found: {error}") from error
    if not found:
        raise InputError(f"{file}: expected vectors of some of {len(wanted)} words, found none")
    entries = tuple(entry for entry in words.entries if entry in found)
    rows = np.stack([found[entry] for entry in entries])
    special = np.stack([np.zeros(size, np.float32), rows.mean(axis=0)])
    return Vocabulary(entries, words.lower), np.concatenate([special, rows])


def _split_line(line: str, size: int, place: str) -> tuple[str, list[str]]:
    word, *fields = line.rstrip(" \r\n").rsplit(" ", size)
    # The last piece of a word with spaces, if a number, means that the line is too long.
    if len(fields) != size or (" " in word and _is_number(word.rsplit(" ", 1)[1])):
        count = max(len(line.split()) - 1, 0)
        raise InputError(f"{place}: expected a word and {size} numbers, found {count} numbers")
    return word, fields


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _vector(fields: list[str], place: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # becomes infinite, which is reported below
            vector = np.array(fields, np.float32)
    except ValueError as error:
        raise InputError(f"{place}: expected numbers, found: {error}") from error
    if not np.all(np.isfinite(vector)):
        field = fields[int(np.argmin(np.isfinite(vector)))]
        raise InputError(f"{place}: expected finite numbers, found {field}")
    return vector


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
