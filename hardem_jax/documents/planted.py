"""A synthetic reading corpus in which the true solution is known.

A document is a logbook, one line per entry: who did what. A question asks about one entry,
"Who painted?"; its answer, a name, occurs in several lines, so Z contains several spans.
Only the one in the line with the verb of the question is the true solution. The others are
spurious, and only the question tells them apart:

- all people of a document have the same number of entries, so counting names does not help;
- the lines are shuffled, so the true mention is equally likely to be any element of Z;
- the two splits use different names, so answers cannot be memorised.

Knobs of `PlantedConfig` take these properties away one by one, and make Z larger or wrong. Each has
its own random numbers: two corpora that differ in a knob have the same documents except for what it
changes, and the questions that a share of 0.2 chooses are among those of 0.4.
"""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import numpy as np

from hardem_jax.data.planted import NAMES, split_names, word_tokenizer
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.errors import InputError, require

QUESTION_VERBS = ("painted", "sold", "found", "broke", "stole", "cleaned", "lost", "bought")
OTHER_VERBS = ("slept", "waited", "danced", "laughed", "sang", "coughed", "prayed", "whistled")
#: Verb of a question -> the verb that a spurious mention of its answer has, see `PlantedConfig`.
SPURIOUS_VERBS = dict(zip(QUESTION_VERBS, OTHER_VERBS, strict=True))


