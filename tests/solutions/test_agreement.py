"""Perturbed tables, and the share of solutions that agree on them."""

from collections import Counter

import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.solutions.agreement import agreement, perturbed
from hardem_jax.solutions.sql.types import Table

ROWS = tuple((f"p{n}", float(n % 3), None if n == 4 else f"t{n}") for n in range(8))
TABLE = Table("1", ("player", "goals", "team"), ("text", "real", "text"), ROWS)


@pytest.mark.parametrize("how", ["permute", "resample", "rows"])
def test_a_perturbed_table_has_the_form_and_the_cells_of_the_table(how):
    rng = np.random.default_rng(0)
    tables = [perturbed(TABLE, how, rng) for _ in range(20)]
    for table in tables:
        assert (table.header, table.types, len(table.rows)) == (TABLE.header, TABLE.types, 8)
        for cells, known in zip(
            zip(*table.rows, strict=True), zip(*ROWS, strict=True), strict=True
        ):
            assert set(cells) <= set(known)
            if how == "permute":
                assert Counter(cells) == Counter(known)
        if how == "rows":
            assert set(table.rows) <= set(ROWS)
    assert len({table.rows for table in tables}) == 20
    # Columns move apart unless whole rows are drawn.
    assert any(set(table.rows) - set(ROWS) for table in tables) == (how != "rows")


def test_a_table_without_rows_stays_as_it_is():
    empty = Table("1", ("a",), ("text",), ())
    assert perturbed(empty, "permute", np.random.default_rng(0)) is empty


def test_a_perturbation_that_there_is_not():
    with pytest.raises(InputError, match="how: expected one of .*, found 'shuffle'"):
        perturbed(TABLE, "shuffle", np.random.default_rng(0))


def test_agreement_is_the_mean_share_of_equal_results():
    results = [["a", "a", "b", None], [(1.0,), (1.0,), (1.0,), (2.0,)]]
    expected = np.mean([[2, 2, 1, 1], [3, 3, 3, 1]], axis=0) / 4
    np.testing.assert_allclose(agreement(results), expected)
    np.testing.assert_array_equal(agreement([["a"]]), [1.0])
