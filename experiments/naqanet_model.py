"""NAQANet as a model of `experiments.equation_models`: its sizes, vocabularies and inputs."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.equation_models import EquationModel, Normalize
from experiments.runs import RunConfig
from hardem_jax.data.batches import Pad
from hardem_jax.data.equations import NumericQuestion
from hardem_jax.data.word_inputs import WordConfig, WordInputs, pad_word_inputs, read_texts
from hardem_jax.data.words import Vocabulary, build_vocabularies, load_word_vectors
from hardem_jax.errors import InputError, require
from hardem_jax.models.naqanet import NAQANet, NAQANetConfig
from hardem_jax.solutions.equations import EquationRules

MAX_COUNT = NAQANetConfig.num_counts - 1
RULES = f"--rules.no-special-numbers --rules.no-question-numbers --rules.max-count {MAX_COUNT}"
WORDS_FILE, CHARACTERS_FILE = "words.json", "characters.json"


@dataclasses.dataclass(frozen=True)
class NAQANetModelConfig:
    """NAQANet (Dua et al., 2019) for answers that are numbers; sizes as released.

    Attributes:
        word_vectors: text file of word vectors (GloVe), which stay as they are; None learns
            vectors with everything else. Only ``train`` needs the file.
        word_size: width of a word vector.
        min_words: words that occur less often in the training split are unknown; None for 1 with
            word vectors and 2 without, so that there are unknown words to learn from.
        min_characters: likewise for characters (released: 200).
        max_passage_words: longer passages are cut; not above the largest of the buckets.
        max_question_words: longer questions are cut.
        max_word_characters: of a longer word only the first so many characters are seen.
        character_size: width of a character embedding.
        num_filters: filters of the character convolution.
        filter_width: characters that a filter sees.
        num_highway_layers: highway layers over the word features.
        hidden_size: width of everything after the word features.
        num_heads: heads of each self-attention.
        num_phrase_blocks: blocks of the encoder that reads passage and question separately.
        num_phrase_convs: convolutions in each of them.
        phrase_width: words that one of these convolutions sees.
        num_modelling_blocks: blocks of the encoder that reads the two together.
        num_modelling_convs: convolutions in each of them.
        modelling_width: words that one of these convolutions sees.
        num_passes: times that encoder is applied.
        dropout: probability of dropping an element.
        layer_dropout: probability of leaving out the last sublayer of a block.
        dtype: of activations and products; parameters, norms, softmax and heads stay float32.
        remat: recompute activations in the backward pass, to save memory.
        normalize: P(z | add or subtract, x) is a product over the signs ("tags") of all numbers,
            as released, or a softmax over all "equations" of Z_tot.
    """

    word_vectors: Path | None = None
    word_size: int = NAQANetConfig.word_size
    min_words: int | None = None
    min_characters: int = 1
    max_passage_words: int = WordConfig.max_passage_words
    max_question_words: int = WordConfig.max_question_words
    max_word_characters: int = WordConfig.max_word_characters
    character_size: int = NAQANetConfig.character_size
    num_filters: int = NAQANetConfig.num_filters
    filter_width: int = NAQANetConfig.filter_width
    num_highway_layers: int = NAQANetConfig.num_highway_layers
    hidden_size: int = NAQANetConfig.hidden_size
    num_heads: int = NAQANetConfig.num_heads
    num_phrase_blocks: int = NAQANetConfig.num_phrase_blocks
    num_phrase_convs: int = NAQANetConfig.num_phrase_convs
    phrase_width: int = NAQANetConfig.phrase_width
    num_modelling_blocks: int = NAQANetConfig.num_modelling_blocks
    num_modelling_convs: int = NAQANetConfig.num_modelling_convs
    modelling_width: int = NAQANetConfig.modelling_width
    num_passes: int = NAQANetConfig.num_passes
    dropout: float = NAQANetConfig.dropout
    layer_dropout: float = NAQANetConfig.layer_dropout
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: bool = False
    normalize: Normalize = "tags"

    def __post_init__(self) -> None:
        require(self, "min_words", "min_characters", at_least=1)
        # Both refuse what is out of range.
        self._sizes(num_words=1, num_characters=1)
        assert self.reading

    def start(
        self, train: Sequence[NumericQuestion], *, rules: EquationRules, seed: int
    ) -> "NAQANetModel":
        """A fresh model with the vocabularies of the training split.

        Args:
            train: the training split.
            rules: that it was prepared with.
            seed: of the initial parameters.

        Raises:
            InputError: the rules are not those of NAQANet, a size is out of range, or the file
                of word vectors is at fault.
        """
        _check_rules(rules)
        least = self.min_words
        if least is None:
            least = 2 if self.word_vectors is None else 1
        words, characters = build_vocabularies(
            read_texts(train, self.reading), min_words=least, min_chars=self.min_characters
        )
        vectors = None
        if self.word_vectors is not None:
            words, vectors = load_word_vectors(self.word_vectors, words, size=self.word_size)
        module = self._module(words, characters, vectors=vectors, rules=rules, seed=seed)
        return NAQANetModel(*nnx.split(module, nnx.Param), words, characters, self.reading)

    def restore(self, run_dir: Path, config: RunConfig, *, rules: EquationRules) -> "NAQANetModel":
        """The shape of a run's model, from the vocabularies that `NAQANetModel.save` wrote."""
        del config  # the flags and the vocabularies say it all
        words = Vocabulary.load(run_dir / WORDS_FILE)
        characters = Vocabulary.load(run_dir / CHARACTERS_FILE)
        abstract = nnx.eval_shape(  # the values are in the checkpoint
            lambda: self._module(words, characters, vectors=None, rules=rules, seed=0)
        )
        return NAQANetModel(*nnx.split(abstract, nnx.Param), words, characters, self.reading)

    @property
    def reading(self) -> WordConfig:
        """How much of a text is read."""
        return WordConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(WordConfig)})

    def _module(
        self,
        words: Vocabulary,
        characters: Vocabulary,
        *,
        vectors: np.ndarray | None,
        rules: EquationRules,
        seed: int,
    ) -> NAQANet:
        return NAQANet(
            self._sizes(num_words=len(words), num_characters=len(characters)),
            rngs=nnx.Rngs(seed),
            word_vectors=vectors,
            dtype=jnp.dtype(self.dtype),
            remat=self.remat,
            rules=rules if self.normalize == "equations" else None,
        )

    def _sizes(self, *, num_words: int, num_characters: int) -> NAQANetConfig:
        names = {f.name for f in dataclasses.fields(NAQANetConfig)}
        names &= {f.name for f in dataclasses.fields(self)}
        fields = {name: getattr(self, name) for name in names}
        return NAQANetConfig(num_words=num_words, num_characters=num_characters, **fields)


@dataclasses.dataclass(frozen=True)
class NAQANetModel(EquationModel):
    """See `NAQANetModelConfig`."""

    words: Vocabulary
    characters: Vocabulary
    reading: WordConfig

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
