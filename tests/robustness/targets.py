"""Valid files of every layout that the project reads, and their readers."""

import collections
import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.equations.words import Vocabulary, load_word_vectors
from hardem_jax.retrieval.files import read_passages
from hardem_jax.spans.config import ReaderConfig, SpanInference
from hardem_jax.spans.readers.dpr import read_contexts
from hardem_jax.spans.readers.narrativeqa import QUESTIONS, SUMMARIES, read_narrativeqa
from hardem_jax.spans.readers.triviaqa import read_triviaqa_questions
from hardem_jax.tables.csv import read_csv_table
from hardem_jax.tables.jsonl import read_table_questions
from hardem_jax.tables.wikitablequestions import read_wikitablequestions
from hardem_jax.task.run_config import RunConfig
from tests.data.test_readers import LAYOUTS, Layout


@dataclasses.dataclass(frozen=True)
class Target:
    """A reader with valid files.

    Attributes:
        files: name -> content.
        read: reads all files of a folder.
    """

    files: Mapping[str, bytes]
    read: Callable[[Path], object]


def targets() -> dict[str, Target]:
    """Every reader with its files, by name."""
    return _layouts() | _files() | _words() | _saved()


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files by their names in a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _json(*lines: Any) -> bytes:
    return "\n".join(map(json.dumps, lines)).encode()


def _files_made_by(make: Callable[[Path], object]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        return {file.name: file.read_bytes() for file in Path(name).iterdir()}


def _read_all(read: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Exhausts the iterator of a reader."""
    collections.deque(read(*arguments, skips=ExclusionCounts(), **options), maxlen=0)


def _layouts() -> dict[str, Target]:
    """Those of `tests.data.test_readers`."""
    found = {}
    for name, layout in LAYOUTS.items():

        def read(folder: Path, layout: Layout = layout) -> None:
            _read_all(layout.read, folder / layout.name)

        files = layout.files(layout.content)
        found[name] = Target({file: text.encode() for file, text in files.items()}, read)
    return found


def _files() -> dict[str, Target]:
    """Layouts of several files, or of none of JSON."""
    passage = {"id": "7", "title": "Rome", "text": "Rome is old.", "score": "9.5"}
    return {
        "triviaqa questions": Target(
            {"qa.json": _json(LAYOUTS["triviaqa"].content | {"Version": 1.0})},
            lambda folder: _read_all(read_triviaqa_questions, folder / "qa.json"),
        ),
        "narrativeqa": Target(
            {
                QUESTIONS: b"document_id,set,question_tokenized,answer1_tokenized,"
                b"answer2_tokenized\nd1,valid,Who ?,Mark .,He\n",
                SUMMARIES: b'document_id,set,summary_tokenized\nd1,valid,"Mark runs\na radio ."\n',
            },
            lambda folder: _read_all(read_narrativeqa, folder, "valid"),
        ),
        "context lines": Target(
            {"a.jsonl": _json(*LAYOUTS["dpr"].content)},
            lambda folder: _read_all(read_contexts, folder / "a.jsonl"),
        ),
        "passages": Target(
            {"a.tsv": b'id\ttext\ttitle\n1\tRome is old.\tRome\n2\t"a ""b"""\tB\n'},
            lambda folder: _read_all(read_passages, folder / "a.tsv"),
        ),
        "passage lines": Target(
            {"a.jsonl": _json(passage)}, lambda folder: _read_all(read_passages, folder / "a.jsonl")
        ),
        "table questions in csv": Target(
            {"q.csv": b"question,table,answer\nWho?,a.csv,Bo|Ann\n", "tables/a.csv": b"who\nBo\n"},
            lambda folder: _read_all(read_table_questions, folder / "q.csv"),
        ),
        "csv": Target(
            {"a.csv": b'Model;HP\n"Beetle; late";50\nGolf;75 hp\n'},
            lambda folder: read_csv_table(folder / "a.csv"),
        ),
        "wikitablequestions": Target(
            {
                "data/dev.tsv": b"id\tutterance\tcontext\ttargetValue\n"
                b"nt-0\twhen?\tcsv/1.csv\t2004\n",
                "csv/1.csv": b'"Year","City"\n"2004","Bonn \\"x\\""\n',
            },
            lambda folder: _read_all(read_wikitablequestions, folder, "dev"),
        ),
    }


def _words() -> dict[str, Target]:
    vocabulary = Vocabulary(("yard", "kick"), lower=True)
    pieces = {"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nrome\n##s\n"}

    def save_tokenizer(folder: Path) -> None:
        write_files(folder, pieces)
        load_tokenizer(folder).save(folder)
        (folder / "vocab.txt").unlink()

    return {
        "word vectors": Target(
            {"glove.txt": b"kick 1 0\nball 5 5\nyard 3 2e-1\n"},
            lambda folder: load_word_vectors(folder / "glove.txt", vocabulary, size=2),
        ),
        "vocab.txt": Target(
            {**pieces, "tokenizer_config.json": _json({"do_lower_case": True})}, load_tokenizer
        ),
        "tokenizer.json": Target(_files_made_by(save_tokenizer), load_tokenizer),
    }


def _saved() -> dict[str, Target]:
    """Of training: a checkpoint of an encoder and the configuration of a run."""
    # Here, because it imports jax, which --help does not need.
    from flax import nnx

    from hardem_jax.encoders.bert import Bert, BertConfig
    from hardem_jax.encoders.checkpoint_files import read_weights
    from hardem_jax.encoders.pretrained import read_config, save_encoder
    from hardem_jax.task.encoder import restore_sizes

    sizes = dataclasses.asdict(BertConfig(100, 8, 2, 2, 16))
    config = {
        "version": "0.1.0",
        "flags": {
            "model": {"type": "ReaderConfig", "num_layers": None, "dtype": "float32"},
            "inference": {"type": "SpanInference", "top": 5, "sweep": [10, 20]},
            "batches": {"type": "BatchConfig", "batch_size": 8, "buckets": [64, 128]},
        },
        "task": "spans",
        "model": {"encoder": {"model_type": "bert", **sizes}},
        "windows": dataclasses.asdict(WindowConfig()),
    }
    encoder = Bert(BertConfig(9, 2, 1, 1, 1), rngs=nnx.Rngs(0))

    def read_run(folder: Path) -> None:
        run = RunConfig(folder, "spans")
        run.flags("model", ReaderConfig)
        run.flags("inference", SpanInference)
        run.flags("batches", BatchConfig)
        restore_sizes(run)
        run.section("windows", WindowConfig)

    return {
        "checkpoint": Target(
            _files_made_by(lambda folder: save_encoder(encoder, folder)),
            lambda folder: (read_config(folder), read_weights(folder)),
        ),
        "run": Target({"config.json": _json(config)}, read_run),
    }
