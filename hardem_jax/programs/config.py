"""What can be chosen for programs: the parser and decoding."""

import dataclasses
from typing import Literal

from hardem_jax.errors import require
from hardem_jax.task.config import EncoderConfig

#: How an answer is read off a parser of programs, see `ProgramInference`.
ProgramDecoding = Literal["program", "result"]


@dataclasses.dataclass(frozen=True)
class ProgramParserConfig(EncoderConfig):
    """A parser of programs on a pretrained encoder.

    Attributes:
        hidden_size: width of the layer before the scores of a slot.
        dropout: in that layer; the encoder has its own.
        max_tokens: maximum input length in tokens. Inputs that are too long are shortened in this
            order: headers, then the question, then whole columns.
        max_header_tokens: longer headers are cut.
    """

    hidden_size: int = 256
    dropout: float = 0.1
    max_tokens: int = 180
    max_header_tokens: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "hidden_size", "max_header_tokens", at_least=1)
        require(self, "dropout", at_least=0, below=1)
        require(self, "max_tokens", at_least=8)


@dataclasses.dataclass(frozen=True)
class ProgramInference:
    """How answers are read off a parser of programs.

    Attributes:
        decoding: "program" takes the most likely program of Z_tot with a result; "result" the
            result with the largest total probability over the ``top`` most likely of these.
        top: programs kept per question.
        max_combinations: combinations of slots that are looked at, most likely first.
        batch_size: questions read at once.
    """

    decoding: ProgramDecoding = "program"
    top: int = 50
    max_combinations: int = 20_000
    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "top", "max_combinations", "batch_size", at_least=1)
