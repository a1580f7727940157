"""The models of equations: a tagger on a pretrained encoder, and NAQANet."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from flax import nnx

from hardem_jax.data.batching.padding import Pad
from hardem_jax.data.built import BuiltSplit
from hardem_jax.data.json_stream import PathLike
from hardem_jax.encoders.base import Encoder
from hardem_jax.equations.config import NAQANetModelConfig, TaggerConfig
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.inputs import TaggerInputs, pad_inputs
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.naqanet import NAQANet, NAQANetConfig
from hardem_jax.equations.readers import OUTSIDE_DROP_NUM
from hardem_jax.equations.records import RECORDS
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.equations.words import (
    Vocabulary,
    WordConfig,
    WordInputs,
    build_vocabularies,
    load_word_vectors,
    pad_word_inputs,
    read_texts,
)
from hardem_jax.errors import InputError
from hardem_jax.task.base import Model, Questions
from hardem_jax.task.encoder import EncoderModel
from hardem_jax.task.run_config import RunConfig

MAX_COUNT = NAQANetConfig.num_counts - 1
RULES = f"--rules.no-special-numbers --rules.no-question-numbers --rules.max-count {MAX_COUNT}"
WORDS_FILE, CHARACTERS_FILE = "words.json", "characters.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericQuestions(Questions):
    """Questions answered by calculation. ``repeated``: id -> the golds of every repetition of a
    question in the data set; here, it is once. The official evaluator scores its answer against
    each of them. Where a question was left out, each counts 0."""

    questions: Sequence[NumericQuestion]
    rules: EquationRules
    numbers: NumberConfig = NumberConfig()
    repeated: Mapping[str, Sequence[Sequence[Any]]] = dataclasses.field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self._places(q.id for q in self.questions))

    def scored_ids(self) -> list[str]:
        return self._places([*(q.id for q in self.questions), *self.left_out])

    def _places(self, ids: Iterable[str]) -> list[str]:
        """Each id as often as the data set has it."""
        return [id for id in ids for _ in range(1 + len(self.repeated.get(id, ())))]

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
            repeated={
                id: golds
                for id, golds in found.repeated.items()
                if found.left_out.get(id) not in outside
            },
        )


@dataclasses.dataclass(frozen=True)
class TaggerModel(EncoderModel):
    """A tagger of numbers on a pretrained encoder, see `TaggerConfig`."""

    config: TaggerConfig
    rules: EquationRules

    @classmethod
    def start(cls, config: TaggerConfig, data: NumericQuestions, *, seed: int) -> Self:
        """The pretrained encoder with fresh heads."""
        if data.rules.max_count is not None:
            raise InputError(
                "data: expected equations that a tagger can express, found a count (0 to "
                f"{data.rules.max_count}); prepare the data without counts (max_count)"
            )
        return super().start(config, data, seed=seed, rules=data.rules)

    @classmethod
    def restore(cls, config: TaggerConfig, run: RunConfig) -> Self:
        return super().restore(config, run, rules=run.section("rules", EquationRules))

    @staticmethod
    def module(
        config: TaggerConfig, encoder: Encoder, *, seed: int, rules: EquationRules
    ) -> EquationTagger:
        return EquationTagger(
            encoder,
            num_special=len(rules.special),
            product_over=config.product_over,
            no_tag_bias=config.no_tag_bias,
            rules=rules if config.normalize == "equations" else None,
            rngs=nnx.Rngs(seed),
        )

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
            num_special=len(self.rules.special),
            num_solutions=num_solutions,
            pad_id=self.tokenizer.pad_id,
        )


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
        return {}


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
    wanted: dict[str, Any] = {"special_numbers": False, "question_numbers": False}
    wanted |= {"percent": "off", "max_count": MAX_COUNT}
    pairs = ((name, getattr(rules, name)) for name in wanted)
    found = [f"{name}={value}" for name, value in pairs if value != wanted[name]]
    if found:
        raise InputError(
            f"data: NAQANet adds, subtracts and counts (0 to {MAX_COUNT}) what the passage holds; "
            f"expected splits prepared with {RULES}, found {', '.join(found)}"
        )


class NumericSplit(BuiltSplit):
    """Questions on numbers of a build, see `BuiltSplit`. ``repeated`` is that of
    `NumericQuestions`; golds of questions left out are not kept."""

    KIND = RECORDS

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        super().__init__(folder, split, drawn=drawn)
        self.rules = EquationRules(**self.meta["rules"])
        self.numbers = NumberConfig(**self.meta["numbers"])
        self.repeated: dict[str, list[Sequence[Any]]] = {}
        kept = set(self._index["kept"])
        for id, golds in self._index["repeated"]:
            if id in kept:
                self.repeated.setdefault(id, []).append(golds)
        for id, count in Counter(id for id, _ in self._index["left_out"] if id not in kept).items():
            if count > 1:
                self.repeated[id] = [()] * (count - 1)
