"""What can be chosen for span readers: models, latent variables, decoding."""

import dataclasses
from typing import Literal

from hardem_jax.data.batching.grouped import Scope
from hardem_jax.errors import InputError, require
from hardem_jax.task.config import EncoderConfig
from hardem_jax.training.fingerprint import may_change


@dataclasses.dataclass(frozen=True)
class ReaderConfig(EncoderConfig):
    """A span reader on a pretrained encoder.

    Attributes:
        softmax_over: "context" (default), or all "tokens" as in the paper's formula.
    """

    softmax_over: Literal["context", "tokens"] = "context"


@dataclasses.dataclass(frozen=True)
class LatentConfig:
    """What the latent variable ranges over in training.

    Attributes:
        scope: windows that share one softmax and one Z: each "window" (the released code),
            the windows of a "document", or all of a "question" (docs/reproducing.md).
        group_size: G, the number of windows per training item. If a document or question has
            more, one window with a mention and G - 1 others are resampled every epoch.
        likelihood: "span": P(z) is that of a mention, P(start) * P(end). "position": start
            and end are latent variables of their own, each over the positions where a mention
            starts or ends (Cheng et al., 2020).

    Raises:
        InputError: ``group_size`` is below 1.
    """

    scope: Scope = "window"
    group_size: int = 8
    likelihood: Literal["span", "position"] = "span"

    def __post_init__(self):
        require(self, "group_size", at_least=1)

    @property
    def rows(self) -> int:
        """Windows that share one softmax."""
        return 1 if self.scope == "window" else self.group_size


@dataclasses.dataclass(frozen=True)
class SpanInference:
    """How answers are read off a span reader.

    Attributes:
        max_answer_tokens: longest answer in tokens (released code: 10).
        whole_words: answer with whole words and numbers only, as every z is, but for those that the
            edge of a window cuts; otherwise with any tokens, also from inside of a word.
        top: spans kept per window, or ``keep`` if that is more.
        batch_size: windows read at once.
        scope: what spans compete in. "window" (the paper): the selector chooses a window, and the
            most likely span in it is the answer; "document": it chooses a window and thereby a
            document, whose windows share one softmax; "question": all windows share one softmax,
            and the selector is not used.
        joint: with scope "window", rank by P(window has the answer) * P(span) instead.
        no_answer_threshold: where "unknown" is a choice (`WindowConfig`), say that there is no
            answer if P("unknown") / (P("unknown") + P(best span)) is above this.
        num_documents: read only the first documents of each question; None for all.
        sweep: also score answers from the first n documents only, for each n, in one reading.
        keep: answers kept for each question of a split, best first.
        packed_tokens: pack windows into rows of this many tokens, longer if an input is; None
            pads them to buckets. Answers are the same up to rounding.

    Raises:
        InputError: ``joint`` with another scope, or a number below 1.
    """

    max_answer_tokens: int = 10
    whole_words: bool = True
    top: int = 5
    batch_size: int = 32
    scope: Scope = "window"
    joint: bool = False
    no_answer_threshold: float = 0.5
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()
    keep: int = may_change("scores do not depend on it", default=1)
    packed_tokens: int | None = may_change("scores change by rounding at most", default=None)

    def __post_init__(self):
        counts = ("max_answer_tokens", "top", "batch_size", "num_documents", "sweep", "keep")
        require(self, *counts, "packed_tokens", at_least=1)
        require(self, "no_answer_threshold", at_least=0, at_most=1)
        if self.joint and self.scope != "window":
            raise InputError(
                f"joint: expected scope 'window', whose windows it ranks, found {self.scope!r}"
            )
