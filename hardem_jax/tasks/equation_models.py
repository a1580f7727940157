"""The models of equations: a tagger on a pretrained encoder, and NAQANet."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import Pad
from hardem_jax.data.builders.splits import NumericSplit
from hardem_jax.data.examples import NumericQuestion
from hardem_jax.data.inputs.naqanet import WordConfig, WordInputs, pad_word_inputs, read_texts
from hardem_jax.data.inputs.tagger import TaggerInputs, pad_inputs
from hardem_jax.data.inputs.words import Vocabulary, build_vocabularies, load_word_vectors
from hardem_jax.data.readers.drop import OUTSIDE_DROP_NUM
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.errors import InputError, require
from hardem_jax.models.encoders.base import Encoder, EncoderConfig
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.models.naqanet import NAQANet, NAQANetConfig
from hardem_jax.solutions.equations.enumeration import EquationRules
from hardem_jax.solutions.equations.numbers import NumberConfig
from hardem_jax.tasks.base import Model, Questions
from hardem_jax.tasks.config import NAQANetModelConfig, TaggerConfig
from hardem_jax.tasks.encoder import (
    check_max_tokens,
    load_encoder,
    restore_sizes,
    save_sizes,
    untrained_encoder,
)
from hardem_jax.tasks.run_config import RunConfig

MAX_COUNT = NAQANetConfig.num_counts - 1
RULES = f"--rules.no-special-numbers --rules.no-question-numbers --rules.max-count {MAX_COUNT}"
WORDS_FILE, CHARACTERS_FILE = "words.json", "characters.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericQuestions(Questions):
    """Questions answered by calculation.

    Attributes:
        rules: Z_tot.
        numbers: what counts as a number.
        repeated: id -> the golds of every repetition of a question in the data set; here, it is
            once. The official evaluator scores its answer against each of them.
    """

    questions: Sequence[NumericQuestion]
    rules: EquationRules
    numbers: NumberConfig = NumberConfig()
    repeated: Mapping[str, Sequence[Sequence[Any]]] = dataclasses.field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.questions) + sum(map(len, self.repeated.values()))

    def scored_ids(self) -> list[str]:
        often = ((q.id, 1 + len(self.repeated.get(q.id, ()))) for q in self.questions)
        return [*(id for id, times in often for _ in range(times)), *self.left_out]

    def set_sizes(self) -> list[int]:
        return [len(question.equations) for question in self.questions]

    @classmethod
    def open(cls, folder: Path, split: str, *, drawn: int | None = None) -> Self:
        """The questions of a split of a build; ``drawn`` is the seed of their first solutions."""
        # Left out of DROP_num are only questions about numbers.
        found = NumericSplit(folder, split, drawn=drawn)
        outside = OUTSIDE_DROP_NUM
        return cls(
            questions=list(found.questions),
            left_out={id: why for id, why in found.left_out.items() if why not in outside},
            place=str(folder),
            meta=found.meta,
            rules=found.rules,
            numbers=found.numbers,
            repeated=found.repeated,
        )


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What `Tagger.save` returns beyond the encoder's sizes."""

    num_special: int

    def __post_init__(self) -> None:
        require(self, "num_special", at_least=0)