@dataclasses.dataclass(frozen=True)
class PlantedConfig:
    """Size and difficulty of the corpus.

    Attributes:
        num_train: number of questions to train on, each with its own document.
        num_dev: number of questions to evaluate on.
        num_people: people per document; a random guess is correct with probability
            1 / ``num_people``.
        num_verbs: verbs of questions, a multiple of ``num_people``; each is once in every document.
        max_passing: further entries per person, with other verbs; from 0 to this for each document.
        decoys: further entries of every person, instead of a random number; their verbs may repeat.
            Z then always has `set_size` mentions.
        spurious: share of questions (of both splits) whose answer has an entry with
            ``SPURIOUS_VERBS`` of the question's verb, which nobody else has. At 1 that mention is
            in Z as often as the true one and the question identifies it as well; at 0 verbs of
            decoys are independent of the question.
        missing: share of training questions without the true mention in Z; the decoys stay.
        first: probability that the true mention is the first of Z (both splits); None: 1 / |Z|.
        noise: share of training questions whose answer, and with it Z, is that of another question
            about the document. Their ``true_mention`` remains that of the question asked.
        seed: random seed.

    Raises:
        InputError: a number is out of range; ``noise`` and ``missing``, which never meet in a
            question, add up to more than 1; ``spurious`` without ``decoys``; or ``missing`` or
            ``first`` where Z may have a single mention.
    """

    num_train: int = 10_000
    num_dev: int = 300
    num_people: int = 4
    num_verbs: int = 4
    max_passing: int = 2
    seed: int = 0
    decoys: int | None = None
    spurious: float = 0.0
    missing: float = 0.0
    first: float | None = None
    noise: float = 0.0

    def __post_init__(self):
        require(self, "num_train", "num_dev", at_least=1)
        require(self, "seed", at_least=0, below=2**32)
        require(self, "num_people", at_least=2, at_most=len(NAMES) // 5)
        if not 1 <= self.num_verbs <= len(QUESTION_VERBS) or self.num_verbs % self.num_people:
            raise InputError(
                f"num_verbs: expected a multiple of num_people ({self.num_people}) and at most "
                f"{len(QUESTION_VERBS)}, found {self.num_verbs}"
            )
        require(self, "max_passing", at_least=0, at_most=len(OTHER_VERBS) // self.num_people)
        require(self, "decoys", at_least=0)
        require(self, "spurious", "missing", "first", "noise", at_least=0, at_most=1)
        if self.noise + self.missing > 1:
            expected = f"expected at most 1 together with noise ({self.noise})"
            raise InputError(f"missing: {expected}, found {self.missing}")
        if self.spurious and not self.decoys:
            raise InputError(f"spurious: expected 0 without decoys, found {self.spurious}")
        for name in ("missing", "first"):
            value = getattr(self, name)
            if value != getattr(PlantedConfig, name) and self.set_size < 2:
                expected = "expected decoys, so that Z has at least two mentions"
                raise InputError(f"{name}: {expected}, found {value} without")

    @property
    def set_size(self) -> int:
        """Mentions of every person: |Z|, or the least it can be if ``decoys`` is None."""
        return self.num_verbs // self.num_people + (self.decoys or 0)


def planted_examples(
    config: PlantedConfig, split: Literal["train", "dev"]
) -> Iterator[ReadingExample]:
    """Generates the questions of a split, deterministically."""
    names = split_names(config.seed, split)
    rng = np.random.default_rng((config.seed, split == "dev"))
    if split == "dev":
        config = dataclasses.replace(config, missing=0.0, noise=0.0)
    for number in range(config.num_dev if split == "dev" else config.num_train):
        knobs = np.random.default_rng((config.seed, split == "dev", 1 + number))
        yield _example(rng, knobs, config, f"{split}-{number}", names)


def planted_tokenizer() -> Tokenizer:
    """Returns a tokenizer with one piece for every word of the corpus."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "?"]
    return word_tokenizer([*special, *QUESTION_VERBS, *OTHER_VERBS, *NAMES])


def _example(
    rng: np.random.Generator,
    knobs: np.random.Generator,
    config: PlantedConfig,
    example_id: str,
    names: list[str],
) -> ReadingExample:
    # All of them, whatever the knobs, so that one knob does not decide what another one does.
    is_spurious, is_first, wrong_z, place = knobs.random(4).tolist()
    people = [names[i] for i in rng.choice(len(names), config.num_people, replace=False)]
    question_verbs = [QUESTION_VERBS[i] for i in rng.permutation(config.num_verbs)]
    if config.decoys is None:
        num_others = config.num_people * int(rng.integers(config.max_passing + 1))
        other_verbs = [OTHER_VERBS[i] for i in rng.permutation(len(OTHER_VERBS))[:num_others]]
    else:
        num_others = config.num_people * config.decoys
        other_verbs = [OTHER_VERBS[i] for i in rng.integers(len(OTHER_VERBS), size=num_others)]
    if is_spurious < config.spurious:
        spurious = SPURIOUS_VERBS[question_verbs[0]]
        rest = [verb for verb in OTHER_VERBS if verb != spurious]
        spare = [rest[i] for i in knobs.integers(len(rest), size=num_others)]
        pairs = zip(other_verbs, spare, strict=True)
        other_verbs = [new if old == spurious else old for old, new in pairs]
        other_verbs[0] = spurious  # the first of them is the answer's
    # Verbs are dealt to people in turn, so all have the same number. Entry 0 is the true one.
    verbs = [*question_verbs, *other_verbs]
    order = rng.permutation(len(verbs)).tolist()
    if config.first is not None:
        # Swap the true entry with the first one of its person, or with one of the later ones.
        own = [i for i, entry in enumerate(order) if entry % config.num_people == 0]
        later = own[1 + int(place * (len(own) - 1))] if is_first >= config.first else own[0]
        true = order.index(0)
        order[true], order[later] = order[later], order[true]
    # People are in random order, so person 1 may be anybody else.
    asked = 1 if wrong_z < config.noise else 0
    text, mentions, true_mention = "", [], None
    for entry in order:
        name = people[entry % config.num_people]
        mention = (0, len(text), len(text) + len(name))
        if entry == 0:
            true_mention = mention
        elif entry % config.num_people == 0:
            mentions.append(mention)
        text += f"{name} {verbs[entry]}\n"
    is_missing = config.noise <= wrong_z < config.noise + config.missing
    return ReadingExample(
        id=example_id,
        question=f"Who {question_verbs[0]}?",
        documents=(Document(example_id, text),),
        aliases=(people[asked],),
        golds=(people[asked],),
        true_mention=true_mention,
        mentions=tuple(mentions) if is_missing else None,
    )
