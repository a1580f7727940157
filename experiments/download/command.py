"""Download data sets from where their authors publish them.

Each data set has a folder below ``out``, laid out as ``prepare`` expects it::

    python -m experiments.download wikisql squad --out data
    python -m experiments.wikisql prepare --folder data/wikisql --out built/wikisql

A download that was stopped, by Ctrl-C or by the network, is continued by the same command. The
SHA-256 of every file is kept in ``downloads.json`` of its folder; a file that later has another,
or another one than TensorFlow Datasets records, is refused. Archives are deleted once they are
unpacked, unless ``--keep-archives``.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from experiments.download.archives import unpack
from experiments.download.catalog import DATASETS, Dataset, Source
from experiments.download.transfer import fetch
from hardem_jax.data.files import make_out, read_json, write_json
from hardem_jax.errors import InputError
from hardem_jax.locks import locked

RECORD = "downloads.json"


@dataclasses.dataclass(frozen=True)
class Download:
    """Download data sets from where their authors publish them.

    Attributes:
        datasets: triviaqa, triviaqa-open, narrativeqa, nq-open, drop, wikisql, wikitablequestions,
            squad, quoref, dpr-wikipedia or glove.
        out: each has a folder of its name in this one.
        keep_archives: do not delete archives that were unpacked.
        mirror: address of a folder that holds all files under their own names, to read them from.
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
        for source in dataset.sources:
            file, before = folder / source.name, done.get(source.name, {})
            if before.get("unpacked"):
                print(f"{source.name}: already unpacked")
                continue
            if file.exists():
                print(f"{source.name}: already there")
            else:
                self._fetch(source, file)
            found = {"url": source.url, "bytes": file.stat().st_size, "sha256": _sha256(file)}
            _check(source, file, found["sha256"], before)
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

    def _fetch(self, source: Source, file: Path) -> None:
        url = source.url if self.mirror is None else f"{self.mirror.rstrip('/')}/{source.name}"
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        columns = (*columns, TransferSpeedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(source.name, total=source.size)

            def progress(arrived: int, total: int | None) -> None:
                bar.update(task, completed=arrived, total=total or source.size)

            fetch(url, file, progress=progress)


def _check(source: Source, file: Path, sha256: str, before: Mapping[str, Any]) -> None:
    """Refuses a file that is not the one that is known, and sets it aside."""
    for known in (source.sha256, before.get("sha256")):
        if known not in (None, sha256):
            aside = file.replace(file.with_name(file.name + ".refused"))
            raise InputError(
                f"{aside}: expected the SHA-256 {known}, found {sha256}: damaged, or of another "
                f"version; without {RECORD} the next call takes what it finds"
            )


def _sha256(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
