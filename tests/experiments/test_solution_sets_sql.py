"""The table of Z on WikiSQL: its figures, what they rest on, and the command on a few questions."""

import dataclasses
import random

import numpy as np
import pytest

from experiments.solution_sets.sql import annotations, answered, main
from experiments.solution_sets.sql_queries import compare_engines, spans_of
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.solutions.sql.enumeration import (
    OfficialEngine,
    Query,
    SqlRules,
    enumerate_sql,
    execute_sql,
    split_words,
)


@pytest.fixture(scope="module")
def real(shared_dir):
    return answered(shared_dir / "data/wikisql", "train", ExclusionCounts())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "mean", "median"),
    [
        (SqlRules(), 40.4, 2),
        (SqlRules(numbers="exact", aggregates_on_text=True), 285.4, 6),
        (SqlRules(vacuous_conditions=False), 12.4, 1),
    ],
)
def test_z_of_real_questions(real, rules, mean, median):
    assert len(real) == 2376
    found = [enumerate_sql(q.table, q.question, q.answer, rules) for q in real]
    sizes = np.array([z.size for z in found])
    # The figures that docstrings give.
    assert round((sizes > 0).mean(), 3) == 0.997
    assert round(sizes[sizes > 0].mean(), 1) == mean and np.median(sizes[sizes > 0]) == median
    missing = [q for q, z in zip(real, found, strict=True) if not annotations(q, z.queries).any()]
    print(f"{len(missing)} annotated queries are not in Z:")
    for question in missing:
        # The one reason: the annotated query selects no row at all.
        print(question.question, question.query)
        everything = dataclasses.replace(question.query, aggregator=0)
        assert execute_sql(question.table, everything) == []
    assert len(missing) == 8
    for row_sum in (z.queries for z in found):
        assert len(np.unique(row_sum, axis=0)) == len(row_sum)


@pytest.mark.slow
def test_every_solution_of_real_questions_is_one(real):
    rng = random.Random(0)
    executed = 0
    with OfficialEngine() as engine:
        for q in rng.sample(real, 400):
            rows = enumerate_sql(q.table, q.question, q.answer).queries
            words = split_words(q.question)
            for row in rows[:: max(1, len(rows) // 50)]:
                query = Query.from_row(row, q.question, words)
                assert engine.execute(q.table, query) == q.answer
                executed += 1
    assert executed > 4000


@pytest.fixture
def few(shared_dir, tmp_path):
    """WikiSQL with 40 questions."""
    folder = tmp_path / "wikisql"
    folder.mkdir()
    for name in ("dev.jsonl", "dev.tables.jsonl"):
        lines = (shared_dir / "data/wikisql" / name).read_text(encoding="utf-8").splitlines(True)
        (folder / name).write_text("".join(lines[:40]), encoding="utf-8")
    return folder


def test_the_command_on_a_few_questions(few, tmp_path, capsys):
    out = tmp_path / "out.json"
    flags = f"--folder {few} --split dev --queries 200 --out {out}"
    main(flags.split())
    printed = capsys.readouterr().out
    assert "200 random queries" in printed and ": 0 different results" in printed
    assert "346.1" in printed and out.is_file()


@pytest.mark.slow
def test_engines_agree_on_real_tables(real):
    found = compare_engines([(q.table, q.question) for q in real], 20_000, seed=0)
    assert found["queries"] == 20_000 and found["trivial"] < 12_000
    assert found["different"] == 0, found["differences"]


def test_spans_are_cut_from_the_question():
    assert spans_of("over $5?")[:3] == ["over", "over $", "over $5"]
    assert spans_of("  ") == []
