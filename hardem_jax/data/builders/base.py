"""What the builders of all data sets share: versions that never go stale, shards, bookkeeping.

A build lies in ``{data_dir}/{name}/{fingerprint}/{version}/``:

===========================  ==========================================================
``{name}-{split}.array_...`` shards of records, in the order of the source
``build.json``               what determined the content, counts, |Z| statistics
``{split}.index.json``       which records are its questions, see `count`
``dataset_info.json`` ...    what TFDS needs to read it back
``checksums.json``           size and SHA-256 of the other files
===========================  ==========================================================

The fingerprint covers the code's format, the options, and the content of every source file. If one
of them changes, so does the folder: a build is found again only if it would be made again. While a
build is under way, its folder is called ``incomplete.*``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds
from tensorflow_datasets.core.splits import SplitDict, SplitInfo

from hardem_jax.checksums import write_checksums
from hardem_jax.data.builders.shards import Shard, cut, features_of, write_shard
from hardem_jax.data.built import BUILD_FILE, FORMAT, index_file
from hardem_jax.data.data_sets import DataSet, RecordKind
from hardem_jax.data.exclusions import ExclusionCounts, size_summary
from hardem_jax.data.files import write_json, writing
from hardem_jax.data.json_stream import PathLike
from hardem_jax.data.parallel import map_in_order
from hardem_jax.errors import InputError, found_by
from hardem_jax.locks import locked


def digest(path: Path) -> str:
    """SHA-256 of a file; of a folder, of the names and contents of all files below it."""
    try:
        if not os.path.isdir(path):
            with open(path, "rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest()
        names = sorted(file.relative_to(path).as_posix() for file in _files_below(path))
    except OSError as error:
        raise InputError(f"{path}: expected a file or folder, found {found_by(error)}") from error
    whole = hashlib.sha256()
    for name in names:
        # A name need not be UTF-8: Python keeps its bytes as surrogates.
        whole.update(f"{digest(path / name)} {name}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _files_below(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
    """All files, those in linked folders included; a link to a folder that it lies in is not."""
    found = os.stat(folder)
    here = found.st_dev, found.st_ino
    if here not in above:
        for path in folder.iterdir():
            yield from _files_below(path, above | {here}) if path.is_dir() else (path,)


#: The split that is trained on.
TRAIN = "train"


def count(
    kind: RecordKind,
    split: str,
    rows: Sequence[dict[str, Any]],
    skips: ExclusionCounts,
    data_set: DataSet,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``build.json`` and ``{split}.index.json`` say of a split, given `Solver.facts` of every
    record with its "digest".

    A question that Z cannot hold is left out, and added to ``skips``. So is, of some kinds and in
    "train", one without a solution: training cannot use it. Their records stay. "content" is the
    digest of all digests, options and numbers left out. The index holds

    ============  ================================================================================
    ``left_out``  [id, reason] of every question that cannot be used, in the order they were found
    ``kept``      those of these ids under which there is a question nevertheless
    ``repeated``  [id, golds] of every question whose id was seen before, of numeric questions
    ``skipped``   places of the records that are none of the split's questions, ascending
    ``tables``    table id -> place of the first record that holds the table
    ============  ================================================================================
    """
    used, skipped = [], []
    tables: dict[str, int] = {}
    for place, row in enumerate(rows):
        reason, _, note = row.get("defect", "").partition(": ")
        if not reason and not row["found"] and split == TRAIN:
            reason, note = kind.no_solution, row.get("note", "")
        if reason:
            skips.add(reason, row["id"], note)
            skipped.append(place)
            continue
        used.append(row)
        if kind.with_table:
            tables.setdefault(row["table_id"], place)
        if warning := row.get("warning"):
            skips.warn(warning, row["id"])
    sizes = [row["found"] for row in used]
    counts = {
        "questions read": len(used) + skips.total,
        "left out": skips.total,
        "questions": len(used),
        "questions with a solution": sum(size > 0 for size in sizes),
    }
    if kind.with_table:
        cut = [row["found"] - row["kept"] for row in used]
        counts["questions cut by the cap"] = sum(number > 0 for number in cut)
        counts["solutions cut by the cap"] = sum(cut)
        counts["tables"] = len(tables)
    # Not of ids: a question without one has a path in its place.
    determined = [dataclasses.asdict(data_set), skips.as_dict(), [row["digest"] for row in rows]]
    found = {
        "counts": list(counts.items()),  # in this order, for people
        "solutions per question": size_summary(sizes),
        "excluded": skips.as_dict(),
        "warnings": skips.warnings_as_dict(),
        "report": str(skips).splitlines(),
        "content": hashlib.sha256(json.dumps(determined).encode()).hexdigest()[:16],
    }
    ids = {row["id"] for row in used}
    index = {
        "left_out": skips.left_out,
        "kept": sorted({id for id, _ in skips.left_out if id in ids}),
        "skipped": skipped,
        "tables": tables,
    }
    if kind.repetitions:
        index["repeated"] = skips.repetitions
    return found, index


