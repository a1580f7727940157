"""Configuration of semantic parsing; importing it is cheap enough to parse a command line."""

import dataclasses
from typing import Literal

from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class InferenceConfig:
    """How answers are read off.

    Attributes:
        decoding: "query" takes the likeliest of all well-formed queries; "execution-guided" the
            likeliest of the ``top`` whose result is not empty; "greedy" one decision after the
            other, as SQLova does.
        top: queries kept per question.
        batch_size: questions read at once.
    """

    decoding: Literal["query", "execution-guided", "greedy"] = "query"
    top: int = 5
    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "top", "batch_size", at_least=1)
