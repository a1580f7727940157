"""The comparison of objectives, from prepared splits to table, figure and predictions."""

import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from experiments import triviaqa, wikisql
from hardem_jax.analysis import plots
from hardem_jax.cli.command import parse, run_command
from hardem_jax.cli.compare import CompareCommand, _Run
from hardem_jax.locks import LOCK_FILE, locked
from hardem_jax.objectives import MML
from hardem_jax.training.config import LoopConfig
from tests.commands import call, fails
from tests.tiny import write_checkpoint, write_triviaqa

OBJECTIVES = ("First-only", "MML", "Hard EM, tau 2", "MML as released in 2019")
# One for each of two workers, and one that nobody has begun when the first of them dies.
SHARED = ("first-only", "mml", "hard-em --tau 2")


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    root = tmp_path_factory.mktemp("compare")
    bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root)
    windows = ("--windows.max-tokens", "32", "--windows.stride", "8")
    prepare = [
        *("prepare", "--qa-file", qa_file, "--evidence", root / "evidence"),
        *("--tokenizer", bert, "--out", root / "data", *windows),
        *("--windows.max-question-tokens", "8"),
    ]
    call(triviaqa, *prepare)
    other = {
        qa_file: write_triviaqa(root / "fewer", questions=20),
        root / "data": root / "other" / "data",
        root / "evidence": root / "fewer/evidence",
    }
    call(triviaqa, *(other.get(flag, flag) for flag in prepare))
    flags = [
        *("compare", "--data", root / "data", "--dev", root / "data", "--out", root / "runs"),
        *("--model.encoder", bert, "--model.num-layers", 1, "--num-devices", 1),
        *("--batches.batch-size", 4, "--batches.buckets", 32),
        *("--loop.num-steps", 2, "--loop.eval-every", 1),
        *("--loop.log-every", 1, "--loop.no-progress", "--shown", 5),
        *("--objectives", "first-only", "mml", "hard-em --tau 2", "released-mml"),
        *("--seeds", 0, "--train-questions", 6),
    ]
    return root / "runs", [str(flag) for flag in flags]


