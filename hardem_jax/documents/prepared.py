"""A prepared split for reading comprehension: windows, questions and metadata in one folder.

`PrepareCommand` makes one from whatever a data set reads.

=======================  =====================================================
``positives.*``          windows with a mention (see `records`)
``negatives.*``          windows without
``places.npy``           question, document and rank within the question of each window
``left_out.json``        id and reason of every question left out
``questions.jsonl``      id, question, golds and |Z| of every question, in order
``tokenizer.json``       the tokenizer the windows were made with
``meta.json``            configuration, sources, counts, |Z| statistics
``checksums.json``       size and SHA-256 of the other files
=======================  =====================================================

The folder appears only once it is complete. ``meta.json`` holds everything that determined the
content, and a digest of it, so that a run is never resumed on changed data. Opening the folder
verifies all checksums.
"""

import abc
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tokenizers

from hardem_jax.data.exclusions import ExclusionCounts, size_summary, sizes, with_help
from hardem_jax.data.files import file_digest, load_array, new_folder, read_meta, write_json
from hardem_jax.data.parallel import map_in_order
from hardem_jax.data.records import RecordSource, RecordWriter, read_left_out, write_left_out
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.mentions import enumerate_spans
from hardem_jax.documents.windows import WINDOWS, Window, WindowConfig, alias_matchers, make_windows
from hardem_jax.errors import LARGEST, InputError, check_unicode, require
from hardem_jax.progress import counted
from hardem_jax.settings import to_json
from hardem_jax.words import split_words

FORMAT = "spans 6"
#: Of splits whose answers consist of several texts.
TAGGINGS_FORMAT = "taggings 4"

# Reasons of `ExclusionCounts`, for questions left out:
NO_WORDS = "no words in any document"
NOT_IN_DOCUMENTS = with_help(
    "answer not in the documents",
    "check its spelling, or add what the document has to the answers; NarrativeQA: --rules.minimum",
)
FILTERED = with_help(
    "answer only in windows that TF-IDF left out", "keep more: --windows.max-windows"
)
CUT = with_help("answer cut by every window", "longer windows: --windows.max-tokens")
NOT_IN_TOKENS = with_help(
    "answer not in the tokens of a document",
    "tokens that hold it say more (try another tokenizer), or no document has all of its texts",
)
#: Flags that do not determine the content of a split, and the tokenizer, which has its own digest.
_NOT_RECORDED = {"out", "force", "processes", "tokenizer"}
# Document of a window, its tokens and solutions, and the encoded window.
_Record = tuple[int, tuple[int, int], bytes]


@dataclasses.dataclass(frozen=True)
class Question:
    """The parts of an example that evaluation needs. ``num_solutions`` is |Z| over the windows of
    the question, each mention counted once."""

    id: str
    question: str
    golds: tuple[str, ...]
    num_solutions: int


