"""Configuration of the reading task; importing it is cheap enough to parse a command line."""

import dataclasses
from typing import Literal

from hardem_jax.data.batching.grouped import Scope
from hardem_jax.errors import InputError, require


@dataclasses.dataclass(frozen=True)
class LatentConfig:
    """What the latent variable ranges over in training.

    Attributes:
        scope: windows that share one softmax and one Z: each "window" alone (the released code),
            the windows of a "document", or all of a "question" (docs/reproducing.md).
        group_size: G, windows of a document or question in a training item; of more, one with a
            mention and G - 1 others are drawn anew in every epoch.
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
class InferenceConfig:
    """How answers are read off.

    Attributes:
        max_answer_tokens: longest answer, wordpieces (released code: 10).
        top: spans kept per window.
        batch_size: windows read at once.
        scope: what spans compete in. "window" (the paper): the selector chooses a window, and the
            likeliest span of it is the answer; "document": it chooses a window and thereby a
            document, whose windows share one softmax; "question": all windows share one softmax,
            and the selector is not asked.
        joint: with scope "window", rank by P(window has the answer) * P(span) instead.
        num_documents: read only the first so many documents of each question; None for all.
        sweep: also score answers from the first so many documents alone, for each number given,
            out of the same reading.

    Raises:
        InputError: ``joint`` with another scope, or a number below 1.
    """

    max_answer_tokens: int = 10
    top: int = 5
    batch_size: int = 32
    scope: Scope = "window"
    joint: bool = False
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()

    def __post_init__(self):
        counts = ("max_answer_tokens", "top", "batch_size", "num_documents", "sweep")
        require(self, *counts, at_least=1)
        if self.joint and self.scope != "window":
            raise InputError(
                f"joint: expected scope 'window', whose windows it ranks, found {self.scope!r}"
            )
