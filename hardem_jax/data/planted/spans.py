"""A synthetic reading corpus in which the true solution is known.

A document is a logbook, one line per entry: who did what. A question asks about one entry,
"Who painted?"; its answer, a name, occurs in several lines, so Z contains several spans.
Only the one in the line with the verb of the question is the true solution. The others are
spurious, and only the question tells them apart:

- all people of a document have the same number of entries, so counting names does not help;
- the lines are shuffled, so the true mention is equally likely to be any element of Z;
- the two splits use different names, so answers cannot be memorised.

Example:
    >>> example = next(planted_examples(PlantedConfig(), "train"))
    >>> document, start, end = example.true_mention
    >>> example.documents[document].text[start:end] == example.golds[0]
    True
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from hardem_jax.data.examples import Document, ReadingExample
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.errors import InputError, require

QUESTION_VERBS = ("painted", "sold", "found", "broke", "stole", "cleaned", "lost", "bought")
OTHER_VERBS = ("slept", "waited", "danced", "laughed", "sang", "coughed", "prayed", "whistled")
_ONSETS = ("bar", "cal", "dor", "fen", "gil", "hol", "jas", "kel", "lor", "mar")
_ENDINGS = ("da", "bert", "mina", "vek", "los", "ric")
NAMES = tuple(onset + ending for onset in _ONSETS for ending in _ENDINGS)


@dataclasses.dataclass(frozen=True)
class PlantedConfig:
    """Size and difficulty of the corpus.

    Attributes:
        num_train, num_dev: number of questions, each with its own document.
        num_people: people per document; a random guess is correct with probability
            1 / ``num_people``.
        num_verbs: verbs that questions may ask about, a multiple of ``num_people``; each occurs
            once in every document.
        max_passing: maximum number of further entries per person, with other verbs; drawn from
            0 to this for each document.
        seed: random seed.
    """

    num_train: int = 10_000
    num_dev: int = 300
    num_people: int = 4
    num_verbs: int = 4
    max_passing: int = 2
    seed: int = 0

    def __post_init__(self):
        require(self, "num_train", "num_dev", at_least=1)
        require(self, "seed", at_least=0, below=2**32)
        if not 2 <= self.num_people <= len(NAMES) // 5:
            raise InputError(
                f"num_people: expected 2 to {len(NAMES) // 5}, found {self.num_people}"
            )
        if not 1 <= self.num_verbs <= len(QUESTION_VERBS) or self.num_verbs % self.num_people:
            raise InputError(
                f"num_verbs: expected a multiple of num_people ({self.num_people}) and at most "
                f"{len(QUESTION_VERBS)}, found {self.num_verbs}"
            )
        if not 0 <= self.max_passing <= len(OTHER_VERBS) // self.num_people:
            raise InputError(
                f"max_passing: expected 0 to {len(OTHER_VERBS) // self.num_people}, "
                f"found {self.max_passing}"
            )


def planted_examples(
    config: PlantedConfig, split: Literal["train", "dev"]
) -> Iterator[ReadingExample]:
    """Generates the questions of a split, deterministically."""
    names = split_names(config.seed, split)
    rng = np.random.default_rng((config.seed, split == "dev"))
    for number in range(config.num_dev if split == "dev" else config.num_train):
        yield _example(rng, config, f"{split}-{number}", names)


def split_names(seed: int, split: Literal["train", "dev"]) -> list[str]:
    """Returns the names used in a split: a fifth of all for dev, the rest for train."""
    order = np.random.default_rng(seed).permutation(len(NAMES))
    cut = len(NAMES) // 5
    chosen = order[:cut] if split == "dev" else order[cut:]
    return [NAMES[i].capitalize() for i in chosen]


def planted_tokenizer() -> Tokenizer:
    """Returns a tokenizer with one piece for every word of the corpus."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "?"]
    return word_tokenizer([*special, *QUESTION_VERBS, *OTHER_VERBS, *NAMES])


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """Returns a tokenizer with one piece per lower-case word; ids are indices into `words`."""
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer(tokenizer)


def _example(
    rng: np.random.Generator, config: PlantedConfig, example_id: str, names: list[str]
) -> ReadingExample:
    people = [names[i] for i in rng.choice(len(names), config.num_people, replace=False)]
    question_verbs = [QUESTION_VERBS[i] for i in rng.permutation(config.num_verbs)]
    num_others = config.num_people * int(rng.integers(config.max_passing + 1))
    other_verbs = [OTHER_VERBS[i] for i in rng.permutation(len(OTHER_VERBS))[:num_others]]
    # Verbs are dealt to people in turn, so all have the same number. Entry 0 is the true one.
    verbs = [*question_verbs, *other_verbs]
    text, true_mention = "", None
    for entry in rng.permutation(len(verbs)):
        name = people[entry % config.num_people]
        if entry == 0:
            true_mention = (0, len(text), len(text) + len(name))
        text += f"{name} {verbs[entry]}\n"
    return ReadingExample(
        id=example_id,
        question=f"Who {question_verbs[0]}?",
        documents=(Document(example_id, text),),
        aliases=(people[0],),
        golds=(people[0],),
        true_mention=true_mention,
    )
