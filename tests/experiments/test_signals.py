"""Scores of queries that need no model, against SQLite and by hand."""

import json
from collections import Counter

import numpy as np
import pytest

from experiments import wikisql
from experiments.solution_sets import signals
from hardem_jax.data.scores import SolutionScores
from hardem_jax.solutions.agreement import perturbed
from hardem_jax.solutions.sql.enumeration import (
    ExecutionError,
    OfficialEngine,
    Query,
    split_words,
)
from hardem_jax.tasks.tables.queries import TableQuestions
from tests import commands
from tests.tiny import write_wikisql


def add_question(folder):
    """One whose answer follows from either of two conditions, from both, and from others."""
    rows = [["ann", "oslo", 7.0], ["bob", "bonn", 5.0], ["cleo", "rome", 5.0], ["dee", "bonn", 6.0]]
    table = {"id": "2-0", "header": ["who", "place", "yards"], "types": ["text", "text", "real"]}
    sql = {"sel": 0, "agg": 0, "conds": [[1, 0, "oslo"]]}
    question = "Who of oslo ran 7 yards?"
    record = {"phase": 1, "table_id": "2-0", "question": question, "sql": sql}
    for name, line in (("train.tables.jsonl", table | {"rows": rows}), ("train.jsonl", record)):
        with open(folder / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("signals")
    official = write_wikisql(root / "official", tables=4)
    add_question(official)
    commands.call(wikisql, "prepare", "--folder", official, "--out", root / "built")
    return root / "built"


@pytest.fixture(scope="module")
def data(built):
    return TableQuestions.open(built, "train")


def scored(built, data, out, signal, *flags):
    signals.main([signal, "--data", str(built), "--out", str(out), *map(str, flags)])
    file = SolutionScores.read(out, content=data.meta["content"])
    return {q.id: file.scores[q.id] for q in data.questions}


def executed(engine, table, question, row):
    query = Query.from_row(row, question, split_words(question))
    try:
        return tuple(sorted(map(repr, engine.execute(table, query))))
    except ExecutionError:
        return None


def test_agreement_is_that_of_sqlite_on_the_same_tables(built, data, tmp_path):
    flags = "agreement", "--tables", 3, "--power", 2, "--seed", 5, "--how", "resample"
    scores = scored(built, data, tmp_path / "scores.npz", *flags)
    rng, differ = np.random.default_rng(5), 0
    with OfficialEngine() as engine:
        for question in data.questions:
            count = len(question.queries)
            shares = np.zeros(count)
            if count > 1:
                table = data.tables[question.table_id]
                for _ in range(3):
                    other = perturbed(table, "resample", rng)
                    found = [
                        executed(engine, other, question.question, row) for row in question.queries
                    ]
                    counts = Counter(found)
                    shares += [counts[result] / count / 3 for result in found]
                differ += len(set(shares)) > 1
            else:
                shares += 1
            np.testing.assert_allclose(np.exp(scores[question.id]), shares**2, rtol=1e-5)
    assert differ


def test_a_large_z_is_left_as_it_is(built, data, tmp_path):
    flags = "agreement", "--tables", 2, "--max-solutions", 2
    scores = scored(built, data, tmp_path / "scores.npz", *flags)
    large = [q.id for q in data.questions if len(q.queries) > 2]
    assert large and not any(scores[id].any() for id in large)


def test_fewest_conditions(built, data, tmp_path):
    scores = scored(built, data, tmp_path / "scores.npz", "fewest-conditions")
    left_out = 0
    for question in data.questions:
        words = split_words(question.question)
        queries = [Query.from_row(row, question.question, words) for row in question.queries]
        counts = [len(query.conditions) for query in queries]
        kept = [count == min(counts) for count in counts]
        assert (scores[question.id] == 0).tolist() == kept
        assert np.isneginf(scores[question.id]).sum() == kept.count(False)
        left_out += kept.count(False)
    assert left_out
    assert signals.fewest_conditions(np.zeros((0, 15), int)).shape == (0,)


def test_a_file_that_cannot_be_written_shows_before_the_work(built, tmp_path, capsys, monkeypatch):
    def work(*_):
        raise AssertionError("began to work")

    monkeypatch.setattr(TableQuestions, "open", work)
    out = tmp_path / "none" / "scores.npz"
    with pytest.raises(SystemExit) as stopped:
        signals.main(["agreement", "--data", str(built), "--out", str(out)])
    assert stopped.value.code == 2 and "cannot be written" in capsys.readouterr().err