@pytest.mark.slow
def test_tables_figure_and_predictions_hold_every_objective(flags, capsys, monkeypatch):
    out, arguments = flags
    bars, draw = {}, plots.scores_by_group

    def noted(scores, *, groups, bounds, **more):
        bars.update({label: bounds["MML"].get(name) for name, label in groups.items()})
        draw(scores, groups=groups, bounds=bounds, **more)

    monkeypatch.setattr(plots, "scores_by_group", noted)
    run_command(triviaqa.COMMANDS, prog="test", argv=arguments)
    printed = capsys.readouterr().out
    content = json.loads((out / "comparison.json").read_text())
    for name in OBJECTIVES:
        assert name in printed
        [scores] = content["runs"][name]
        assert content["summary"][name]["em"] == [scores["em"], 0] and "data: em" in scores
        for metric, (mean, low, high) in content["intervals"][name].items():
            assert mean == pytest.approx(scores[metric]) and low <= mean <= high
    of_questions = json.loads((out / "mml-0" / "by_question.json").read_text())["scores"]
    assert {metric: len(found) for metric, found in of_questions.items()} == {"em": 24, "f1": 24}
    pairs = [found["objectives"] for found in content["differences"]["f1"]]
    assert pairs == [list(pair) for pair in itertools.combinations(OBJECTIVES, 2)]
    assert {"mean", "low", "high", "p"} < content["differences"]["em"][0].keys()
    said = [line for line in printed.splitlines() if ", p = " in line]
    assert "scoring" not in printed  # the last evaluation has answered every question
    assert [line.partition(":")[0].split(" - ") for line in said] == pairs
    assert "questions only" in " ".join(printed.split())
    assert "data, after the last step: % of 24 questions" in printed
    table = [[cell.strip() for cell in line.split("│")] for line in printed.splitlines()]
    of = {row[1]: row[-2] for row in table if len(row) == 8}
    assert [*of][:2] == ["em", "f1"] and of["selector"] == "windows"
    assert of["em |Z|=3-4"] == "24 questions"
    # All of them are in one group, so its interval is theirs.
    assert bars["3-4\nn = 24"] == tuple(content["intervals"]["MML"]["em"])
    assert (out / "learning_curves.png").stat().st_size > 10_000
    assert (out / "by_set_size.png").stat().st_size > 10_000
    header, _, *rows = (out / "predictions.md").read_text().splitlines()
    assert header == f"| question | gold | {' | '.join(OBJECTIVES)} |"
    assert len(rows) == 5 and all(row.count("|") == 7 for row in rows)

    assert (out / "by_set_size-data.png").is_file()  # the training split has a figure of its own

    # Again, only two of them: runs that have ended are not repeated, and one that was
    # killed before it answered is only asked again.
    folders = [out / folder for folder in ("mml-0", "hard-em-tau-2-0")]
    files = [folder / "metrics.jsonl" for folder in folders]
    files.append(folders[0] / "by_question.json")
    before = [file.stat().st_mtime_ns for file in files]
    answered = folders[1] / "by_question.json"
    content = answered.read_text()
    answered.unlink()
    fewer = [*arguments, "--shown", "0", "--objectives", "mml", "hard-em --tau 2"]
    run_command(triviaqa.COMMANDS, prog="test", argv=fewer)
    again = capsys.readouterr().out
    rows = [[line for line in text.splitlines() if "│" in line] for text in (printed, again)]
    names = [[row.split("│")[1] for row in table] for table in rows]
    assert names[0] == names[1]  # the same metrics in the same order
    assert "step" not in {name.strip() for name in names[0]}
    assert [file.stat().st_mtime_ns for file in files] == before
    assert answered.read_text() == content
    assert [line for line in again.splitlines() if "scoring" in line] == [
        "hard-em-tau-2-0: scoring every question"
    ]
    assert set(json.loads((out / "comparison.json").read_text())["runs"]) == {*OBJECTIVES[1:3]}

    # A run with other settings is refused, and what was measured otherwise is measured anew.
    ended = (out / "comparison.json").read_bytes()
    for flag, value, named in (
        ("--loop.num-steps", 5, "--loop.num-steps: 2 originally, 5 now"),
        ("--optimizer.learning-rate", 1e-3, "learning-rate: 5e-05 originally, 0.001 now"),
        ("--latent.likelihood", "position", "--latent.likelihood: span originally, position now"),
        ("--dev", out.parent / "other" / "data", "counts.questions 24 originally, 20 now"),
        ("--watched", "nobody", "--watched: expected ids of questions"),
    ):
        assert named in fails(triviaqa, capsys, *fewer, flag, value)
        assert (out / "comparison.json").read_bytes() == ended
    run_command(triviaqa.COMMANDS, prog="test", argv=[*fewer, "--train-questions", "0"])
    assert "data: em" not in json.loads((out / "comparison.json").read_text())["summary"]["MML"]

    # Splits of one name are told apart by their folders.
    data, out = (out.parent / "data", out.parent / "other" / "data"), out.parent / "two"
    argv = [*arguments, "--data", *data, "--out", out, "--shown", 0, "--objectives", "mml"]
    call(triviaqa, *argv)
    assert len(list(out.glob("by_set_size-*-data.png"))) == 2


