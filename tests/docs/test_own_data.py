"""The page on one's own data, from files to scores, which are those that a person would count."""

import csv
import json
import re
import shutil

import pytest

from tests.cli.test_own_data import commands
from tests.commands import call, evaluation, output_of
from tests.docs.pages import DOCS, blocks
from tests.docs.shell import run_shell
from tests.docs.test_guides import run_python
from tests.tiny import write_checkpoint

#: Kind -> task, what a row must have predicted to be right, the score.
KINDS = {
    "documents": ("spans", "answer", "em"),
    "numbers": ("equations", "number", "em"),
    "tables": ("queries", "answer", "accuracy"),
}


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A folder in which the page was followed with a tiny encoder, and what was printed."""
    folder = shutil.copytree(DOCS / "examples" / "own", tmp_path_factory.mktemp("own") / "own")
    encoder = write_checkpoint(folder / "bert", positions=512, layers=3)
    environment = {"ENCODER": str(encoder), "STEPS": "8"}
    return folder, run_shell("own_data.md", folder, environment), environment


def rows_of(file):
    with open(file, encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def predicted(kind, file):
    """Question id -> the answer as a cell of a CSV file has it."""
    found = json.loads(file.read_text())
    if kind == "documents":
        return found
    if kind == "numbers":
        return {row["id"]: row["answer"] for row in found}
    return {row["id"]: "|".join(map(str, row["result"] or [])) for row in found}


def same(kind, answer, gold):
    if kind == "numbers":
        return answer is not None and float(answer) == float(gold)
    plain = [re.sub(r'[".,]|\bthe ', "", text.lower()).strip() for text in (answer, gold)]
    return plain[0] == plain[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_score_is_what_a_person_would_count(kind, followed, tmp_path, capsys):
    folder, printed, environment = followed
    task, column, score = KINDS[kind]
    rows = rows_of(folder / kind / "dev.csv")
    answers = predicted(kind, folder / f"{kind}.json")
    assert len(rows) == len(answers) == 30 and len(rows_of(folder / kind / "train.csv")) == 60
    [told] = re.findall(rf"^scores: (.*runs/{kind}/.*)$", printed, re.MULTILINE)
    scores = json.loads((folder / told).read_text())["scores"]
    right = sum(same(kind, answers[f"dev-{n}"], row[column]) for n, row in enumerate(rows))
    assert scores[score] == pytest.approx(100 * right / 30)
    # With so little training few are right: now every third row asks for what was predicted.
    for number, row in enumerate(rows[::3]):
        row[column] = answers[f"dev-{3 * number}"] or row[column]
    right = sum(same(kind, answers[f"dev-{n}"], row[column]) for n, row in enumerate(rows))
    data = shutil.copytree(folder / kind, tmp_path / kind)
    with open(data / "dev.csv", "w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    flags = ("prepare", "--out", tmp_path / "data")
    if kind == "documents":
        flags += ("--tokenizer", environment["ENCODER"], "--split", "dev", "--file")
    else:
        flags += ("--dev",)
    call(commands(task), *flags, data / "dev.csv")
    run = ("--run-dir", folder / "runs" / kind, "--data", tmp_path / "data", "--num-devices", 1)
    scores = evaluation(output_of(commands(task), capsys, "evaluate", *run))["scores"]
    assert scores[score] == pytest.approx(100 * right / 30)
    assert right >= 8


@pytest.mark.slow
def test_examples_in_python_become_a_reader(followed, monkeypatch):
    folder, printed, environment = followed
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XLA_FLAGS", "")
    code = "".join(blocks("own_data.md", "python"))
    assert float(run_python(code, folder).splitlines()[-1].split()[-1]) > 0
