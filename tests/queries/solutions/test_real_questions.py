"""Z of WikiSQL's training questions: the figures that docstrings give, and what they rest on."""

import dataclasses
import random

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.queries.readers import read_wikisql
from hardem_jax.queries.solutions.engine import OfficialEngine, execute_sql, typed_table
from hardem_jax.queries.solutions.enumeration import enumerate_sql
from hardem_jax.queries.solutions.types import Query, SqlRules
from hardem_jax.queries.solutions.values import ExecutionError
from hardem_jax.tables.table import split_words


@pytest.fixture(scope="module")
def real(shared_dir):
    """Examples and their answers by the official engine, of those that it can execute."""
    found = []
    with OfficialEngine() as engine:
        for example in read_wikisql(shared_dir / "data/wikisql", "train", skips=ExclusionCounts()):
            try:
                found.append((example, engine.execute(example.table, example.query)))
            except ExecutionError:
                continue
    return found


def has_annotated(example, queries):
    """Whether a query means what the annotated one does, as the engine binds values."""
    columns, words = typed_table(example.table).columns, split_words(example.question)

    def meaning(query):
        bound = {(c.column, c.operator, columns[c.column].bind(c.value)) for c in query.conditions}
        return query.select, query.aggregator, bound

    head = example.query.select, example.query.aggregator, len(example.query.conditions)
    rows = queries[(queries[:, :3] == head).all(1)]
    read = (Query.from_row(row, example.question, words) for row in rows)
    return meaning(example.query) in map(meaning, read)


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
    found = [enumerate_sql(x.table, x.question, answer, rules) for x, answer in real]
    sizes = np.array([z.size for z in found])
    # The figures that docstrings give.
    assert round((sizes > 0).mean(), 3) == 0.997
    assert round(sizes[sizes > 0].mean(), 1) == mean and np.median(sizes[sizes > 0]) == median
    missing = [x for (x, _), z in zip(real, found, strict=True) if not has_annotated(x, z.queries)]
    print(f"{len(missing)} annotated queries are not in Z:")
    for example in missing:
        # The one reason: the annotated query selects no row at all.
        print(example.question, example.query)
        everything = dataclasses.replace(example.query, aggregator=0)
        assert execute_sql(example.table, everything) == []
    assert len(missing) == 8
    for z in found:
        assert len(np.unique(z.queries, axis=0)) == len(z.queries)


@pytest.mark.slow
def test_every_solution_of_real_questions_is_one(real):
    rng = random.Random(0)
    executed = 0
    with OfficialEngine() as engine:
        for example, answer in rng.sample(real, 400):
            rows = enumerate_sql(example.table, example.question, answer).queries
            words = split_words(example.question)
            for row in rows[:: max(1, len(rows) // 50)]:
                query = Query.from_row(row, example.question, words)
                assert engine.execute(example.table, query) == answer
                executed += 1
    assert executed > 4000