@pytest.mark.slow
def test_two_workers_share_the_runs_and_one_takes_those_of_the_other_when_killed(flags, tmp_path):
    out = tmp_path / "shared"
    words = [*flags[1], "--out", out, "--shown", 0, "--objectives", *SHARED]
    command = [sys.executable, "-m", "experiments.triviaqa", *map(str, words)]

    def worker():
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(file, process):
        while not file.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)

    killed = worker()
    wait_for(out / "first-only-0" / LOCK_FILE, killed)
    other = worker()
    wait_for(out / "mml-0" / LOCK_FILE, other)  # it has passed the first run by
    trained = {path.parent.name for path in out.glob("*/final.json")}
    killed.kill()
    killed.communicate()
    printed, errors = other.communicate()
    assert other.returncode == 0, errors
    runs = {"first-only-0", "mml-0", "hard-em-tau-2-0"}
    assert {path.name for path in out.iterdir() if path.is_dir()} == runs
    for name in runs:
        lines = map(json.loads, (out / name / "metrics.jsonl").read_text().splitlines())
        assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2], name
    # A run that the other had ended is not trained again.
    assert printed.count("best f1") == len(runs - trained)
    assert all(objective in printed for objective in OBJECTIVES[:3])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (("--seeds", 0, 0), "seeds: expected different values, found 0 0"),
        (("--objectives", "em", "em"), "objectives: expected different values, found 'EM' twice"),
        (("--objectives", "nml"), "Unrecognized options: nml"),
        (("--out", __file__), "test_compare.py: expected a folder to write to, found a file"),
        (
            ("--objectives", "hard-em --tau -1"),
            "objectives: expected what train takes after objective:, found 'hard-em --tau -1'",
        ),
        (
            ("--seeds", 0, 1, 2, "--init-from", "a", "b"),
            "--init-from: expected one run, or one for each of 3 seeds, found 2",
        ),
        (
            ("--seeds", 0, 1, "--init-from", "a", "a"),
            "--init-from: expected different values, found a a",
        ),
        (("--loop.monitor", "F1"), "loop.monitor: expected one of em,"),
        (
            ("--objectives", "mml", "thresholded-hard-em", "--batches.accumulate", 2),
            "--batches.accumulate: expected 1 for Thresholded hard EM, whose loss is the mean",
        ),
    ],
)
def test_what_would_fail_later_is_refused_at_once(flags, capsys, tmp_path, wrong, named):
    _, arguments = flags
    assert named in fails(triviaqa, capsys, *arguments, "--out", tmp_path / "new", *wrong)
    assert not list(tmp_path.glob("new/*/metrics.jsonl"))


def test_a_run_of_other_settings_is_refused_before_others_are_trained(flags, capsys, tmp_path):
    _, arguments = flags
    compare = (*arguments, "--out", tmp_path / "new", "--objectives")
    call(triviaqa, *compare, "hard-em")
    said = fails(triviaqa, capsys, *compare, "mml", "hard-em", "--loop.num-steps", 3)
    assert "hard-em-0: cannot resume with different settings" in said
    assert not (tmp_path / "new" / "mml-0").exists()
    for name in ("best", "last"):  # as if it had stopped before its first checkpoint
        shutil.rmtree(tmp_path / "new" / "hard-em-0" / name)
    call(triviaqa, *compare, "hard-em", "--loop.num-steps", 3)


@pytest.mark.parametrize(
    ("begun", "of_seeds"),
    [([], [None] * 3), (["a"], ["a"] * 3), (["a", "b", "c"], ["a", "b", "c"])],
)
def test_every_seed_starts_from_one_run_or_each_from_its_own(flags, monkeypatch, begun, of_seeds):
    _, (_, *arguments) = flags
    argv = [*arguments, "--seeds", "0", "1", "5", "--objectives", "mml", "hard-em"]
    argv += ["--init-from", *begun] if begun else []
    command = parse(triviaqa.COMMANDS["compare"], prog="test", argv=argv)
    started = []

    def start(train, mesh):
        del mesh
        started.append(train.init_from)
        return SimpleNamespace(data={"init_from": f"what is in {train.init_from}"})

    monkeypatch.setattr(type(command).TRAIN, "start", start)
    grid = command._grid(cast(Any, None))
    expected = [name and Path(name) for name in of_seeds]
    assert [run.train.init_from for run in grid[::2]] == expected
    for run in grid:
        assert run.settings["contents of init_from"] == f"what is in {run.train.init_from}"
    assert started == list(dict.fromkeys(expected))  # runs of one start share their data


