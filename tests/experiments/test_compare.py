"""The comparison of objectives, from prepared splits to table, figure and predictions."""

import json
import math

import pytest

from experiments import triviaqa
from experiments.cli import run_command
from experiments.compare import summarize
from tests.tiny import write_checkpoint, write_triviaqa

OBJECTIVES = ("First-only", "MML", "Hard EM, tau 2", "MML as released in 2019")


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
    run_command(triviaqa.COMMANDS, prog="test", argv=[str(flag) for flag in prepare])
    flags = [
        *("compare", "--data", root / "data", "--dev", root / "data", "--out", root / "runs"),
        *("--model.encoder", bert, "--num-devices", 1, "--batches.batch-size", 4),
        *("--batches.buckets", 32, "--loop.num-steps", 2, "--loop.eval-every", 1),
        *("--loop.log-every", 1, "--loop.no-progress", "--tau", 2, "--shown", 5),
        *("--seeds", 0, "--train-questions", 6),
    ]
    return root / "runs", [str(flag) for flag in flags]


def test_tables_figure_and_predictions_hold_every_objective(flags, capsys):
    out, arguments = flags
    run_command(triviaqa.COMMANDS, prog="test", argv=arguments)
    printed = capsys.readouterr().out
    content = json.loads((out / "comparison.json").read_text())
    for name in OBJECTIVES:
        assert name in printed
        [scores] = content["runs"][name]
        assert content["summary"][name]["em"] == [scores["em"], 0] and "data: em" in scores
    assert (out / "learning_curves.png").stat().st_size > 10_000
    assert (out / "by_set_size.png").stat().st_size > 10_000
    header, _, *rows = (out / "predictions.md").read_text().splitlines()
    assert header == f"| question | gold | {' | '.join(OBJECTIVES)} |"
    assert len(rows) == 5 and all(row.count("|") == 7 for row in rows)

    # Again, two of them alone: runs that have ended are not repeated.
    files = [out / folder / "metrics.jsonl" for folder in ("mml-0", "hard-em-tau-2-0")]
    before = [file.stat().st_mtime_ns for file in files]
    fewer = [*arguments, "--shown", "0", "--objectives", "mml", "hard-em"]
    run_command(triviaqa.COMMANDS, prog="test", argv=fewer)
    assert [file.stat().st_mtime_ns for file in files] == before
    assert set(json.loads((out / "comparison.json").read_text())["runs"]) == {*OBJECTIVES[1:3]}


def test_mean_and_spread_are_over_seeds():
    runs = {"MML": [{"em": 1.0}, {"em": 2.0}, {"em": 6.0, "only here": 1.0}]}
    assert summarize(runs) == {"MML": {"em": (3.0, math.sqrt((4 + 1 + 9) / 2))}}
