"""The speed of finding Z: which queries SQLite executes, and the command on a few questions."""

import itertools
import json
import random

import pytest

from experiments.benchmark.data import solution_sets
from hardem_jax.solutions.sql.enumeration import Query, Table


def test_queries_are_drawn_from_all_with_some_of_the_conditions():
    table = Table("t", ("a", "b"), ("text", "real"), (("x", 1),))
    conditions = [(0, 0, 0, 0), (1, 1, 1, 1), (1, 2, 1, 1)]
    drawn, total = solution_sets.sample_queries(random.Random(0), table, "x 1", conditions)
    # No condition, one of three, or that on the text with either on the number.
    assert total == (1 + 3 + 2) * 2 * 6
    assert len(drawn) == solution_sets.SAMPLED_QUERIES
    clauses = {query.conditions for query in drawn}
    assert len(clauses) == 6 and max(map(len, clauses)) == 2
    assert {(q.select, q.aggregator) for q in drawn} == set(itertools.product(range(2), range(6)))
    assert all(isinstance(query, Query) for query in drawn)


def test_each_data_set_is_timed_with_what_it_replaces(shared_dir, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(solution_sets, "SAMPLED_QUERIES", 3)
    folder = tmp_path / "wikisql"
    folder.mkdir()
    for name in ("train.jsonl", "train.tables.jsonl"):
        lines = (shared_dir / "data/wikisql" / name).read_text(encoding="utf-8").splitlines(True)
        (folder / name).write_text("".join(lines[:40]), encoding="utf-8")
    out = tmp_path / "out.json"
    solution_sets.main(
        ["--wikisql", str(folder), "--processes", "1", "--sample", "2", "--out", str(out)]
    )
    one, several, sample, *sqlite = json.loads(out.read_text())["results"]
    assert one["questions"] == several["questions"] > sample["questions"] >= 2
    assert one["cpu_s"] > 0 and several["wall_s"] > 0
    for row in sqlite:
        assert row["times"] == pytest.approx(row["wall_s"] / sample["wall_s"])
    assert "times as long" in capsys.readouterr().out


def test_nothing_to_measure_is_one_line(capsys):
    with pytest.raises(SystemExit) as stop:
        solution_sets.main([])
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "expected one of them, found none" in line
