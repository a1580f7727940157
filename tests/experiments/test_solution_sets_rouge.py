"""The table of Z on NarrativeQA at a tiny size: what it counts."""

import json
from pathlib import Path

import pytest

from experiments.solution_sets import rouge
from hardem_jax.data.examples import Document, ReadingExample
from hardem_jax.data.readers.narrativeqa import QUESTIONS, SUMMARIES

SUMMARY = "mark , a loner , runs a radio . nora finds the loner ."


@pytest.fixture
def folder(tmp_path):
    """A question with two spans as good as each other, and one without any."""
    (tmp_path / SUMMARIES).parent.mkdir(parents=True)
    (tmp_path / SUMMARIES).write_text(
        f'document_id,set,summary_tokenized\nd1,train,"{SUMMARY}"\n', "utf-8"
    )
    header = "document_id,set,question_tokenized,answer1_tokenized,answer2_tokenized\n"
    lines = "d1,train,who ?,a loner,the loner\nd1,train,how ?,by train,\n"
    (tmp_path / QUESTIONS).write_text(header + lines, "utf-8")
    return tmp_path


def test_counts_every_variant(folder, capsys):
    out = folder / "out.json"
    rouge.main(
        ["--folder", str(folder), "--split", "train", "--processes", "1", "--check", "2"]
        + ["--out", str(out)]
    )
    content = json.loads(out.read_text())
    rows = {row["name"]: row for row in content["rows"]}
    assert list(rows) == list(rouge.VARIANTS) and content["questions"] == 2
    best = rows["best (default)"]
    assert best["covered"] == 1 / 2 and best["mean"] == best["median"] == best["max"] == 2
    assert best["best_rouge_l"] == best["mean_rouge_l"] == pytest.approx(1 / 2)
    assert rows["five best"]["mean"] == 5
    # With a full stop behind it, "the loner ." is as good for the package.
    assert rows["best, by the package"]["mean"] == 3
    brute = content["brute_force"]
    assert brute["different"] == [] and brute["questions"] == 2
    assert "0 differences in 6 rules" in " ".join(capsys.readouterr().out.split())


def test_differences_are_found(monkeypatch):
    example = ReadingExample("q1", "who ?", (Document("d1", SUMMARY),), (), ("a loner",))
    assert rouge.check(example)["different"] == []
    monkeypatch.setattr(rouge, "select", lambda scored, rules: ())
    assert len(rouge.check(example)["different"]) == len(rouge.CHECKED)


def test_nothing_to_measure_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        rouge.main(["--folder", str(Path(tmp_path, "none"))])
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "summaries.csv" in line
