"""Configuration of discrete reasoning; importing it is cheap enough to parse a command line."""

import dataclasses
from typing import Literal

from hardem_jax.errors import require


@dataclasses.dataclass(frozen=True)
class InferenceConfig:
    """How answers are read off.

    Attributes:
        decoding: "equation" takes the likeliest of all equations of Z_tot; "tags" takes the
            likeliest tag of every number on its own and adds up whatever that gives, or the
            likeliest count where the model likes counting better, as the original of NAQANet does.
        top: equations kept per question.
        batch_size: questions read at once.
    """

    decoding: Literal["equation", "tags"] = "equation"
    top: int = 5
    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "top", "batch_size", at_least=1)
