"""A generated reading corpus in which the true solution is known: planted solutions.

A document is a logbook, one line per entry: who did what. A question asks for one entry,
"Who painted?"; its answer, a name, stands in several lines, so that Z holds several spans.
One of them, the one in the line with the verb of the question, is the true solution. The
others are spurious, and nothing but the question tells them apart:

- all people of a document have the same number of entries, so that counting names is no help;
- the lines are shuffled: the true mention is equally likely to be any of Z;
- the names of the two splits are different, so that no answer can be remembered.

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
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from hardem_jax.data.examples import Document, ReadingExample
from hardem_jax.data.tokenizer import Wordpieces
from hardem_jax.errors import InputError, require

ASKED = ("painted", "sold", "found", "broke", "stole", "cleaned", "lost", "bought")
PASSING = ("slept", "waited", "danced", "laughed", "sang", "coughed", "prayed", "whistled")
_ONSETS = ("bar", "cal", "dor", "fen", "gil", "hol", "jas", "kel", "lor", "mar")
_ENDINGS = ("da", "bert", "mina", "vek", "los", "ric")
NAMES = tuple(onset + ending for onset in _ONSETS for ending in _ENDINGS)


@dataclasses.dataclass(frozen=True)
class PlantedConfig:
    """Size and difficulty of the corpus.

    Attributes:
        num_train, num_dev: questions, one document each.
        num_people: people of a document; guessing is right once in so many times.
        num_verbs: verbs that questions ask for, a multiple of ``num_people``; all of them occur
            in every document.
        max_passing: entries of each person beside those, 0 to so many, drawn for each document.
        seed: of everything.
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
            raise InputError(f"num_people: expected 2 to {len(NAMES) // 5}, got {self.num_people}")
        if not 1 <= self.num_verbs <= len(ASKED) or self.num_verbs % self.num_people:
            raise InputError(
                f"num_verbs: expected at most {len(ASKED)} and a multiple of num_people "
                f"({self.num_people}), got {self.num_verbs}"
            )
        if not 0 <= self.max_passing <= len(PASSING) // self.num_people:
            raise InputError(
                f"max_passing: expected 0 to {len(PASSING) // self.num_people}, "
                f"got {self.max_passing}"
            )


def planted_examples(
    config: PlantedConfig, split: Literal["train", "dev"]
) -> Iterator[ReadingExample]:
    """The questions of a split; the same for the same configuration."""
    names = names_of_split(config.seed, split)
    rng = np.random.default_rng((config.seed, split == "dev"))
    for number in range(config.num_dev if split == "dev" else config.num_train):
        yield _example(rng, config, f"{split}-{number}", names)


def names_of_split(seed: int, split: Literal["train", "dev"]) -> list[str]:
    """Names for a split: a fifth of all for dev, the others for train."""
    order = np.random.default_rng(seed).permutation(len(NAMES))
    cut = len(NAMES) // 5
    chosen = order[:cut] if split == "dev" else order[cut:]
    return [NAMES[i].capitalize() for i in chosen]


def planted_tokenizer() -> Wordpieces:
    """A tokenizer with every word of the corpus as one piece."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "?"]
    return whole_words([*special, *ASKED, *PASSING, *NAMES])


def whole_words(words: Sequence[str]) -> Wordpieces:
    """A tokenizer of these lower-case words, each one piece; its ids are their places."""
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Wordpieces(tokenizer)


def _example(
    rng: np.random.Generator, config: PlantedConfig, example_id: str, names: list[str]
) -> ReadingExample:
    people = [names[i] for i in rng.choice(len(names), config.num_people, replace=False)]
    asked = [ASKED[i] for i in rng.permutation(config.num_verbs)]
    num_passing = config.num_people * int(rng.integers(config.max_passing + 1))
    passing = [PASSING[i] for i in rng.permutation(len(PASSING))[:num_passing]]
    # Verbs go round the people in turn, so that all have equally many; entry 0 is asked for.
    verbs = [*asked, *passing]
    text, true_mention = "", None
    for entry in rng.permutation(len(verbs)):
        name = people[entry % config.num_people]
        if entry == 0:
            true_mention = (0, len(text), len(text) + len(name))
        text += f"{name} {verbs[entry]}\n"
    return ReadingExample(
        id=example_id,
        question=f"Who {asked[0]}?",
        documents=(Document(example_id, text),),
        aliases=(people[0],),
        golds=(people[0],),
        true_mention=true_mention,
    )
