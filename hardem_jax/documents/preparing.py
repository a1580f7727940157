"""``prepare``: documents cut into windows, from whatever a data set reads."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from hardem_jax.data.exclusions import ExclusionCounts, sizes
from hardem_jax.data.files import file_digest
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import FORMAT, prepare_split
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import require
from hardem_jax.progress import counted
from hardem_jax.settings import to_json

#: Flags that do not determine the content of a split, and the tokenizer, which has its own digest.
_NOT_RECORDED = {"out", "force", "processes", "tokenizer"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareCommand(abc.ABC):
    """Find Z of every question and cut the documents into windows.

    Attributes:
        out: folder to write.
        tokenizer: Hugging Face name or folder of the encoder's checkpoint.
        split: "train" leaves out questions without a solution, all others keep them; "test" has no
            answers, so that ``evaluate`` writes predictions and no scores.
        windows: sizes.
        processes: number of processes that cut windows; the result is the same.
        force: replace the split in ``out``.
    """

    FORMAT: ClassVar[str] = FORMAT
    METRIC: ClassVar[str]

    out: Path
    tokenizer: str = "bert-base-uncased"
    split: str = "train"
    windows: WindowConfig = WindowConfig()
    processes: int = 1
    force: bool = False

    def __post_init__(self) -> None:
        require(self, "processes", at_least=1)

    @abc.abstractmethod
    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        """Reads the questions, and counts in ``skips`` those that cannot be used."""

    def official_metric(self) -> str:
        """A key of `hardem_jax.documents.metrics.METRICS`."""
        return self.METRIC

    def sources(self) -> dict[str, Any]:
        """What determines the examples."""
        return determined_by(self)

    def scored(self) -> bool:
        """Whether the answers are known."""
        return self.split != "test"

    def keep_without_mention(self) -> bool:
        """Whether questions without a solution are kept, as evaluation needs."""
        return self.split != "train"

    def run(self) -> None:
        exclusions, sources = ExclusionCounts(), self.sources()
        meta = prepare_split(
            counted(self.examples(exclusions), "questions"),
            self.out,
            tokenizer=load_tokenizer(self.tokenizer),
            config=self.windows,
            metric=self.official_metric(),
            sources=sources,
            exclusions=exclusions,
            keep_without_mention=self.keep_without_mention(),
            scored=self.scored(),
            processes=self.processes,
            replace=self.force,
            format=self.FORMAT,
        )
        for name, count in meta["counts"].items():
            print(f"{count:>9}  {name}")
        print(sizes(meta["solutions per question"]))
        print(exclusions)


def determined_by(command: Any, **digests: Any) -> dict[str, Any]:
    """Every flag of a ``prepare`` command that determines its split; files by name and digest,
    folders by the given digests."""
    values = {}
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        if field.name in digests:
            values[field.name] = digests[field.name]
        elif field.name not in _NOT_RECORDED:
            is_file = isinstance(value, Path)
            values[field.name] = {value.name: file_digest(value)} if is_file else to_json(value)
    return values
