"""Every task on a RoBERTa encoder, by its commands: the encoder's name is all that changes."""

import json

import pytest

from experiments import drop, squad_layout, wikisql
from tests.commands import call, evaluation, fails
from tests.tiny import (
    write_checkpoint,
    write_drop,
    write_roberta,
    write_squad_layout,
    write_wikisql,
)

pytestmark = pytest.mark.slow

LOOP = ["--loop.num-steps", 2, "--loop.eval-every", 2, "--loop.log-every", 1, "--loop.no-progress"]
BATCHES = ["--num-devices", 1, "--batches.batch-size", 4]


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    return write_roberta(tmp_path_factory.mktemp("roberta") / "encoder")


def losses(run_dir):
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, lines) if line["kind"] == "train"]


def test_a_reader_is_prepared_trained_evaluated_and_asked(roberta, tmp_path, capsys):
    file = write_squad_layout(tmp_path / "squad.json", questions=8)
    windows = ["--windows.max-tokens", 40, "--windows.stride", 16]
    windows += ["--windows.max-question-tokens", 12]
    for split in "train", "dev":
        call(
            squad_layout,
            *("prepare", "--file", file, "--tokenizer", roberta, "--split", split),
            *("--out", tmp_path / split, *windows),
        )
    call(
        squad_layout,
        *("train", "--data", tmp_path / "train", "--dev", tmp_path / "dev"),
        *("--out", tmp_path / "run", "--model.encoder", roberta, *BATCHES, "--batches.buckets", 40),
        *("--batches.packed-tokens", 40, *LOOP, "objective:hard-em"),
    )
    assert len(losses(tmp_path / "run")) == 2
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["encoder"]["model_type"] == "roberta"
    capsys.readouterr()
    call(
        squad_layout,
        *("evaluate", "--run-dir", tmp_path / "run", "--data", tmp_path / "dev"),
        *("--num-devices", 1, "--predictions", tmp_path / "answers.json"),
    )
    assert evaluation(capsys.readouterr().out)["counts"]["questions"] == 8
    context = {
        asked["id"]: paragraph["context"]
        for paragraph in json.loads(file.read_text())["data"][0]["paragraphs"]
        for asked in paragraph["qas"]
    }
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers.keys() == context.keys()
    for question, answer in answers.items():
        assert answer and answer == answer.strip() and answer in context[question]
    (tmp_path / "mine.txt").write_text("Zoë  lives in Malmö.\n\nAda met 東京 😀.", encoding="utf-8")
    call(
        squad_layout,
        *("predict", "--run-dir", tmp_path / "run", "--document", tmp_path / "mine.txt"),
        *("--question", "Who lives in Malmö?"),
    )
    assert "mine.txt, characters" in capsys.readouterr().out
    # Its data do not fit another encoder's tokenizer.
    bert = write_checkpoint(tmp_path / "bert")
    line = fails(
        squad_layout,
        capsys,
        *("train", "--data", tmp_path / "train", "--dev", tmp_path / "dev"),
        *("--out", tmp_path / "other", "--model.encoder", bert, *BATCHES),
        *("--batches.buckets", 40, *LOOP, "objective:hard-em"),
    )
    assert "prepared with another tokenizer than" in line


def test_equations_are_tagged(roberta, tmp_path):
    official, built = tmp_path / "official", tmp_path / "built"
    official.mkdir()
    for split in "train", "dev":
        write_drop(official / f"drop_dataset_{split}.json", passages=4)
    call(drop, "prepare", "--folder", official, "--out", built)
    call(
        drop,
        *("train", "--data", built, "--dev", built),
        *("--out", tmp_path / "run", *BATCHES, "--batches.buckets", 64, *LOOP),
        *("model:tagger", "--model.encoder", roberta, "--model.max-tokens", 64),
        *("--model.max-question-tokens", 24, "objective:hard-em"),
    )
    assert len(losses(tmp_path / "run")) == 2


def test_queries_are_parsed(roberta, tmp_path):
    official = write_wikisql(tmp_path / "official", tables=3)
    built = tmp_path / "built"
    call(wikisql, "prepare", "--folder", official, "--out", built)
    call(
        wikisql,
        *("train", "--data", built, "--dev", built, "--dev-split", "train"),
        *("--out", tmp_path / "run", *BATCHES, "--batches.buckets", 48, *LOOP),
        *("--model.encoder", roberta, "--model.hidden-size", 8, "--model.max-tokens", 48),
        *("--model.max-header-tokens", 4, "objective:hard-em"),
    )
    assert len(losses(tmp_path / "run")) == 2
