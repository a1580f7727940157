"""The commands for questions with retrieved passages, on a tiny stand-in."""

import functools
import json

import pytest

from experiments import nq_open, retrieve, triviaqa_open
from tests import commands
from tests.commands import WINDOWS
from tests.tiny import PEOPLE, PLACES, write_checkpoint

# The quick tests of a reader are those of TriviaQA.
pytestmark = pytest.mark.slow

call = functools.partial(commands.call, nq_open)
fails = functools.partial(commands.fails, nq_open)
output_of = functools.partial(commands.output_of, nq_open)


def write_contexts(file, *, questions=16):
    """Questions in FiD's layout with three passages, the last of which has the answer.

    Every fourth has none.
    """
    records = []
    for i in range(questions):
        place, person = PLACES[i % 8], PEOPLE[(i + i // 8) % 8]
        texts = [f"Zoe met Zed in {place}.", "", f"{person} lives in {place}. {person} ran."]
        if i % 4 == 3:
            texts[2] = "Zed lives in Oslo."
        ctxs = [{"id": f"{i}-{j}", "title": "t", "text": text} for j, text in enumerate(texts)]
        records.append(
            {"id": f"q{i}", "question": f"Who lives in {place}?", "answers": [person], "ctxs": ctxs}
        )
    file.write_text(json.dumps(records))
    return file


def train(root, out, *more):
    call(
        *("train", "--data", root / "train", "--dev", root / "dev", "--out", out),
        *("--model.encoder", root / "bert", "--model.num-layers", 1, "--num-devices", 2),
        *("--batches.batch-size", 4, "--batches.buckets", 32),
        *("--loop.num-steps", 2, "--loop.eval-every", 2),
        *("--loop.log-every", 1, "--loop.no-progress", *more, "objective:hard-em"),
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint, prepared splits and a finished run whose windows share a softmax."""
    root = tmp_path_factory.mktemp("open")
    bert, contexts = write_checkpoint(root / "bert"), write_contexts(root / "fid.json")
    prepare = ["prepare", "--contexts", contexts, "--tokenizer", bert, *WINDOWS]
    call(*prepare, "--out", root / "train")
    call(*prepare, "--out", root / "dev", "--split", "dev")
    train(
        *(root, root / "run", "--latent.scope", "question", "--latent.group-size", 2),
        *("--inference.scope", "question"),
    )
    return root


def test_the_number_of_passages_is_chosen_out_of_one_reading(root, capsys):
    command = ["evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "dev"]
    printed = output_of(capsys, *command, "--sweep", 1, 2)
    assert "peak memory: " in printed
    scores = commands.evaluation(printed)["scores"]
    assert scores["recall n=1"] == 0 and scores["recall n=2"] == 75
    assert scores["em n=2"] == scores["em"]
    best = 1 if scores["em n=1"] >= scores["em n=2"] else 2
    assert f"best number of passages: {best}" in printed
    call(*command, "--num-documents", 1)
    assert commands.evaluation(capsys.readouterr().out)["scores"]["em"] == scores["em n=1"]
    for num, most in ((("--num-documents", 1), 1), ((), 2)):
        line = fails(capsys, *command, *num, "--sweep", 1, 3)
        assert f"--sweep: expected at most {most}, the documents that are read, found 3" in line


def test_predictions_are_what_the_official_evaluators_read(root, tmp_path):
    flags = ["evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "dev"]
    lines, by_id = tmp_path / "nq.jsonl", tmp_path / "triviaqa.json"
    call(*flags, "--predictions", lines)
    commands.call(triviaqa_open, *flags, "--predictions", by_id)
    texts = json.loads(by_id.read_text())
    asked = {
        record["id"]: record["question"] for record in json.loads((root / "fid.json").read_text())
    }
    # NQ-open has no ids: its evaluator looks for the question.
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert {row["id"]: row["prediction"] for row in rows} == texts and len(rows) == 16
    assert all(row["question"] == asked[row["id"]] for row in rows)


def test_questions_that_retrieval_could_not_use_count_zero(root, tmp_path, capsys):
    """Two answers are certain to be right: their passage has no other word."""
    (tmp_path / "psgs.tsv").write_text("id\ttext\ttitle\n1\tAda\tAda\n")
    asked = [("Who lives in Rome?", ["Ada"]), ("?", ["Ada"]), ("Who ran?", ["Ada"])]
    rows = [json.dumps({"question": text, "answer": answers}) for text, answers in asked]
    (tmp_path / "dev.jsonl").write_text("\n".join(rows))
    index, contexts = tmp_path / "index", tmp_path / "contexts.jsonl"
    for arguments in (
        ("index", "--passages", tmp_path / "psgs.tsv", "--out", index, "--articles.buckets", 64),
        ("retrieve", "--index", index, "--questions", tmp_path / "dev.jsonl", "--out", contexts),
    ):
        commands.call(retrieve, *arguments)
    call(
        *("prepare", "--contexts", contexts, "--tokenizer", root / "bert", *WINDOWS),
        *("--out", tmp_path / "dev", "--split", "dev"),
    )
    flags = ("--num-devices", 1, "--run-dir", root / "run", "--data", tmp_path / "dev")
    found = commands.evaluation(output_of(capsys, "evaluate", *flags))
    reason = "no word left in the question after normalisation"
    assert found["counts"] == {"questions": 3, "left out": 1, "reasons": {reason: 1}}
    assert found["scores"]["em"] == pytest.approx(200 / 3)
