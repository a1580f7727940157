"""Where each data set is published, under which licence, and what its files are: catalog.toml."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Source:
    """A published file.

    Attributes:
        url: its address.
        sha256: of its content, where it is known before the first download.
        size: in bytes, where it is known.
        unpack: an archive whose members are wanted.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    unpack: bool = False

    @property
    def name(self) -> str:
        """The last part of the address: the name of the local file."""
        return self.url.rpartition("/")[2]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set as its authors publish it.

    Attributes:
        title: its name.
        licence: what its authors say about its use.
        home: the page to read about it.
        sources: its files.
        strip: archives have a folder around all members, which is left out.
        then: the command that reads it, with ``{out}`` for its folder and without other flags.
    """

    title: str
    licence: str
    home: str
    sources: tuple[Source, ...]
    then: str
    strip: bool = False


def _dataset(content: dict[str, Any]) -> Dataset:
    sources = tuple(Source(**source) for source in content.pop("sources"))
    return Dataset(sources=sources, **content)


_CONTENT = Path(__file__).with_name("catalog.toml").read_text("utf-8")
DATASETS: Mapping[str, Dataset] = {
    name: _dataset(content) for name, content in tomllib.loads(_CONTENT).items()
}
