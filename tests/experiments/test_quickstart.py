"""The quickstart from end to end, in a size for a test."""

import pytest

from experiments.cli import run_command
from experiments.quickstart import Quickstart


def call(*arguments):
    run_command(Quickstart, prog="quickstart", argv=[str(a) for a in arguments])


def test_prints_a_row_for_each_objective_and_saves_the_figure(tmp_path, capsys):
    call(
        *("--corpus.num-train", 32, "--corpus.num-dev", 20, "--steps", 4, "--batch-size", 8),
        *("--width", 16, "--out", tmp_path / "out"),
    )
    out = capsys.readouterr().out
    for name in ("First-only", "MML", "Hard EM"):
        assert f"│ {name}" in out
    assert (tmp_path / "out" / "learning_curves.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [(["--fast"], "--fast"), (["--corpus.num-people", "1"], "num_people"), (["--steps", "x"], "x")],
)
def test_what_a_person_got_wrong_is_one_line(flags, culprit, capsys):
    with pytest.raises(SystemExit) as stop:
        call(*flags)
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert culprit in line