class PreparedSplit:
    """A prepared split, opened from a folder that `prepare_split` wrote.

    ``positives`` and ``negatives`` are windows with and without a mention, ``questions`` those by
    id. ``places`` ``[N, 3]`` int32 has question, document and rank in the question of each window.
    """

    def __init__(self, folder: Path, *, format: str = FORMAT):
        self.meta = read_meta(folder, format=format)
        self.folder = folder
        self.left_out = read_left_out(folder)
        self.positives = RecordSource(folder / "positives", WINDOWS)
        self.negatives = RecordSource(folder / "negatives", WINDOWS)
        self.places = load_array(folder / "places.npy")
        self.tokenizer = Tokenizer(tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")))
        with open(folder / "questions.jsonl", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        self.questions = {
            row["id"]: Question(**row | {"golds": tuple(row["golds"])}) for row in rows
        }

    def windows(self) -> "Concatenated":
        """Returns all windows, positives first."""
        return Concatenated([self.positives, self.negatives])


class Concatenated(Sequence[Window]):
    """Several sources of windows; ``sizes`` ``[N, 2]`` int32 are tokens and solutions of each."""

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
        return self._sources[which][index - (self._ends[which] - len(self._sources[which]))]


def all_windows(splits: Sequence[PreparedSplit]) -> tuple[Concatenated, np.ndarray]:
    """Returns the windows of several splits, and their `places` with distinct questions."""
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
    tokenizer: Tokenizer,
    config: WindowConfig,
    metric: str,
    sources: Mapping[str, Any],
    exclusions: ExclusionCounts,
    keep_without_mention: bool,
    scored: bool = True,
    processes: int | None = None,
    replace: bool = False,
    format: str = FORMAT,
) -> dict[str, Any]:
    """Cuts examples into windows and writes the split, with one example in memory at a time.

    Returns the content of ``meta.json``. ``metric`` is a module of `hardem_jax.documents.metrics`,
    ``sources`` is whatever determined the examples, and ``exclusions`` has the readers' counts, to
    which questions left out here are added. Where golds are not known (``scored`` False), nothing
    counts as lacking a mention. ``processes`` are spawned, so a script that calls this needs a
    ``__main__`` guard.
    """
    set_sizes: list[int] = []
    kept: set[str] = set()
    documents = hashlib.sha256()
    unique = _without_repeats(examples, exclusions, documents)
    cut = functools.partial(_cut, tokenizer=tokenizer, config=config, keep=keep_without_mention)
    with new_folder(folder, format=format, replace=replace) as partial:
        writer = _WindowWriter(partial)
        with open(partial / "questions.jsonl", "w", encoding="utf-8") as questions:
            for question, windows, reason in map_in_order(cut, unique, processes=processes):
                if reason:
                    exclusions.add(*reason)
                    continue
                writer.write(len(set_sizes), windows)
                set_sizes.append(question.num_solutions)
                kept.add(question.id)
                questions.write(json.dumps(dataclasses.asdict(question), ensure_ascii=False) + "\n")
        positives, negatives = writer.close()
        if not set_sizes:
            use, why = "evaluate" if keep_without_mention else "train", "the files hold no question"
            if exclusions.total:
                why = f"no question can be used ({exclusions.one_line()})"
            raise InputError(f"{folder}: nothing to {use} on, {why}")
        write_left_out(partial, exclusions, kept)
        tokenizer.save(partial)
        meta = {
            "format": format,
            "content": [positives.content, negatives.content],
            "windows": {name: to_json(x) for name, x in dataclasses.asdict(config).items()},
            "metric": metric,
            "tokenizer": tokenizer.fingerprint,
            "sources": dict(sources),
            "documents": documents.hexdigest()[:16],
            "keep_without_mention": keep_without_mention,
            **({} if scored else {"scored": False}),
            "counts": {
                "examples read": len(set_sizes) + exclusions.total,
                "left out": exclusions.total,
                "questions": len(set_sizes),
                "questions with a mention": sum(size > 0 for size in set_sizes),
                "windows with a mention": positives.num_records,
                "windows without": negatives.num_records,
            },
            "excluded": exclusions.as_dict(),
            "solutions per question": size_summary(set_sizes),
        }
        write_json(partial / "meta.json", meta)
    return meta


def _without_repeats(
    examples: Iterable[ReadingExample], exclusions: ExclusionCounts, documents: Any
) -> Iterator[ReadingExample]:
    """Leaves out examples whose id came before, and updates a digest with the others' documents."""
    for example in examples:
        if not exclusions.repeated(example.id):
            for document in example.documents:
                check_unicode(document.text, f"document {document.id!r}")
                documents.update("\0".join((document.id, document.text, "")).encode())
            yield example


class _WindowWriter:
    """Writes windows with and without a mention, and the place of each."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._writers = [RecordWriter(folder / n, WINDOWS) for n in ("positives", "negatives")]
        self._places: list[list[tuple[int, int, int]]] = [[], []]

    def write(self, question: int, windows: Sequence[_Record]) -> None:
        for rank, (document, size, data) in enumerate(windows):
            kind = 0 if size[1] else 1
            self._writers[kind].write_encoded(data, size)
            self._places[kind].append((question, document, rank))

    def close(self) -> list[RecordWriter[Window]]:
        for writer in self._writers:
            writer.close()
        places = np.array([place for own in self._places for place in own], np.int32)
        np.save(self._folder / "places.npy", places.reshape(-1, 3))
        return self._writers


def _cut(
    example: ReadingExample, tokenizer: Tokenizer, config: WindowConfig, keep: bool
) -> tuple[Question, list[_Record], tuple[str, str, str] | None]:
    """Returns the question, its windows, and why it is unusable, its id and the text missed."""
    windows = make_windows(example, tokenizer, config)
    question = Question(
        example.id, example.question, example.golds, _num_distinct_solutions(windows)
    )
    if not windows:
        return question, [], (NO_WORDS, example.id, "")
    if not question.num_solutions and not keep:
        reason, text = _why_no_mention(example, tokenizer, config)
        return question, [], (reason, example.id, text and f"{text!r:.60}")
    return question, [(w.document, WINDOWS.sizes(w), WINDOWS.encode(w)) for w in windows], None


def _why_no_mention(
    example: ReadingExample, tokenizer: Tokenizer, config: WindowConfig
) -> tuple[str, str]:
    """The reason, and the text that is in no document."""
    every_window = dataclasses.replace(config, max_windows=None)
    if _num_distinct_solutions(make_windows(example, tokenizer, every_window)):
        return FILTERED, ""
    words = [split_words(document.text) for document in example.documents]
    if example.mentions is None:  # otherwise it does not matter what a search would find
        for matcher in alias_matchers(example.aliases, all_required=example.all_required):
            if not any(len(enumerate_spans(own, matcher)) for own in words):
                return NOT_IN_DOCUMENTS, next(iter(matcher.aliases), "")
    elif not example.mentions:
        return NOT_IN_DOCUMENTS, next(iter(example.golds), "")
    whole = dataclasses.replace(every_window, max_tokens=LARGEST)
    found = _num_distinct_solutions(make_windows(example, tokenizer, whole))
    return CUT if found else NOT_IN_TOKENS, ""


def _num_distinct_solutions(windows: Sequence[Window]) -> int:
    """Counts the mentions of a question once; of sets of mentions, those of the window with the
    most."""
    if any(window.texts is not None for window in windows):
        return max(window.num_solutions for window in windows)
    return len({window.place(*span) for window in windows for span in window.solutions})


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
        """A module of `hardem_jax.documents.metrics`."""
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
