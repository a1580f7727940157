"""Download data sets from where their authors publish them.

Each data set has a folder below ``out``, laid out as ``prepare`` expects it::

    python -m experiments.download wikisql squad --out data
    python -m experiments.wikisql prepare --folder data/wikisql --out built/wikisql

Pooch downloads; a lost connection is tried again, from the beginning of the file. The SHA-256 of
every file is kept in ``downloads.json`` of its folder; one that the server later has with another,
or with another than TensorFlow Datasets records, is refused. Archives are deleted once they are
unpacked, unless ``--keep-archives``.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pooch
import tyro

from experiments.download.archives import unpack
from hardem_jax.cli.command import run_command
from hardem_jax.data.files import make_out, read_json, write_json
from hardem_jax.errors import InputError
from hardem_jax.locks import locked


@dataclasses.dataclass(frozen=True)
class Source:
    """A published file: its address, SHA-256 and bytes where they are known before the first
    download, and whether it is an archive whose members are wanted."""

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
    """A data set as its authors publish it: ``home`` is a page to read, ``then`` the command that
    reads it, with ``{out}`` for its folder; ``strip`` leaves out the folder around all members of
    archives."""

    title: str
    licence: str
    home: str
    sources: tuple[Source, ...]
    then: str
    strip: bool = False


_CONTENT = Path(__file__).with_name("catalog.toml").read_text("utf-8")
DATASETS: Mapping[str, Dataset] = {
    name: Dataset(sources=tuple(Source(**source) for source in content.pop("sources")), **content)
    for name, content in tomllib.loads(_CONTENT).items()
}


RECORD = "downloads.json"
#: New attempts after a failure, after pauses of one second, two and so on.
RETRIES = 3


@dataclasses.dataclass(frozen=True)
class Download:
    """Download data sets from where their authors publish them.

    Attributes:
        datasets: triviaqa, triviaqa-open, narrativeqa, nq-open, drop, wikisql, wikitablequestions,
            squad, quoref, dpr-wikipedia or glove.
        out: each has a folder of its name in this one.
        keep_archives: do not delete archives that were unpacked.
        mirror: http, https or ftp address of a folder with all files under their own names.
    """

    datasets: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME ...")]
    out: Path = Path("data")
    keep_archives: bool = False
    mirror: str | None = None

    def run(self) -> None:
        for name in self.datasets or ("none",):
            if name not in DATASETS:
                expected = ", ".join(DATASETS)
                raise InputError(f"datasets: expected some of {expected}, found {name}")
        for name in dict.fromkeys(self.datasets):
            folder = self.out / name
            make_out(folder)
            with locked(folder):
                self._get(DATASETS[name], folder)

    def _get(self, dataset: Dataset, folder: Path) -> None:
        print(f"{dataset.title}\nlicence: {dataset.licence}\nread more: {dataset.home}")
        record = folder / RECORD
        done: dict[str, Any] = read_json(record) if record.exists() else {}
        urls = {source.name: source.url for source in dataset.sources}
        known = {name: done.get(name, {}).get("sha256") for name in urls}
        known |= {source.name: source.sha256 for source in dataset.sources if source.sha256}
        files = pooch.create(
            folder,
            base_url=self.mirror or "",
            registry=known,
            urls=None if self.mirror else urls,
            retry_if_failed=RETRIES,
        )
        for source in dataset.sources:
            if done.get(source.name, {}).get("unpacked"):
                print(f"{source.name}: already unpacked")
                continue
            file = _fetch(files, source.name)
            found: dict[str, Any] = {"url": source.url, "bytes": file.stat().st_size}
            found["sha256"] = pooch.file_hash(str(file))
            # Before it is unpacked, so that the next call checks what this one downloaded.
            write_json(record, done | {source.name: found})
            if source.unpack:
                print(f"{source.name}: unpacking")
                try:
                    unpack(file, folder, strip=dataset.strip)
                except InputError as error:
                    # A sound file has another digest, and is downloaded by the next call.
                    write_json(record, {name: x for name, x in done.items() if name != source.name})
                    aside = file.replace(file.with_name(file.name + ".refused"))
                    raise InputError(f"{error}; it is now {aside.name}") from error
                found["unpacked"] = True
                if not self.keep_archives:
                    file.unlink()
            done |= {source.name: found}
            write_json(record, done)
        print(f"then: python -m {dataset.then.format(out=folder)} ...\n")


def _fetch(files: pooch.Pooch, name: str) -> Path:
    """The file, downloaded unless it is there with the digest that is known."""
    try:
        return Path(files.fetch(name, progressbar=True))
    except ValueError as error:  # another digest
        hint = f"without {RECORD} the next call takes what it finds, unless it is published"
        raise InputError(f"{files.get_url(name)}: {error} {hint}") from error
    except OSError as error:  # no such file, no answer, no room
        raise InputError(f"{files.get_url(name)}: cannot be downloaded: {error}") from error


if __name__ == "__main__":
    run_command(Download, prog="python -m experiments.download")