@dataclasses.dataclass(frozen=True)
class Tagger(Model):
    """A tagger of numbers on a pretrained encoder, see `TaggerConfig`."""

    tokenizer: Tokenizer
    config: TaggerConfig
    encoder: EncoderConfig
    num_special: int

    @classmethod
    def start(cls, config: TaggerConfig, data: NumericQuestions, *, seed: int) -> Self:
        """The pretrained encoder with fresh heads."""
        rules = data.rules
        if rules.max_count is not None:
            raise InputError(
                "data: expected equations that a tagger can express, found a count (0 to "
                f"{rules.max_count}); prepare the data without counts (max_count)"
            )
        tokenizer, num_special = load_tokenizer(config.encoder), _num_special(data.questions)
        encoder = load_encoder(config, tokenizer)
        module = _tagger(config, encoder, num_special, rules, seed)
        return cls(*nnx.split(module, nnx.Param), tokenizer, config, encoder.config, num_special)

    @classmethod
    def restore(cls, config: TaggerConfig, run: RunConfig) -> Self:
        rules = run.section("rules", EquationRules)
        sizes = restore_sizes(run)
        saved = {name: value for name, value in run.model.items() if name == "num_special"}
        num_special = run.restore(_Saved, saved, "model").num_special
        abstract = nnx.eval_shape(
            lambda: _tagger(config, untrained_encoder(config, sizes), num_special, rules, seed=0)
        )
        tokenizer = load_tokenizer(run.folder)
        return cls(*nnx.split(abstract, nnx.Param), tokenizer, config, sizes, num_special)

    @property
    def max_tokens(self) -> int:
        return self.encoder.max_tokens

    def check_lengths(self, buckets: Sequence[int]) -> None:
        del buckets
        check_max_tokens(self.config, self.encoder)

    def inputs(self, data: NumericQuestions) -> TaggerInputs:
        return TaggerInputs(
            data.questions,
            self.tokenizer,
            max_tokens=self.config.max_tokens,
            max_question_tokens=self.config.max_question_tokens,
        )

    def pad(self, inputs: TaggerInputs, num_solutions: int) -> Pad:
        return functools.partial(
            pad_inputs,
            num_numbers=inputs.num_numbers,
            num_special=self.num_special,
            num_solutions=num_solutions,
            pad_id=self.tokenizer.pad_id,
        )

    def save(self, run_dir: Path) -> dict[str, Any]:
        self.tokenizer.save(run_dir)
        return {**save_sizes(self.encoder), "num_special": self.num_special}


def _tagger(
    config: TaggerConfig, encoder: Encoder, num_special: int, rules: EquationRules, seed: int
) -> EquationTagger:
    return EquationTagger(
        encoder,
        num_special=num_special,
        product_over=config.product_over,
        no_tag_bias=config.no_tag_bias,
        rules=rules if config.normalize == "equations" else None,
        rngs=nnx.Rngs(seed),
    )


def _num_special(questions: Sequence[NumericQuestion]) -> int:
    """Special numbers of a data set; all of its questions have the same."""
    return len(questions[0].values) - len(questions[0].spans)


@dataclasses.dataclass(frozen=True)
class NAQANetModel(Model):
    """NAQANet with its vocabularies, see `NAQANetModelConfig`."""

    words: Vocabulary
    characters: Vocabulary
    reading: WordConfig

    @classmethod
    def start(cls, config: NAQANetModelConfig, data: NumericQuestions, *, seed: int) -> Self:
        """A fresh model with the vocabularies of the training split."""
        rules = data.rules
        _check_rules(rules)
        least = config.min_words
        if least is None:
            least = 2 if config.word_vectors is None else 1
        words, characters = build_vocabularies(
            read_texts(data.questions, config.reading),
            min_words=least,
            min_chars=config.min_characters,
        )
        vectors = None
        if config.word_vectors is not None:
            words, vectors = load_word_vectors(config.word_vectors, words, size=config.word_size)
        module = _naqanet(config, words, characters, vectors=vectors, rules=rules, seed=seed)
        return cls(*nnx.split(module, nnx.Param), words, characters, config.reading)

    @classmethod
    def restore(cls, config: NAQANetModelConfig, run: RunConfig) -> Self:
        rules = run.section("rules", EquationRules)
        words = Vocabulary.load(run.folder / WORDS_FILE)
        characters = Vocabulary.load(run.folder / CHARACTERS_FILE)
        abstract = nnx.eval_shape(  # the values are in the checkpoint
            lambda: _naqanet(config, words, characters, vectors=None, rules=rules, seed=0)
        )
        return cls(*nnx.split(abstract, nnx.Param), words, characters, config.reading)

    def inputs(self, data: NumericQuestions) -> WordInputs:
        return WordInputs(data.questions, self.words, self.characters, self.reading)

    def pad(self, inputs: WordInputs, num_solutions: int) -> Pad:
        return functools.partial(
            pad_word_inputs,
            num_question_words=inputs.num_question_words,
            num_characters=self.reading.max_word_characters,
            num_numbers=inputs.num_numbers,
            num_solutions=num_solutions,
        )

    def save(self, run_dir: Path) -> dict[str, Any]:
        self.words.save(run_dir / WORDS_FILE)
        self.characters.save(run_dir / CHARACTERS_FILE)
        return {"num_words": len(self.words), "num_characters": len(self.characters)}


def _naqanet(
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
