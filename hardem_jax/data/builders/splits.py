"""The splits of builds as models are trained and evaluated on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from hardem_jax.data.builders.read import Examples, open_build
from hardem_jax.data.data_sets import Record, RecordKind
from hardem_jax.data.drawing import draw_first
from hardem_jax.data.exclusions import reasons
from hardem_jax.data.json_stream import PathLike
from hardem_jax.errors import InputError


class BuiltSplit:
    """The questions of a split of a build, with Z.

    ``questions`` are in the order of the source, of "train" those with a solution. ``left_out`` has
    the reason of every other question by id, for official metrics count these, too. ``meta`` holds
    options, counts, |Z| statistics, and a digest of all that scores depend on. ``drawn`` is the
    seed of `draw_first`; None keeps Z in its order.
    """

    #: Of the records.
    KIND: ClassVar[RecordKind]

    def __init__(self, folder: PathLike, split: str, *, drawn: int | None = None):
        build = open_build(folder)
        if build.kind != self.KIND.name:
            raise InputError(
                f"{build.folder}: expected a build of {self.KIND.name}, found one of {build.kind}"
            )
        records = build.records(split)
        index = build.index(split)
        skipped, kept = set(index["skipped"]), set(index["kept"])
        places = [place for place in range(len(records)) if place not in skipped]
        self._records, self._index = records, index
        self.folder = build.folder
        kind = self.KIND

        def read(record: Record) -> Any:
            example = kind.to_example(record)
            return example if drawn is None else draw_first(example, kind.solutions, drawn)

        self.questions: Sequence[Any] = Examples(records, read, places)
        self.left_out = reasons(index["left_out"], kept)
        counts = {n: found for n, found in build.meta["splits"][split].items() if n != "report"}
        self.meta: dict[str, Any] = {
            "format": build.meta["format"],
            "data set": build.meta["data set"],
            **build.meta["options"],
            **counts,
        }
