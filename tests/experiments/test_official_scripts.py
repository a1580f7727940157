"""What ``evaluate`` writes gets the scores that it printed from the official evaluators."""

import contextlib
import copy
import json
import shutil
import sqlite3
import unicodedata
from pathlib import Path

import pytest

from experiments import drop, nq_open, squad_layout, triviaqa, wikisql, wikitablequestions
from hardem_jax.documents.metrics import squad
from tests import commands, official_scripts
from tests.commands import WINDOWS
from tests.data.builders.inputs import write_wikitablequestions
from tests.experiments.test_open_qa import write_contexts
from tests.tiny import (
    write_checkpoint,
    write_drop,
    write_squad_layout,
    write_triviaqa,
    write_wikisql,
)

pytestmark = pytest.mark.slow

LOOP = ["--num-devices", 1, "--batches.batch-size", 4, "--batches.buckets", 32]
LOOP += ["--optimizer.learning-rate", "3e-3", "--loop.no-progress"]


@pytest.fixture
def bert(tmp_path):
    return write_checkpoint(tmp_path / "bert")


@pytest.fixture
def scores(tmp_path, capsys):
    """Trains and evaluates; returns the scores in the file that ``evaluate`` names."""

    def run(module, data, steps, *options, training=(), reading=()):
        loop = [*LOOP, "--loop.num-steps", steps, "--loop.eval-every", steps]
        flags = (*data, *loop, "--out", tmp_path / "run", *training, "objective:mml")
        commands.call(module, "train", *flags)
        flags = ("--num-devices", 1, "--run-dir", tmp_path / "run", *reading, *options)
        printed = commands.output_of(module, capsys, "evaluate", *flags)
        return commands.evaluation(printed)["scores"]

    return run


def is_partly_right(*percentages):
    """A model that knows nothing or all could not tell two evaluators apart."""
    return all(0 < value < 100 for value in percentages)


def spans(module, bert, tmp_path, *source):
    """Prepares two splits of one file; returns flags of training and of evaluation."""
    for split in ("train", "dev"):
        flags = ("--tokenizer", bert, "--out", tmp_path / split, "--split", split)
        commands.call(module, "prepare", *source, *flags, *WINDOWS)
    train = ("--data", tmp_path / "train", "--dev", tmp_path / "dev")
    return (*train, "--model.encoder", bert, "--model.num-layers", 1), ("--data", tmp_path / "dev")


def squad_file(tmp_path, *, several):
    """Questions in SQuAD's layout; every third one has `several` people for its answer."""
    gold = write_squad_layout(tmp_path / "squad.json")
    content = json.loads(gold.read_text()) | {"version": "1.1"}
    if several:
        for paragraph in content["data"][0]["paragraphs"][::3]:
            other = paragraph["context"].split()[2].strip(".")
            start = paragraph["context"].index(f"{other} met")
            paragraph["qas"][0]["answers"].append({"text": other, "answer_start": start})
    gold.write_text(json.dumps(content))
    return gold


@pytest.mark.parametrize("name", ["triviaqa", "squad", "quoref"])
def test_spans(bert, tmp_path, scores, name):
    answers, module, more = tmp_path / "answers.json", squad_layout, ()
    if name == "triviaqa":
        official_scripts.released(name)
        module, gold = triviaqa, write_triviaqa(tmp_path)
        gold.write_text(json.dumps(json.loads(gold.read_text()) | {"VerifiedEval": False}))
        source = ("--qa-file", gold, "--evidence", tmp_path / "evidence")
    else:
        gold = squad_file(tmp_path, several=name == "quoref")
        source = ("--file", gold)
    if name == "quoref":
        source, more = (*source, "--answers-are", "all required"), (tmp_path / "scores.json",)
    train, dev = spans(module, bert, tmp_path, *source)
    steps = 40 if name == "quoref" else 4
    printed = scores(module, train, steps, "--predictions", answers, reading=dev)
    exact, f1 = getattr(official_scripts, name)(gold, answers, *more)
    assert is_partly_right(f1)
    assert (printed["em"], printed["f1"]) == pytest.approx((exact, f1))


def test_drop(bert, tmp_path, scores):
    """The numeric part: its evaluator counts text spans, too, which ``prepare`` leaves out."""
    (tmp_path / "files").mkdir()
    gold, answers = tmp_path / "files" / "drop_dataset_dev.json", tmp_path / "answers.json"
    content = json.loads(write_drop(gold.with_name("drop_dataset_train.json")).read_text())
    for number, passage in enumerate(content.values()):
        passage["qa_pairs"] = [q for q in passage["qa_pairs"] if q["answer"]["number"]]
        if number % 3 == 0:
            # One question of the two has another answer than that which training teaches.
            passage["qa_pairs"][0]["answer"]["number"] = "999"
    # In the released file some questions occur again, with other answers.
    again = copy.deepcopy(passage["qa_pairs"][1])
    again["answer"]["number"] = "7"
    passage["qa_pairs"].append(again)
    gold.write_text(json.dumps(content))
    commands.call(drop, "prepare", "--folder", gold.parent, "--out", tmp_path / "built")
    model = ("model:tagger", "--model.encoder", bert, "--model.num-layers", 1)
    model += ("--model.max-tokens", 32, "--model.max-question-tokens", 12)
    files = ("--data", tmp_path / "built", "--dev", tmp_path / "built")
    reading = ("--data", tmp_path / "built")
    printed = scores(drop, files, 60, "--official", answers, training=model, reading=reading)
    exact, f1 = official_scripts.drop(gold, answers, tmp_path / "scores.json")
    assert is_partly_right(exact, f1)
    assert (printed["em"], printed["f1"]) == pytest.approx((exact, f1))


