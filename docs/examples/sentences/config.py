"""Which sentence? Configurations; light, for `--help` imports them."""

import dataclasses

from hardem_jax.errors import require

#: Of a prepared split.
FORMAT = "sentences 1"


@dataclasses.dataclass(frozen=True)
class SentenceModelConfig:
    """A model that compares bags of words.

    Attributes:
        num_words: rows of the table that words are hashed into.
        width: of a word's vector.
    """

    num_words: int = 4096
    width: int = 64

    def __post_init__(self) -> None:
        require(self, "num_words", "width", at_least=1)


@dataclasses.dataclass(frozen=True)
class SentenceInference:
    """How answers are read off.

    Attributes:
        batch_size: questions read at once.
    """

    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "batch_size", at_least=1)
