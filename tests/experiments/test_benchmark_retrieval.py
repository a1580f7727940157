"""The retrieval benchmark on a small collection."""

import json
import os

import numpy as np
import pytest

from experiments.benchmark.data import retrieval
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.retrieval.passage_files import read_passages
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


def test_memory_by_the_size_of_shards(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(retrieval, "apart", lambda function, *arguments: function(*arguments))
    passages = save(tmp_path / "a.tsv", rows_of(np.random.default_rng(0), 40))
    out = tmp_path / "out.json"
    options = ["--copies", "3", "--parts", "0.5", "1.0", "--shard-passages", "10", "60", "61"]
    retrieval.main(["--passages", str(passages), "--out", str(out), *options])
    content = json.loads(out.read_text())
    builds = [(made["shard_passages"], made["passages"]) for made in content["builds"]]
    assert builds == [(10, 60), (10, 120), (60, 120)]  # at least two shards
    assert all(made["build_mib"] > 0 for made in content["builds"])
    assert content["fit"] == retrieval.plane(content["builds"])
    assert "21015324, in shards of 250000" in capsys.readouterr().out


def test_copies_are_other_passages(tmp_path):
    rows = [("7", "Rome is old and large.", "Rome"), ("8", "So is it.", ""), ("9", "Yes.", "Rome")]
    source = save(tmp_path / "a.tsv", rows)
    file = retrieval.write_copies(source, tmp_path / "b.jsonl", 6)
    skips = ExclusionCounts()
    copies = list(read_passages(file, skips=skips))
    assert not skips.as_dict() and len({passage.id for passage in copies}) == 18
    assert [(p.id, p.text, p.title) for p in copies[:3]] == [(f"{i}-0", x, t) for i, x, t in rows]
    assert [p.title for p in copies if p.title] == ["Rome"] * 8 + ["Rome 1"] * 4
    assert sorted(copies[3].text.split()) == sorted([*rows[0][1].split(), "new1x0"])


def test_mistakes_become_one_line(tmp_path, capsys):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "?", "answer": ["rome"]}')
    arguments = ["--passages", str(tmp_path / "a.tsv"), "--questions", str(questions)]
    wrong = {
        ("--parts", "0.5"): "--parts: expected several shares up to 1.0",
        ("--parts", "2.0"): "--parts: expected more than 0 and at most 1, found 2.0",
        ("--shard-passages", "0"): "--shard-passages: expected at least 1, found 0",
        ("--copies", "2"): "--questions: expected one size of shards and no copies",
        (): "--questions: expected questions, found none to use",
    }
    for options, message in wrong.items():
        with pytest.raises(SystemExit) as stop:
            retrieval.main([*arguments, *options])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