def database(folder, split):
    """The tables of a split as the database that the official evaluator queries."""
    with contextlib.closing(sqlite3.connect(folder / f"{split}.db")) as connection:
        for line in (folder / f"{split}.tables.jsonl").read_text().splitlines():
            table = json.loads(line)
            name = f"table_{table['id'].replace('-', '_')}"
            columns = ", ".join(f"col{i} {type}" for i, type in enumerate(table["types"]))
            connection.execute(f"CREATE TABLE {name} ({columns})")
            values = ", ".join("?" * len(table["types"]))
            connection.executemany(f"INSERT INTO {name} VALUES ({values})", table["rows"])
        connection.commit()


def tables(module, root, bert, *prepare):
    """Builds both splits of questions on tables; returns flags of training and of evaluation."""
    commands.call(module, "prepare", "--folder", root, "--out", root / "built", *prepare)
    train = ("--data", root / "built", "--dev", root / "built", "--model.encoder", bert)
    train += ("--model.max-tokens", 32, "--model.hidden-size", 8)
    return train, ("--data", root / "built", "--split", "dev")


def test_nq_open(bert, tmp_path, scores):
    """Passages and answers to train on have decomposed accents, golds composed ones."""
    official_scripts.released("nq_open")
    contexts, predictions = write_contexts(tmp_path / "fid.json"), tmp_path / "answers.jsonl"
    records = json.loads(contexts.read_text())
    for i, record in enumerate(records):
        record["question"] = f"Who lives in {i}?"  # the official evaluator knows it by its text
        record["answers"] = [text.replace("e", "e\u0301") for text in record["answers"]]
        for passage in record["ctxs"]:
            passage["text"] = passage["text"].replace("e", "e\u0301")
    contexts.write_text(json.dumps(records))
    train, dev = spans(nq_open, bert, tmp_path, "--contexts", contexts)
    for record in records:
        record["answers"] = [unicodedata.normalize("NFC", text) for text in record["answers"]]
    contexts.write_text(json.dumps(records))
    flags = ("--tokenizer", bert, "--out", tmp_path / "dev", "--split", "dev", "--force")
    commands.call(nq_open, "prepare", "--contexts", contexts, *flags, *WINDOWS)
    gold = tmp_path / "gold.jsonl"
    golds = ({"question": r["question"], "answer": r["answers"]} for r in records)
    gold.write_text("".join(json.dumps(row) + "\n" for row in golds))
    printed = scores(nq_open, train, 60, "--predictions", predictions, reading=dev)
    exact = official_scripts.nq_open(gold, predictions)
    assert is_partly_right(exact)
    assert printed["em"] == pytest.approx(exact)
    answers = [json.loads(line)["prediction"] for line in predictions.read_text().splitlines()]
    pairs = zip(answers, records, strict=True)
    assert sum(squad.exact_match(text, r["answers"]) for text, r in pairs) < exact / 100 * 16


def test_wikisql(bert, tmp_path, scores):
    official_scripts.released("wikisql")
    root, answers = write_wikisql(tmp_path / "files"), tmp_path / "answers.jsonl"
    shutil.copy(root / "train.tables.jsonl", root / "dev.tables.jsonl")
    lines = [json.loads(line) for line in (root / "train.jsonl").read_text().splitlines()]
    for line in lines[::6]:
        line["sql"]["sel"] = 2  # where somebody lives; the question and training say who does
    (root / "dev.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    database(root, "dev")
    train, reading = tables(wikisql, root, bert)
    model = ("--gold", root, "--model.max-header-tokens", 3)
    model += ("--model.num-layers", 1, "--model.num-target-layers", 1)
    options = ("--gold", root, "--official", answers)
    printed = scores(wikisql, train, 60, *options, training=model, reading=reading)
    execution, logical_form = official_scripts.wikisql(root, "dev", answers)
    assert is_partly_right(execution, logical_form)
    expected = (printed["accuracy"], printed["logical form"])
    assert expected == pytest.approx((execution, logical_form))


def test_wikitablequestions(bert, tmp_path, scores):
    official_scripts.released("wikitablequestions")
    root, answers = tmp_path / "files", tmp_path / "answers.tsv"
    root.mkdir()
    write_wikitablequestions(root)
    data, tagged = root / "data" / "random-split-1-{}.tsv", root / "tagged" / "data"
    header, *lines = Path(str(data).format("train")).read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    # The same questions again; the last but one has another answer than that which is learned.
    asked = [[id.replace("nt-", "nt-1"), *rest] for id, *rest in rows]
    asked[-2][-1] = "Zoe"
    dev = "".join("\t".join(row) + "\n" for row in (header.split("\t"), *asked))
    Path(str(data).format("dev")).write_text(dev)
    # As the release has them: the answer as it was written, and its value.
    values = [(*row, f"{float(row[3])}" if row[3].isdecimal() else row[3]) for row in rows + asked]
    header = ("id", "utterance", "context", "targetValue", "targetCanon")
    tagged.mkdir(parents=True)
    text = "".join("\t".join(row) + "\n" for row in (header, *values))
    (tagged / "training.tagged").write_text(text)
    train, reading = tables(wikitablequestions, root, bert, "--tagged")
    printed = scores(wikitablequestions, train, 120, "--official", answers, reading=reading)
    accuracy = official_scripts.wikitablequestions(tagged, answers)
    assert is_partly_right(accuracy)
    assert printed["accuracy"] == pytest.approx(accuracy)
