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
from hardem_jax.equations.readers import read_drop
from hardem_jax.equations.words import Vocabulary, load_word_vectors
from hardem_jax.queries.readers import read_answers, read_wikisql
from hardem_jax.retrieval.passage_files import read_passages
from hardem_jax.spans.config import ReaderConfig, SpanInference
from hardem_jax.spans.readers.dpr import read_context_questions, read_contexts
from hardem_jax.spans.readers.narrativeqa import QUESTIONS, SUMMARIES, read_narrativeqa
from hardem_jax.spans.readers.nq_open import read_nq_open
from hardem_jax.spans.readers.qa_hard_em import read_qa_hard_em
from hardem_jax.spans.readers.squad import read_squad_layout
from hardem_jax.spans.readers.triviaqa import read_triviaqa, read_triviaqa_questions
from hardem_jax.tables.csv import read_csv_table
from hardem_jax.tables.jsonl import read_table_questions
from hardem_jax.tables.wikitablequestions import read_wikitablequestions
from hardem_jax.task.run_config import RunConfig


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
    return _reading() | _retrieval() | _numbers_and_tables() | _words() | _saved()


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


def _reading() -> dict[str, Target]:
    trivia = {
        "Question": "Which city?",
        "QuestionId": "q1",
        "EntityPages": [{"Filename": "Rome.txt"}],
        "Answer": {"NormalizedAliases": ["rome"], "HumanAnswers": ["Roma"]},
    }
    answer = {"text": "Rome", "answer_start": 7}
    qa = {"id": "q1", "question": "Which city?", "answers": [answer], "is_impossible": False}
    squad = [{"title": "Italy", "paragraphs": [{"context": "It was Rome.", "qas": [qa]}]}]
    released = {
        "id": "q1",
        "question": "Where?",
        "context": [["In", "seattle", ",", "wa"]],
        "answers": [[{"text": "Seattle, WA", "word_start": 1, "word_end": 3}]],
        "final_answers": ["Seattle, WA"],
    }
    narratives = {
        QUESTIONS: b"document_id,set,question_tokenized,answer1_tokenized,"
        b"answer2_tokenized\nd1,valid,Who ?,Mark .,He\n",
        SUMMARIES: b'document_id,set,summary_tokenized\nd1,valid,"Mark runs\na radio ."\n',
    }
    nq_open = {"question": "who", "answer": ["Ada", "['b', C. D.]"]}
    return {
        "triviaqa": Target(
            {"qa.json": _json({"Data": [trivia] * 2}), "wikipedia/Rome.txt": b"Rome is old."},
            lambda folder: _read_all(read_triviaqa, folder / "qa.json", folder),
        ),
        "triviaqa questions": Target(
            {"qa.json": _json({"Data": [trivia], "Version": 1.0})},
            lambda folder: _read_all(read_triviaqa_questions, folder / "qa.json"),
        ),
        "squad": Target(
            {"a.json": _json({"data": squad})},
            lambda folder: _read_all(read_squad_layout, folder / "a.json"),
        ),
        "qa-hard-em": Target(
            {"a.jsonl": _json(released)},
            lambda folder: _read_all(read_qa_hard_em, folder / "a.jsonl"),
        ),
        "narrativeqa": Target(
            narratives, lambda folder: _read_all(read_narrativeqa, folder, "valid")
        ),
        "nq-open": Target(
            {"a.jsonl": _json(nq_open)},
            lambda folder: _read_all(read_nq_open, folder / "a.jsonl"),
        ),
    }


def _retrieval() -> dict[str, Target]:
    passage = {"id": "7", "title": "Rome", "text": "Rome is old.", "score": "9.5"}
    asked = {"id": 1, "question": "which city is old", "answers": ["Rome"], "ctxs": [passage]}
    return {
        "contexts": Target(
            {"a.json": _json([asked] * 2)},
            lambda folder: _read_all(read_contexts, folder / "a.json"),
        ),
        "context lines": Target(
            {"a.jsonl": _json(asked, asked)},
            lambda folder: _read_all(read_context_questions, folder / "a.jsonl"),
        ),
        "passages": Target(
            {"a.tsv": b'id\ttext\ttitle\n1\tRome is old.\tRome\n2\t"a ""b"""\tB\n'},
            lambda folder: _read_all(read_passages, folder / "a.tsv"),
        ),
        "passage lines": Target(
            {"a.jsonl": _json(passage)},
            lambda folder: _read_all(read_passages, folder / "a.jsonl"),
        ),
    }


def _numbers_and_tables() -> dict[str, Target]:
    number = {"number": "3", "date": {"day": "", "month": "", "year": ""}, "spans": []}
    pair = {"query_id": "q1", "question": "How many of 5?", "answer": number}
    pair["validated_answers"] = [number]
    drop = {"nfl_1": {"passage": "A 41-yard and a 38-yard goal.", "qa_pairs": [pair]}}
    table = {"id": "1-1", "header": ["Player", "No."], "types": ["text", "real"]}
    table["rows"] = [["Ann", 7], ["Bo", 42]]
    sql = {"sel": 0, "agg": 0, "conds": [[1, 0, 42]]}
    query = {"table_id": "1-1", "question": "Who wears 42?", "sql": sql}
    wikisql = {"dev.tables.jsonl": _json(table), "dev.jsonl": _json(query)}
    wikitables = {
        "data/dev.tsv": b"id\tutterance\tcontext\ttargetValue\nnt-0\twhen?\tcsv/1.csv\t2004\n",
        "csv/1.csv": b'"Year","City"\n"2004","Bonn \\"x\\""\n',
    }
    return {
        "drop": Target(
            {"a.json": _json(drop)},
            lambda folder: _read_all(read_drop, folder / "a.json", max_words=400),
        ),
        "wikisql": Target(wikisql, lambda folder: _read_all(read_wikisql, folder, "dev")),
        "table questions": Target(
            {"q.jsonl": _table_questions(wikisql)},
            lambda folder: _read_all(read_table_questions, folder / "q.jsonl"),
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
            wikitables, lambda folder: _read_all(read_wikitablequestions, folder, "dev")
        ),
    }


def _table_questions(wikisql: Mapping[str, bytes]) -> bytes:
    lines: list[Any] = []
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), wikisql)
        for asked in read_answers(Path(name), "dev", skips=ExclusionCounts()):
            question = {"id": asked.id, "question": asked.question, "answer": asked.answer}
            lines.append({"table": dataclasses.asdict(asked.table)})
            lines.append({**question, "table_id": asked.table.id, "match": asked.match})
    return _json(*lines)


def _words() -> dict[str, Target]:
    vocabulary = Vocabulary(("yard", "kick"), lower=True)
    pieces = {"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nrome\n##s\n"}

    def save_tokenizer(folder: Path) -> None:
        write_files(folder, pieces)
        load_tokenizer(folder).save(folder)
        (folder / "vocab.txt").unlink()

    return {
        "vocabulary": Target(
            {"words.json": _json({"lower": True, "entries": ["kick", "yard"]})},
            lambda folder: Vocabulary.load(folder / "words.json"),
        ),
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
