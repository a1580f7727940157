"""The retrieval benchmark on a small collection."""

import json
import os

import numpy as np
import pytest

from experiments.benchmark import retrieval
from tests.retrieval.corpora import rows_of, save


def test_what_runs_apart_runs_in_another_process():
    assert retrieval.apart(process) != process()


def process():
    return {"id": os.getpid()}


def test_it_measures_all_it_says(tmp_path, capsys, monkeypatch):
    # Starting processes takes most of the time, and changes nothing but peak memory.
    monkeypatch.setattr(retrieval, "apart", lambda function, *arguments: function(*arguments))
    passages = save(tmp_path / "a.tsv", rows_of(np.random.default_rng(0), 120))
    questions = tmp_path / "q.jsonl"
    lines = [{"question": f"old {word}", "answer": ["rome"]} for word in ("city", "river", "king")]
    questions.write_text("\n".join(map(json.dumps, lines)))
    arguments = ["--passages", passages, "--questions", questions, "--out", tmp_path / "out.json"]
    options = ["--parts", "0.5", "1.0"]
    retrieval.main([str(argument) for argument in [*arguments, *options]])
    content = json.loads((tmp_path / "out.json").read_text())
    assert [size["passages"] for size in content["sizes"]] == [60, 120]
    assert set(content["methods"]) == {"combined", "articles", "bm25"}
    for found in (*content["methods"].values(), content["plain_bm25s"]):
        assert 0 <= found["recall"]["1"] <= found["recall"]["5"] <= 1
        assert found["seconds"] > 0
    for name, fit in content["fits"].items():
        (x1, y1), (x2, y2) = [(size["passages"], size[name]) for size in content["sizes"]]
        np.testing.assert_allclose(fit["per_passage"], (y2 - y1) / (x2 - x1), rtol=1e-6, atol=1e-9)
    said = capsys.readouterr().out
    assert "bm25s, defaults" in said and "21015324" in said


def test_mistakes_become_one_line(tmp_path, capsys):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "?", "answer": ["rome"]}')
    arguments = ["--passages", str(tmp_path / "a.tsv"), "--questions", str(questions)]
    wrong = {
        ("--parts", "0.5"): "--parts: expected several shares up to 1.0",
        ("--parts", "2.0"): "--parts: expected more than 0 and at most 1, found 2.0",
        (): "--questions: expected questions, found none to use",
    }
    for options, message in wrong.items():
        with pytest.raises(SystemExit) as stop:
            retrieval.main([*arguments, *options])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
