"""A prepared split: windows, questions and what they were made from, in one folder.

=======================  =====================================================
``positives.*``          windows that hold a mention (see `records`)
``negatives.*``          windows that do not
``places.npy``           question, document and rank within the question of each window
``left_out.json``        id and reason of every question that is not here
``questions.jsonl``      id, question, golds and |Z| of every question, in order
``tokenizer.json``       the tokenizer the windows were made with
``meta.json``            configuration, sources, counts, |Z| statistics
=======================  =====================================================

The folder appears under its name only when it is complete. ``meta.json`` holds
everything that determined the content; reading with another configuration is an
error, never a stale cache.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from hardem_jax.data.examples import ExclusionCounts, ReadingExample
from hardem_jax.data.records import (
    RecordSource,
    RecordWriter,
    load_array,
    new_folder,
    read_left_out,
    read_meta,
    size_summary,
    write_json,
    write_left_out,
)
from hardem_jax.data.tokenizer import Wordpieces
from hardem_jax.data.windows import WINDOWS, Window, WindowConfig, make_windows

FORMAT = 2


@dataclasses.dataclass(frozen=True)
class Question:
    """What evaluation needs of an example.

    Attributes:
        id, question: as in the example.
        golds: strings the official metric compares with.
        num_solutions: |Z| over the windows of the question, each mention counted once.
    """

    id: str
    question: str
    golds: tuple[str, ...]
    num_solutions: int


class PreparedSplit:
    """A folder that `prepare_split` wrote.

    Attributes:
        positives, negatives: windows with and without a mention.
        questions: by id, in the order of the source.
        places: ``[N, 3]`` int32: of each of all `windows`, its question, its document and its
            rank among the windows of the question, each counted from 0.
        tokenizer: `Wordpieces` the windows were made with.
        left_out: see `hardem_jax.data.records.read_left_out`.
        meta: content of ``meta.json``.

    Raises:
        InputError: if the folder is not a complete prepared split of this format.
    """

    def __init__(self, folder: Path):
        self.meta = read_meta(folder, format=FORMAT)
        self.folder = folder
        self.left_out = read_left_out(folder)
        self.positives = RecordSource(folder / "positives", WINDOWS)
        self.negatives = RecordSource(folder / "negatives", WINDOWS)
        self.places = load_array(folder / "places.npy")
        self.tokenizer = Wordpieces(Tokenizer.from_file(str(folder / "tokenizer.json")))
        with open(folder / "questions.jsonl", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        self.questions = {
            row["id"]: Question(**row | {"golds": tuple(row["golds"])}) for row in rows
        }

    def windows(self) -> "Concatenated":
        """All windows, positives first."""
        return Concatenated([self.positives, self.negatives])


class Concatenated(Sequence[Window]):
    """Several sources of windows as one, by index.

    Attributes:
        sizes: ``[N, 2]`` int32, tokens and solutions of each window.

    Example:
        >>> len(Concatenated([]))
        0
    """

    def __init__(self, sources: Sequence["RecordSource[Window] | Concatenated"]):
        self._sources = list(sources)
        self._ends = np.cumsum([len(source) for source in sources])
        self.sizes: np.ndarray = np.concatenate(
            [np.zeros((0, 2), np.int32), *(source.sizes for source in sources)]
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index):
        which = int(np.searchsorted(self._ends, index, side="right"))
        begin = self._ends[which] - len(self._sources[which])
        return self._sources[which][index - begin]


def all_windows(splits: Sequence[PreparedSplit]) -> tuple[Concatenated, np.ndarray]:
    """The windows of several splits, and their `PreparedSplit.places` with questions told apart."""
    first = np.cumsum([0, *(len(split.questions) for split in splits)])
    places = [
        split.places + np.array([begin, 0, 0], np.int32)
        for split, begin in zip(splits, first[:-1], strict=True)
    ]
    windows = Concatenated([split.windows() for split in splits])
    return windows, np.concatenate([np.zeros((0, 3), np.int32), *places])


def prepare_split(
    examples: Iterable[ReadingExample],
    folder: Path,
    *,
    tokenizer: Wordpieces,
    config: WindowConfig,
    metric: str,
    sources: Mapping[str, str],
    exclusions: ExclusionCounts,
    keep_without_mention: bool,
) -> dict[str, Any]:
    """Cut every example into windows and write the split; memory holds one example at a time.

    Args:
        examples: from one of the readers.
        folder: to be created; an existing one is replaced if it is a prepared split.
        tokenizer: of the encoder.
        config: window sizes.
        metric: "triviaqa", "squad" or "rouge", the official metric of the data.
        sources: name of each source file -> digest, for the record, and whatever else determined
            the examples.
        exclusions: the readers' count; what drops out here is added to it.
        keep_without_mention: True for data to evaluate on, where a question whose answer is
            not found still counts. Training cannot use such a question.

    Returns:
        The content of ``meta.json``.
    """
    set_sizes: list[int] = []
    kept: set[str] = set()
    with new_folder(folder) as partial:
        writers = {n: RecordWriter(partial / n, WINDOWS) for n in ("positives", "negatives")}
        places: dict[str, list[tuple[int, int, int]]] = {name: [] for name in writers}
        with open(partial / "questions.jsonl", "w", encoding="utf-8") as questions:
            for example in examples:
                if exclusions.repeated(example.id):
                    continue
                windows = make_windows(example, tokenizer, config)
                num_solutions = _num_distinct_solutions(windows)
                if not windows:
                    exclusions.add("no words in any document", example.id)
                    continue
                if not num_solutions and not keep_without_mention:
                    exclusions.add("answer not in any window", example.id)
                    continue
                for rank, window in enumerate(windows):
                    kind = "positives" if len(window.solutions) else "negatives"
                    writers[kind].write(window)
                    places[kind].append((len(set_sizes), window.document, rank))
                set_sizes.append(num_solutions)
                kept.add(example.id)
                row = Question(example.id, example.question, example.golds, num_solutions)
                questions.write(json.dumps(dataclasses.asdict(row), ensure_ascii=False) + "\n")
        for writer in writers.values():
            writer.close()
        all_places = np.array([*places["positives"], *places["negatives"]], np.int32)
        np.save(partial / "places.npy", all_places.reshape(-1, 3))
        write_left_out(partial, exclusions, kept)
        tokenizer.save(partial)
        sizes = [len(np.load(f"{partial / name}.sizes.npy")) for name in writers]
        meta = {
            "format": FORMAT,
            "windows": dataclasses.asdict(config),
            "metric": metric,
            "tokenizer": tokenizer.fingerprint,
            "sources": dict(sources),
            "counts": {
                "examples read": len(set_sizes) + exclusions.total,
                "left out": exclusions.total,
                "questions": len(set_sizes),
                "questions with a mention": sum(size > 0 for size in set_sizes),
                "windows with a mention": sizes[0],
                "windows without": sizes[1],
            },
            "excluded": exclusions.as_dict(),
            "solutions per question": size_summary(set_sizes),
        }
        write_json(partial / "meta.json", meta)
    return meta


def _num_distinct_solutions(windows: Sequence[Window]) -> int:
    """Mentions of a question, one that lies in several overlapping windows counted once."""
    places = set()
    for window in windows:
        for first, last in window.solutions - window.context_start:
            start = window.text_start + int(window.offsets[first, 0])
            end = window.text_start + int(window.offsets[last, 1])
            places.add((window.document, start, end))
    return len(places)
