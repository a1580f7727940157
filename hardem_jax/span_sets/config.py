"""What can be chosen for readers of several spans."""

import dataclasses
from typing import Literal

from hardem_jax.errors import require
from hardem_jax.task.config import EncoderConfig
from hardem_jax.training.fingerprint import may_change


@dataclasses.dataclass(frozen=True)
class TaggedReaderConfig(EncoderConfig):
    """A reader of several spans, which tags every word, on a pretrained encoder.

    Attributes:
        tags: "bio" tells where a span begins; with "io", spans that touch are one.
        max_mentions: maximum number of mentions considered per window. If there are more, the
            first mention of each text is kept, then the second of each, and so on while a whole
            round fits.
        max_taggings: largest Z of a window; those with the fewest mentions are kept.
    """

    tags: Literal["bio", "io"] = "bio"
    max_mentions: int = 32
    max_taggings: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "max_mentions", "max_taggings", at_least=1)


@dataclasses.dataclass(frozen=True)
class TaggingInference:
    """How answers are read off a reader of several spans.

    The selector chooses a window, and its most likely tagging that marks something is the answer.

    Attributes:
        batch_size: windows read at once.
        packed_tokens: pack windows into rows of this many tokens, longer if an input is; None
            pads them to buckets. Answers are the same up to rounding.
    """

    batch_size: int = 32
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self) -> None:
        require(self, "batch_size", "packed_tokens", at_least=1)
