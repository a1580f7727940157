"""Z of WikiSQL's training questions: the figures that docstrings give, and what they rest on."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.queries.annotations import gold_in_solutions
from hardem_jax.queries.readers import read_answers
from hardem_jax.queries.records import query_question
from hardem_jax.queries.solutions.engine import execute_sql
from hardem_jax.queries.solutions.types import SqlRules
from hardem_jax.queries.solutions.values import COMPENSATED_SUMS

EXACT = 285.5 if COMPENSATED_SUMS else 285.4  # mean |Z|, by how this SQLite sums

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real(shared_dir):
    return list(read_answers(shared_dir / "data/wikisql", "train", skips=ExclusionCounts()))


@pytest.mark.parametrize(
    ("rules", "mean", "median"),
    [
        (SqlRules(), 40.4, 2),
        (SqlRules(numbers="exact", aggregates_on_text=True), EXACT, 6),
        (SqlRules(vacuous_conditions=False), 12.4, 1),
    ],
)
def test_z_of_real_questions(real, rules, mean, median):
    found = [query_question(asked, rules) for asked in real]
    sizes = np.array([question.num_queries for question in found])
    assert len(real) == 2376 and round((sizes > 0).mean(), 3) == 0.997
    assert round(sizes[sizes > 0].mean(), 1) == mean and np.median(sizes[sizes > 0]) == median
    pairs = zip(real, found, strict=True)
    missing = [asked for asked, z in pairs if not gold_in_solutions(z, asked.query)]
    # But for a few whose values are no spans, the annotated query selects no row at all.
    empty = [
        asked
        for asked in missing
        if execute_sql(asked.table, dataclasses.replace(asked.query, aggregator=0)) == []
    ]
    assert len(empty) == 8 and len(missing) <= 0.03 * len(real)
    assert all(len(np.unique(z.queries, axis=0)) == len(z.queries) for z in found)
