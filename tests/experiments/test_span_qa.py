"""The commands of the span experiments, from official files to an answer, on tiny stand-ins."""

import dataclasses
import functools
import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments import squad_layout, triviaqa
from hardem_jax import HardEM
from hardem_jax.checksums import write_checksums
from hardem_jax.cli.command import parse
from hardem_jax.documents.prepared import PreparedSplit
from hardem_jax.documents.records import NO_PLACE
from hardem_jax.spans.commands import Evaluate, Train
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.reader import Reader
from hardem_jax.training.checkpoints import newest_step
from tests import commands
from tests.commands import OBEYED, SHOWN, WINDOWS, call, evaluation, fails, logged, refused
from tests.tiny import write_checkpoint, write_squad_layout, write_triviaqa

output_of = functools.partial(commands.output_of, triviaqa)
SHAPES = ["--batches.batch-size", "4", "--batches.buckets", "16", "32"]


def train_flags(root, out, *, steps=4, seed=0):
    loop = ["--loop.num-steps", steps, "--loop.eval-every", 2, "--loop.log-every", 1]
    return [
        *("train", "--data", root / "train", "--dev", root / "dev", "--out", out),
        *("--model.encoder", root / "bert", "--model.num-layers", 1, "--num-devices", 2),
        *(*SHAPES, *loop),
        *("--loop.seed", seed, "--loop.no-progress", "--optimizer.learning-rate", "1e-3"),
        *("objective:hard-em", "--objective.tau", "2"),
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint, prepared splits and a finished run."""
    root = tmp_path_factory.mktemp("triviaqa")
    bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root)
    for split in ("train", "dev"):
        call(
            triviaqa,
            *("prepare", "--qa-file", qa_file, "--evidence", root / "evidence"),
            *("--tokenizer", bert, "--out", root / split, "--split", split, *WINDOWS),
        )
    (root / "run").mkdir()
    log = root / "run" / "train.log"  # as "> run/train.log" makes it, before training begins
    log.write_text("begun\n")
    call(triviaqa, *train_flags(root, root / "run"))
    log.write_text("begun\nended\n")
    return root


def evaluate_flags(root, *more):
    flags = ("--num-devices", 1, "--run-dir", root / "run", "--data", root / "dev")
    return ["evaluate", *flags, *more]


def test_prepared_splits_tell_what_they_hold(root):
    meta = json.loads((root / "train" / "meta.json").read_text())
    assert meta["counts"]["questions"] == 24 and meta["counts"]["windows with a mention"] == 24
    assert meta["solutions per question"] == {"mean": 3.0, "median": 3.0, "max": 3}
    assert not (root / "train.partial").exists()


def without_answers(root, tmp_path):
    """Flags of ``prepare`` for the questions of a file whose answers are secret."""
    flags = ("--tokenizer", root / "bert", "--out", tmp_path / "test", *WINDOWS)
    file = write_squad_layout(tmp_path / "squad.json")
    content = json.loads(file.read_text())
    for paragraph in content["data"][0]["paragraphs"]:
        paragraph["qas"][0]["answers"] = []
    file.write_text(json.dumps(content))
    return "--file", file, *flags


def test_questions_without_answers_are_answered_and_not_scored(root, capsys, tmp_path, monkeypatch):
    files = without_answers(root, tmp_path)
    assert "no question can be used" in fails(squad_layout, capsys, "prepare", *files)
    call(squad_layout, "prepare", *files, "--split", "test")
    evaluate = ("evaluate", "--num-devices", 1, "--run-dir", root / "run")
    evaluate += ("--data", tmp_path / "test")
    before = set((root / "run").iterdir())
    assert "or a file for the answers (--predictions)" in fails(squad_layout, capsys, *evaluate)
    line = fails(squad_layout, capsys, *evaluate, "--by-question", tmp_path / "scores.json")
    assert "--by-question: expected golds" in line
    with monkeypatch.context() as patch:  # of a run in a folder that cannot be written
        access = os.access
        patch.setattr(os, "access", lambda at, mode: root / "run" != Path(at) and access(at, mode))
        call(squad_layout, *evaluate, "--predictions", tmp_path / "answers.json")
    printed = capsys.readouterr().out
    assert "answers to 24 questions; no scores" in printed and "em" not in printed.split()
    assert set((root / "run").iterdir()) == before  # no file of scores
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert set(answers) == {f"q{i}" for i in range(24)} and all(answers.values())
    train = train_flags(root, tmp_path / "run")
    train[train.index("--dev") + 1] = tmp_path / "test"
    assert "expected answers to evaluate by" in fails(squad_layout, capsys, *train)


def test_the_best_answers_with_their_places_and_the_score_of_every_question(root, capsys, tmp_path):
    evaluate = evaluate_flags(root)
    files = {name: tmp_path / f"{name}.json" for name in ("predictions", "nbest", "by-question")}
    flags = (word for name, file in files.items() for word in (f"--{name}", file))
    printed = output_of(capsys, *evaluate, *flags, "--top", 3)
    answers, best, scores = (json.loads(file.read_text()) for file in files.values())
    documents = {
        file.name: file.read_text() for file in (root / "evidence" / "wikipedia").iterdir()
    }
    assert list(best) == list(answers)
    for id, found in best.items():
        assert 1 < len(found) <= 3 and found[0]["text"] == answers[id]
        assert [x["probability"] for x in found] == sorted(
            (x["probability"] for x in found), reverse=True
        )
        for x in found:
            name = f"{id[1:]}.txt" if x["document"] == 0 else f"{id[1:]}-other.txt"
            assert documents[name][x["start"] : x["end"]] == x["text"]
    assert scores["ids"] == [f"q{i}" for i in range(24)]
    whole = evaluation(printed)["scores"]
    assert {"em", "f1", "selector"} <= set(whole)
    for name, values in scores["scores"].items():
        assert len(values) == 24 and np.mean(values) == pytest.approx(whole[name])
    # All 24 questions have three mentions.
    assert re.search(r"em \|Z\|=3-4 +│ +[0-9.]+ │ +24 questions │", printed)


def test_scores_name_the_checkpoint_that_was_read(root, capsys, monkeypatch):
    """A run that is still training saves another one at any moment."""
    command = evaluate_flags(root)
    before = {"name": "best", "number": -1}
    monkeypatch.setattr("hardem_jax.cli.evaluate.checkpoint_identity", lambda *_: dict(before))
    found = evaluation(output_of(capsys, *command, "--max-answer-tokens", 7))
    assert found["checkpoint"] == {"name": "best", "number": newest_step(root / "run" / "best")}
    steps = iter([10, 20])
    monkeypatch.setattr("hardem_jax.task.trained.newest_step", lambda _: next(steps))
    line = fails(triviaqa, capsys, *command)
    assert line.endswith(
        "which was being read, found step 20: the run is still training; try again"
    )


def test_answers_to_own_questions_as_json(root, tmp_path, capsys, monkeypatch):
    page = tmp_path / "page.txt"
    page.write_text("Ada saw Bo.\nBo lives in Rome.")
    command = ["predict", "--run-dir", root / "run", "--document", page, "--json", "--top", 2]
    monkeypatch.setattr("sys.stdin", io.StringIO("Who lives in Rome?\nWho saw Bo?\n"))
    lines = [*map(json.loads, output_of(capsys, *command).splitlines())]
    assert [line["question"] for line in lines] == ["Who lives in Rome?", "Who saw Bo?"]
    for answer in (x for line in lines for x in line["answers"]):
        assert answer["document"] == str(page) and 0 < answer["probability"] < 1
        assert page.read_text()[answer["start"] : answer["end"]] == answer["text"]


def test_questions_of_a_file_are_answered_about_their_own_texts(root, tmp_path, capsys):
    file = tmp_path / "mine.tsv"
    texts = ["Ada saw Bo. Bo lives in Rome.", "Cyd lives in Oslo."]
    file.write_text("asked\tpage\n" + "".join([f"Who lives in Rome?\t{text}\n" for text in texts]))
    named = ("--columns.question", "asked", "--columns.text", "page")
    command = ("predict", "--run-dir", root / "run", "--questions", file, "--top", 2)
    lines = [*map(json.loads, output_of(capsys, *command, *named, "--json").splitlines())]
    assert [line["id"] for line in lines] == ["mine-0", "mine-1"]
    reader = Reader.from_run(root / "run", keep=2)
    for line, text in zip(lines, texts, strict=True):
        alone = reader.answer(line["question"], text, top=2)
        assert [one["text"] for one in line["answers"]] == [one.text for one in alone] != []
    assert "expected a column 'question'" in fails(triviaqa, capsys, *command)


def test_the_longest_answer_and_the_ranking_can_be_changed_at_test(root, tmp_path):
    evaluate = evaluate_flags(root)
    found = []
    for flags in ((), ("--max-answer-tokens", 1), ("--joint",)):
        call(triviaqa, *evaluate, *flags, "--predictions", tmp_path / "answers.json")
        found.append(json.loads((tmp_path / "answers.json").read_text()))
    assert all(len(text.split()) == 1 for text in found[1].values())
    assert any(len(text.split()) > 1 for text in found[0].values()) and found[0] != found[2]


def test_a_scope_that_has_no_joint_ranking_drops_that_of_the_run_and_window_keeps_it(tmp_path):
    def changed(**flags):
        options = Evaluate(run_dir=tmp_path, data=tmp_path, **flags).changes()
        of_run = SpanInference(joint=True)
        names = ("scope", "joint")
        read = dataclasses.replace(of_run, **{n: options[n] for n in names if n in options})
        return read.scope, read.joint

    assert changed() == changed(scope="window") == changed(joint=True) == ("window", True)
    assert changed(scope="document") == ("document", False)


def test_predict_shows_a_document_as_it_is_and_harmlessly(root, capsys, tmp_path):
    document = tmp_path / "mine.txt"
    document.write_text(f"Eve saw {OBEYED} lives in Rome.", encoding="utf-8")
    command = ("predict", "--run-dir", root / "run", "--document", document, "--top", 20)
    lines = output_of(capsys, *command, "--question", "Who lives in Rome?").splitlines()
    assert any(SHOWN in line for line in lines[1::2])
    assert all(line.isprintable() for line in lines)


@pytest.mark.slow
def test_other_evaluations_have_other_files(root, tmp_path, capsys):
    call(
        triviaqa,
        *("prepare", "--qa-file", write_triviaqa(tmp_path, questions=3), "--split", "dev"),
        *("--evidence", tmp_path / "evidence", "--tokenizer", root / "bert"),
        *("--out", tmp_path / "dev", *WINDOWS),
    )
    commands = {
        "plain": [],
        "options": ["--num-documents", 1, "--checkpoint", "last"],
        "split": ["--data", tmp_path / "dev"],
        "again": ["--data", root / "dev", "--batch-size", 32, "--packed-tokens", 40],
    }
    files = {}
    for name, more in commands.items():
        printed = output_of(capsys, *evaluate_flags(root), *more)
        [files[name]] = [line for line in printed.splitlines() if line.startswith("scores: ")]
    assert len(set(files.values())) == 3 and files["again"] == files["plain"]
    content = evaluation(printed)
    assert content["options"]["num_documents"] is None and content["options"]["scope"] is None
    assert content["split"]["path"] == str(root / "dev") and content["split"]["name"] == "dev"
    assert content["counts"] == {"questions": 24, "left out": 0, "reasons": {}}


def test_a_file_that_cannot_be_written_is_named_before_the_evaluation(root, tmp_path, capsys):
    # A line about windows read would come before the error.
    for file in (tmp_path / "new" / "p.json", tmp_path):
        assert str(file) in fails(triviaqa, capsys, *evaluate_flags(root, "--predictions", file))
    assert not (tmp_path / "new").exists()


def test_an_evaluation_shows_how_far_it_is(root, capsys, monkeypatch):
    call(triviaqa, *evaluate_flags(root))
    assert capsys.readouterr().err == "dev: reading 48 windows\n"
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    call(triviaqa, *evaluate_flags(root))
    assert "dev, windows" in capsys.readouterr().err


def test_a_supervised_split_has_the_annotated_mention_only(root, capsys, tmp_path):
    file = write_squad_layout(tmp_path / "train.json")
    content = json.loads(file.read_text())
    content["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
    file.write_text(json.dumps(content))
    prepare = ("prepare", "--file", file, "--tokenizer", root / "bert", *WINDOWS)
    for flags in ([], ["--supervised"]):
        call(squad_layout, *prepare, "--out", tmp_path / f"split{len(flags)}", *flags)
    weak, supervised = (PreparedSplit(tmp_path / f"split{i}") for i in (0, 1))
    assert supervised.meta["excluded"] == {NO_PLACE: 1}
    assert supervised.meta["sources"]["supervised"] and "supervised" not in weak.meta["sources"]
    true = {window.id: window.solutions[window.true_solution] for window in weak.positives}
    assert len(supervised.positives) == len(true) - 1 == 23
    for window in supervised.positives:
        assert window.solutions.tolist() == [true[window.id].tolist()]
        assert window.true_solution == 0
    # Measured with the mentions that count there, so never made of a split to evaluate on.
    flags = ("--out", tmp_path / "dev", "--split", "dev", "--supervised")
    assert "--supervised: expected --split train" in fails(squad_layout, capsys, *prepare, *flags)


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["train", "--data", "a", "--dev", "b", "--out", "c", "--batches.batch-size", "0"], "size"),
        (["evaluate", "--run-dir", "b", "--data", "nowhere"], "nowhere"),
        (["prepare", "--qa-file", "nowhere.json", "--evidence", ".", "--out", "x"], "nowhere.json"),
    ],
)
def test_what_a_person_got_wrong_is_told(capsys, flags, culprit, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert culprit in fails(triviaqa, capsys, *flags)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (b"", "empty document"),
        (b"  \n", "empty document"),
        (b"caf\xe9", "byte 3: expected UTF-8 text, found 0xe9"),
        ("\x01\u200b\x02".encode(), "found no character that the model reads"),
    ],
)
def test_documents_that_cannot_be_read_are_named(root, capsys, tmp_path, content, culprit):
    document = tmp_path / "mine.txt"
    document.write_bytes(content)
    line = fails(
        triviaqa,
        capsys,
        *("predict", "--run-dir", root / "run", "--document", document, "--question", "Who?"),
    )
    assert "mine.txt" in line and culprit in line


def test_a_split_without_questions_is_refused_before_the_first_step(root, capsys, tmp_path):
    for name in ("data", "dev"):
        shutil.copytree(root / "dev", tmp_path / name)
        (tmp_path / name / "checksums.json").unlink()
        (tmp_path / name / "questions.jsonl").write_text("")
        write_checksums(tmp_path / name)
    flags = train_flags(root, tmp_path / "run")
    flags[flags.index("--dev") + 1] = tmp_path / "dev"
    line = fails(triviaqa, capsys, *flags)
    assert f"{tmp_path / 'dev'}: expected questions to evaluate on, found none" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_packed_rows_in_two_parts_train_too(root):
    flags = train_flags(root, root / "packed", steps=2)
    more = ("--batches.packed-tokens", 64, "--batches.accumulate", 2, "--num-devices", 2)
    call(triviaqa, *flags[:-3], *more, *flags[-3:])
    [start], steps, [scores] = (logged(root / "packed", k) for k in ("start", "train", "eval"))
    assert start["compiled_ahead"] > start["first_step"]  # by the time it ran it was compiled
    assert [step["items"] for step in steps] == [4, 4] and "em" in scores
    assert all(0 <= step["input_wait"] <= 1 for step in steps)
    # A part has one item for each device, two windows that share a row of 64 places.
    sizes = np.load(root / "train" / "positives.sizes.npy")[:, 0]
    others = np.load(root / "train" / "negatives.sizes.npy")[:, 0]
    bounds = sizes.min() + others.min(), sizes.max() + others.max()
    assert all(bounds[0] <= 64 * step["real_tokens"] <= bounds[1] for step in steps)


@pytest.mark.parametrize(
    ("flag", "value", "named"),
    [
        ("--loop.seed", 5, "--loop.seed: 0 originally, 5 now"),
        ("--latent.likelihood", "position", "--latent.likelihood: span originally, position now"),
        ("--objective.tau", 3, "--objective.tau: 2 originally, 3 now"),
    ],
)
def test_other_settings_do_not_continue_a_run(root, capsys, flag, value, named):
    before = (root / "run" / "config.json").read_bytes()
    flags = train_flags(root, root / "run")
    if flag in flags:
        flags[flags.index(flag) + 1] = value
    else:
        flags[1:1] = [flag, value]
    assert f"({named});" in fails(triviaqa, capsys, *flags)
    assert (root / "run" / "config.json").read_bytes() == before


def test_the_same_data_elsewhere_continue_a_run(root, tmp_path):
    for name in ("train", "dev", "run"):
        shutil.copytree(root / name, tmp_path / name)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    flags = train_flags(root, tmp_path / "run")
    moved = {root / name: tmp_path / name for name in ("train", "dev")}
    call(triviaqa, *(moved.get(flag, flag) if isinstance(flag, Path) else flag for flag in flags))
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["bert", "train"])
def test_a_folder_of_something_else_is_left_as_it_was(root, capsys, tmp_path, name):
    shutil.copytree(root / name, tmp_path / "other")
    before = {file.name: file.read_bytes() for file in (tmp_path / "other").iterdir()}
    line = fails(triviaqa, capsys, *train_flags(root, tmp_path / "other"))
    assert "other: expected a new folder or one of a run, found " in line
    assert {file.name: file.read_bytes() for file in (tmp_path / "other").iterdir()} == before


def test_an_objective_is_a_value_of_the_command_line(capsys):
    base = ["train", "--data", "a", "--dev", "b", "--out", "c"]
    train = parse(triviaqa.COMMANDS, prog="test", argv=[*base, "--objective.tau", "80"])
    assert isinstance(train, Train) and train.objective == HardEM(tau=80)
    assert dataclasses.replace(train).model.encoder == "bert-base-uncased"
    assert "cap=0.8 applies" in refused(capsys, triviaqa.COMMANDS, *base, "--objective.cap", 0.8)
