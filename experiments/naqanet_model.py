"""NAQANet as a model of `experiments.equation_models`: its vocabularies and inputs."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.equation_models import EquationModel
from experiments.model_configs import NAQANetModelConfig
from experiments.runs import RunConfig
from hardem_jax.data.batching.padding import Pad
from hardem_jax.data.inputs.naqanet import WordConfig, WordInputs, pad_word_inputs, read_texts
from hardem_jax.data.inputs.words import Vocabulary, build_vocabularies, load_word_vectors
from hardem_jax.data.prepared.equations import NumericQuestion
from hardem_jax.errors import InputError
from hardem_jax.models.naqanet import NAQANet, NAQANetConfig
from hardem_jax.solutions.equations.enumeration import EquationRules

MAX_COUNT = NAQANetConfig.num_counts - 1
RULES = f"--rules.no-special-numbers --rules.no-question-numbers --rules.max-count {MAX_COUNT}"
WORDS_FILE, CHARACTERS_FILE = "words.json", "characters.json"


@dataclasses.dataclass(frozen=True)
class NAQANetModel(EquationModel):
    """See `NAQANetModelConfig`."""

    words: Vocabulary
    characters: Vocabulary
    reading: WordConfig

    @classmethod
    def start(
        cls,
        config: NAQANetModelConfig,
        train: Sequence[NumericQuestion],
        *,
        rules: EquationRules,
        seed: int,
    ) -> Self:
        """A fresh model with the vocabularies of the training split."""
        _check_rules(rules)
        least = config.min_words
        if least is None:
            least = 2 if config.word_vectors is None else 1
        words, characters = build_vocabularies(
            read_texts(train, config.reading), min_words=least, min_chars=config.min_characters
        )
        vectors = None
        if config.word_vectors is not None:
            words, vectors = load_word_vectors(config.word_vectors, words, size=config.word_size)
        module = _module(config, words, characters, vectors=vectors, rules=rules, seed=seed)
        return cls(*nnx.split(module, nnx.Param), words, characters, config.reading)

    @classmethod
    def restore(
        cls, config: NAQANetModelConfig, run_dir: Path, run: RunConfig, *, rules: EquationRules
    ) -> Self:
        del run  # the flags and the vocabularies say it all
        words = Vocabulary.load(run_dir / WORDS_FILE)
        characters = Vocabulary.load(run_dir / CHARACTERS_FILE)
        abstract = nnx.eval_shape(  # the values are in the checkpoint
            lambda: _module(config, words, characters, vectors=None, rules=rules, seed=0)
        )
        return cls(*nnx.split(abstract, nnx.Param), words, characters, config.reading)

    def inputs(self, questions: Sequence[NumericQuestion]) -> WordInputs:
        return WordInputs(questions, self.words, self.characters, self.reading)

    def pad(self, inputs: Sequence[Any], num_solutions: int) -> Pad:
        return functools.partial(
            pad_word_inputs,
            num_question_words=max(part.num_question_words for part in inputs),
            num_characters=self.reading.max_word_characters,
            num_numbers=max(part.num_numbers for part in inputs),
            num_solutions=num_solutions,
        )

    def save(self, run_dir: Path) -> dict[str, Any]:
        self.words.save(run_dir / WORDS_FILE)
        self.characters.save(run_dir / CHARACTERS_FILE)
        return {"num_words": len(self.words), "num_characters": len(self.characters)}


def _module(
    config: NAQANetModelConfig,
    words: Vocabulary,
    characters: Vocabulary,
    *,
    vectors: np.ndarray | None,
    rules: EquationRules,
    seed: int,
) -> NAQANet:
    return NAQANet(
        config.sizes(num_words=len(words), num_characters=len(characters)),
        rngs=nnx.Rngs(seed),
        word_vectors=vectors,
        dtype=jnp.dtype(config.dtype),
        remat=config.remat,
        rules=rules if config.normalize == "equations" else None,
    )


def _check_rules(rules: EquationRules) -> None:
    wanted = {
        "special_numbers": False,
        "question_numbers": False,
        "percent": "off",
        "max_count": MAX_COUNT,
    }
    found = [
        f"{name}={getattr(rules, name)}"
        for name, value in wanted.items()
        if getattr(rules, name) != value
    ]
    if found:
        raise InputError(
            f"data: NAQANet adds, subtracts and counts (0 to {MAX_COUNT}) what the passage holds; "
            f"expected splits prepared with {RULES}, found {', '.join(found)}"
        )
