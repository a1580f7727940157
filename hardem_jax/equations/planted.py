"""A synthetic corpus for discrete reasoning in which the true equation is known.

A passage is a scoreboard, one line per person: a name and a number. A question asks for a
difference, "How many more has Dorbert than Barmina?". Z contains every pair of numbers whose
difference or sum is the answer: the true pair and coincidences, which are frequent, for numbers are
small. Only the question tells them apart: lines are shuffled, and the two splits use different
names.
"""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import numpy as np

from hardem_jax.data.planted import NAMES, split_names, word_tokenizer
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.solutions.rules import MINUS, PLUS, EquationRules
from hardem_jax.errors import require

#: Z_tot of the corpus: the sum or difference of two numbers of the passage.
RULES = EquationRules(special_numbers=False, question_numbers=False, lone_text=False)


@dataclasses.dataclass(frozen=True)
class PlantedEquationsConfig:
    """Size and difficulty of the corpus.

    Attributes:
        num_train: number of questions to train on, each with its own passage.
        num_dev: number of questions to evaluate on.
        num_people: lines per passage.
        largest: numbers are drawn from 1 to this.
        seed: random seed.
    """

    num_train: int = 10_000
    num_dev: int = 300
    num_people: int = 8
    largest: int = 20
    seed: int = 0

    def __post_init__(self):
        require(self, "num_train", "num_dev", at_least=1)
        require(self, "seed", at_least=0, below=2**32)
        require(self, "num_people", at_least=2, at_most=len(NAMES) // 5)
        require(self, "largest", at_least=2)


def planted_numeric_examples(
    config: PlantedEquationsConfig, split: Literal["train", "dev"]
) -> Iterator[NumericExample]:
    """Generates the questions of a split, deterministically."""
    names = split_names(config.seed, split)
    rng = np.random.default_rng((config.seed, split == "dev"))
    for number in range(config.num_dev if split == "dev" else config.num_train):
        people = [names[i] for i in rng.choice(len(names), config.num_people, replace=False)]
        numbers = rng.integers(1, config.largest + 1, size=config.num_people)
        # The question is about people 0 and 1, whose numbers must differ.
        while numbers[0] == numbers[1]:
            numbers[1] = rng.integers(1, config.largest + 1)
        more, less = (0, 1) if numbers[0] > numbers[1] else (1, 0)
        lines = rng.permutation(config.num_people).tolist()
        slots = sorted([(lines.index(more), PLUS), (lines.index(less), MINUS)])
        answer = int(numbers[more] - numbers[less])
        yield NumericExample(
            id=f"{split}-{number}",
            passage_id=f"{split}-{number}",
            passage="".join(f"{people[line]} {numbers[line]}\n" for line in lines),
            question=f"How many more has {people[more]} than {people[less]}?",
            answer=float(answer),
            golds=({"number": str(answer)},),
            true_equation=(*slots[0], *slots[1]),
        )


def planted_numeric_tokenizer(config: PlantedEquationsConfig) -> Tokenizer:
    """Returns a tokenizer with one piece for every word and number of the corpus."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "how", "many", "more", "has", "than", "?"]
    words += [*NAMES, *(str(number) for number in range(1, config.largest + 1))]
    return word_tokenizer(words)