_WORK = "work"


class SolutionBuilder(tfds.core.ShardBasedBuilder):
    """A TFDS builder whose records hold Z, in the order of the source; Z may be empty.

    ``folder`` has the official files, ``splits`` are by default those whose files are present.
    ``processes`` are spawned to find Z if Beam does not; the files are the same. ``progress`` wraps
    the work on the shards, as `hardem_jax.progress.counted`.
    """

    VERSION = tfds.core.Version("1.0.0")
    # TFDS would look for a file next to the module, with a package that it does not require.
    url_infos: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        data_set: DataSet,
        *,
        data_dir: PathLike,
        folder: PathLike,
        splits: Sequence[str] = (),
        shard_size: int = 256,
        processes: int = 1,
        progress: Callable[[Iterable[None]], Iterable[None]] = iter,
    ):
        if shard_size < 1:
            raise InputError(f"shard_size: expected at least 1, found {shard_size}")
        self._processes, self._progress = processes, progress
        self.data_set = data_set
        # TFDS has a class for each data set, and the name there.
        setattr(self, "name", data_set.NAME)  # noqa: B010
        self.folder = Path(folder)
        self.shard_size = shard_size
        self.splits = tuple(splits) or self._splits_there()
        self.exclusions = {split: ExclusionCounts() for split in self.splits}
        self.identity = {
            "format": FORMAT,
            "data set": self.name,
            "options": dataclasses.asdict(data_set),
            "sources": self._digests(),
            "shard_size": shard_size,
        }
        config = tfds.core.BuilderConfig(name=fingerprint(self.identity))
        # Absolute, since workers may have another current folder.
        data_dir = Path(data_dir).absolute()
        with writing(data_dir):
            super().__init__(data_dir=data_dir, config=config, file_format="array_record")

    def download_and_prepare(self, **options: Any) -> None:
        """Builds the data set, unless the folder of this fingerprint is there; ``options`` are
        TFDS's."""
        parent = Path(self.data_dir).parent
        with writing(Path(self._data_dir_root)):
            if Path(self.data_dir).exists():
                return
            parent.mkdir(parents=True, exist_ok=True)
            with locked(parent):
                for left in parent.glob("incomplete.*"):  # by a process that was killed
                    shutil.rmtree(left)
                super().download_and_prepare(**options)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"{type(self.data_set).__name__} with Z",
            features=features_of(self.data_set.solver.kind),
            homepage=self.data_set.HOME,
            disable_shuffling=True,
        )

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Shard]]:
        shards = {}
        for split in self.splits:
            skips = self.exclusions[split] = ExclusionCounts()
            read = self.data_set.read(self.folder, split, skips)
            examples = (x for x in read if not skips.repeated(x.id, getattr(x, "golds", None)))
            work = Path(self.data_dir, _WORK, split)
            shards[split] = cut(examples, work, self.data_set.solver, self.shard_size)
            self._check_some(split, len(shards[split]))
        return shards

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        config = download_config or tfds.download.DownloadConfig()
        plan = self._shard_iterators_per_split(dl_manager)
        files = {split: self._files(split, len(shards)) for split, shards in plan.items()}
        work = [pair for split in plan for pair in zip(plan[split], files[split], strict=True)]
        if config.beam_options is None and config.beam_runner is None:
            written = map_in_order(write_shard, work, processes=self._processes, chunk_size=1)
            for _ in self._progress(written):
                pass
        else:
            from hardem_jax.data.builders.beam import write_with_beam

            write_with_beam(work, config.beam_options, config.beam_runner)
        self.info.set_splits(
            SplitDict(
                SplitInfo(
                    name=split,
                    shard_lengths=[shard.count for shard in shards],
                    num_bytes=sum(file.stat().st_size for file in files[split]),
                    filename_template=self._get_filename_template(split),
                )
                for split, shards in plan.items()
            )
        )
        write_json(Path(self.data_dir, BUILD_FILE), self._meta(plan))
        shutil.rmtree(Path(self.data_dir, _WORK))
        # As TFDS does afterwards, with the same content.
        self.info.download_size = dl_manager.downloaded_size
        self.info.write_to_directory(self.data_dir)
        write_checksums(Path(self.data_dir))

    def _files(self, split: str, count: int) -> list[Path]:
        path = self._get_filename_template(split).sharded_filepath
        return [Path(path(shard_index=index, num_shards=count)) for index in range(count)]

    def _meta(self, plan: dict[str, list[Shard]]) -> dict[str, Any]:
        """Content of ``build.json``; writes the indices of the splits."""
        splits = {}
        for split, shards in plan.items():
            rows = [row for shard in shards for row in shard.facts()]
            skips, kind = self.exclusions[split], self.data_set.solver.kind
            splits[split], index = count(kind, split, rows, skips, self.data_set)
            self._check_some(split, len(rows) - len(index["skipped"]))
            write_json(Path(self.data_dir, index_file(split)), index)
        return {
            **self.identity,
            "fingerprint": fingerprint(self.identity),
            "kind": self.data_set.solver.kind.name,
            "metric": self.data_set.METRIC,
            "splits": splits,
        }

    def _check_some(self, split: str, count: int) -> None:
        if not count:
            file, *_ = self.data_set.source_files(self.folder, split).values()
            raise InputError(
                f"{file}: expected questions in {split!r}, "
                f"found none that can be used; {self.exclusions[split].one_line()}"
            )

    def _splits_there(self) -> tuple[str, ...]:
        names = {x: self.data_set.source_names(self.folder, x) for x in self.data_set.SPLITS}
        found = tuple(x for x in names if all(os.path.exists(self.folder / n) for n in names[x]))
        if not found:
            raise InputError(
                f"{self.folder}: expected {', '.join(names[self.data_set.SPLITS[0]])}, from "
                f"{self.data_set.HOME}; found no such files"
            )
        return found

    def _digests(self) -> dict[str, dict[str, str]]:
        """Split -> name -> digest of its source files."""
        files = {split: self.data_set.source_files(self.folder, split) for split in self.splits}
        # What several splits share (gigabytes of evidence) is read once.
        found = {path: digest(path) for path in set().union(*(x.values() for x in files.values()))}
        return {
            split: {name: found[path] for name, path in some.items()}
            for split, some in files.items()
        }


def quiet() -> None:
    """Switches off the progress bars of TFDS, and what it and Beam log short of errors. They report
    every configuration that is computed, as ours are, rather than a constant of the code."""
    tfds.disable_progress_bar()
    for name in ("absl", "apache_beam"):
        logging.getLogger(name).setLevel(logging.ERROR)


def fingerprint(identity: dict[str, Any]) -> str:
    """16 hexadecimal digits that stand for everything that determines a build."""
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