def test_each_search_is_checked_before_the_first_run(monkeypatch):
    """Its batches may not fit, such as those of MERL, where other objectives take them."""
    argv = ["--data", "a", "--dev", "a", "--out", "b", "--seeds", "0", "1"]
    argv += ["--objectives", "mml", "merl", "hard-em", "mapo"]
    command = parse(wikisql.COMMANDS["compare"], prog="test", argv=argv)
    started = []

    def start(train, mesh):
        started.append((mesh, type(train.objective).__name__))
        return SimpleNamespace(data={})

    monkeypatch.setattr(type(command).TRAIN, "start", start)
    assert len(command._grid(cast(Any, "mesh"))) == 8
    assert started == [("mesh", name) for name in ("MML", "MERL", "MAPO")]


def test_a_run_that_diverges_keeps_no_other_from_ending(flags, tmp_path, monkeypatch):
    argv = [*flags[1][1:], "--out", str(tmp_path / "new")]
    command: Any = parse(triviaqa.COMMANDS["compare"], prog="test", argv=argv)
    ended = []

    def score(_, run):
        if run.train.out.name == "a":
            raise FloatingPointError("step 7: loss nan")
        ended.append(run.train.out.name)

    grid = [
        SimpleNamespace(train=SimpleNamespace(out=Path(x)), ended=lambda x=x: x in ended)
        for x in "abc"
    ]
    monkeypatch.setattr(type(command), "_grid", lambda *_: grid)
    monkeypatch.setattr(type(command), "_score", score)
    monkeypatch.setattr(type(command), "_write_scores", lambda *_: {})
    with pytest.raises(FloatingPointError, match="^a: step 7: loss nan; .* reads all other runs"):
        command.run()
    assert ended == ["b", "c"]
    # Which is told also where others are at work.
    with locked(tmp_path / "new", "b.lock.json"), pytest.raises(FloatingPointError):
        ended.clear()
        command.run()


def stopped_run(folder, patience, train=None):
    """One of 8 steps that stopped after step 4, after two evaluations without a gain."""
    lines = [
        {"kind": "eval", "step": step, "em": em} for step, em in ((2, 30.0), (3, 20.0), (4, 20.0))
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    loop = LoopConfig(num_steps=8, monitor="em", patience=patience)
    of_train = SimpleNamespace(out=folder, loop=loop, objective=MML(), run=train)
    run = _Run("MML", cast(Any, of_train), {"loop.seed": "0"})
    stopped = {"settings": dict(run.settings), "scores": [["step", 4], ["em", 20.0]]}
    run.final.write_text(json.dumps(stopped))
    run.questions.write_text(json.dumps(stopped | {"scores": {"em": [0.0]}}))
    return run


@pytest.mark.parametrize(("patience", "ended"), [(1, True), (2, True), (3, False), (None, False)])
def test_a_run_has_ended_where_the_patience_of_now_has_run_out(tmp_path, patience, ended):
    assert stopped_run(tmp_path, patience).ended() == ended


def test_a_run_that_goes_on_with_more_patience_is_scored_again(tmp_path):
    """Its settings are those of before, so that its old scores would pass for new ones."""

    def train():
        (tmp_path / "metrics.jsonl").write_text('{"kind": "eval", "step": 8, "em": 50.0}\n')
        return lambda: {"em": np.array([0.0, 100.0])}

    run = stopped_run(tmp_path, 3, train)
    CompareCommand._score(cast(Any, SimpleNamespace(more_scores=lambda folder: {})), run)
    assert (run.scores() or {})["em"] == 50.0
    assert run.by_question() == {"em": [0, 100]}
