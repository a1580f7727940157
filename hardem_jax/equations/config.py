"""What can be chosen for equations: models and decoding."""

import dataclasses
from pathlib import Path
from typing import Literal

from hardem_jax.data.tokenizer import MIN_SPECIAL_TOKENS
from hardem_jax.equations.words import WordConfig
from hardem_jax.errors import InputError, require
from hardem_jax.task.config import EncoderConfig
from hardem_jax.training.fingerprint import may_change

#: The set over which the probabilities of a question sum to 1.
Normalize = Literal["tags", "equations"]
_RATES = ("dropout", "layer_dropout")


@dataclasses.dataclass(frozen=True)
class TaggerConfig(EncoderConfig):
    """An encoder that tags every number with its operator (Min et al., 2019, appendix A).

    Attributes:
        product_over: "numbers" (default), or all "tokens" as in the paper's formula.
        normalize: P(z | x) is a product over the "tags" of all numbers (the paper), although most
            taggings are not equations, or a softmax over all "equations" of Z_tot.
        no_tag_bias: initial bias of a number towards no tag; 0 for heads without bias (the paper).
        max_tokens: tokens of an input; longer passages are cut.
        max_question_tokens: longer questions are cut.
    """

    product_over: Literal["numbers", "tokens"] = "numbers"
    normalize: Normalize = "tags"
    no_tag_bias: float = 2.0
    max_tokens: int = 512
    max_question_tokens: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "max_question_tokens", at_least=1)
        require(self, "max_tokens", above=self.max_question_tokens + MIN_SPECIAL_TOKENS)
        require(self, "no_tag_bias")
        if self.normalize == "equations" and self.product_over == "tokens":
            raise InputError(
                "product_over: expected numbers, found tokens, which changes nothing where "
                "P(z | x) is normalized over equations"
            )


@dataclasses.dataclass(frozen=True)
class NAQANetSizes:
    """Sizes and rates of NAQANet; the defaults are those of Dua et al. (2019) in their code."""

    word_size: int = 300
    """Width of a word vector."""
    character_size: int = 64
    """Width of a character embedding."""
    num_filters: int = 200
    """Filters of the character convolution."""
    filter_width: int = 5
    """Characters that a filter sees."""
    num_highway_layers: int = 2
    """Highway layers over the word features."""
    hidden_size: int = 128
    """Width of everything after the word features."""
    num_heads: int = 8
    """Heads of each self-attention."""
    num_phrase_blocks: int = 1
    """Blocks of the encoder that reads passage and question separately."""
    num_phrase_convs: int = 4
    """Convolutions in each of them."""
    phrase_width: int = 7
    """Words that one of these convolutions sees."""
    num_modelling_blocks: int = 6
    """Blocks of the encoder that reads the passage in the light of the question."""
    num_modelling_convs: int = 2
    """Convolutions in each of them."""
    modelling_width: int = 5
    """Words that one of these convolutions sees."""
    num_passes: int = 4
    """Times that encoder is applied, with the same parameters, to its own output."""
    dropout: float = 0.1
    """Probability of dropping an element."""
    layer_dropout: float = 0.1
    """Probability of leaving out the last sublayer of a block; earlier ones in proportion."""

    def __post_init__(self) -> None:
        require(self, *_RATES, at_least=0, below=1)
        sizes = {f.name for f in dataclasses.fields(NAQANetSizes)} - {*_RATES, "num_highway_layers"}
        require(self, *sorted(sizes), at_least=1)
        require(self, "num_highway_layers", at_least=0)
        size, heads = self.hidden_size, self.num_heads
        if size % 2 or size < 4 or size % heads:
            raise InputError(
                "hidden_size: expected an even number of at least 4 and a multiple of "
                f"{heads} heads, found {size}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NAQANetConfig(NAQANetSizes):
    """`NAQANetSizes`, with what follows from the data."""

    num_words: int
    """Entries of the word vocabulary, padding and unknown included."""
    num_characters: int
    """Entries of the character vocabulary, padding and unknown included."""
    num_counts: int = 10
    """Counts that can be answered: 0, 1, ... num_counts - 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "num_words", "num_characters", "num_counts", at_least=1)


@dataclasses.dataclass(frozen=True)
class NAQANetModelConfig(NAQANetSizes, WordConfig):
    """NAQANet (Dua et al., 2019) for answers that are numbers; sizes as released.

    Attributes:
        word_vectors: text file of word vectors (GloVe), which stay fixed; None learns vectors along
            with everything else. Only ``train`` needs the file.
        min_words: words that occur less often in the training split are unknown; None for 1 with
            word vectors and 2 without, so that there are unknown words to learn from.
        min_characters: the same for characters (released: 200).
        dtype: of activations and products; parameters, norms, softmax and heads stay float32.
        remat: recompute activations in the backward pass, to save memory.
        normalize: P(z | add or subtract, x) is a product over the signs ("tags") of all numbers,
            as released, or a softmax over all "equations" of Z_tot.
    """

    word_vectors: Path | None = None
    min_words: int | None = None
    min_characters: int = 1
    dtype: Literal["float32", "bfloat16"] = "float32"
    remat: bool = may_change("the same run up to rounding", default=False)
    normalize: Normalize = "tags"

    def __post_init__(self) -> None:
        NAQANetSizes.__post_init__(self)
        WordConfig.__post_init__(self)
        require(self, "min_words", "min_characters", at_least=1)

    @property
    def reading(self) -> WordConfig:
        """How much of a text is read."""
        return WordConfig(**{f.name: getattr(self, f.name) for f in dataclasses.fields(WordConfig)})

    def sizes(self, *, num_words: int, num_characters: int) -> NAQANetConfig:
        """Sizes of the model, given those of its vocabularies."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(NAQANetSizes)}
        return NAQANetConfig(num_words=num_words, num_characters=num_characters, **fields)


@dataclasses.dataclass(frozen=True)
class EquationInference:
    """How answers are read off a model of equations.

    Attributes:
        decoding: "equation" takes the most likely equation of Z_tot; "tags" takes the most likely
            tag of every number independently and adds them up, or the most likely count if the
            model prefers counting, as the original NAQANet does.
        top: equations kept per question.
        batch_size: questions read at once.
        packed_tokens: pack questions into rows of this many tokens, longer if an input is; None
            pads them to buckets. Answers are the same up to rounding.
    """

    decoding: Literal["equation", "tags"] = "equation"
    top: int = 5
    batch_size: int = 32
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self) -> None:
        require(self, "top", "batch_size", "packed_tokens", at_least=1)
