"""What a table of one's own may be."""

import pandas as pd
import pytest

from hardem_jax.errors import InputError
from hardem_jax.tables.reader import as_table

ROWS = [["who", "n"], ["Ada", 1], ["Bo", None]]
RECORDS = [{"who": "Ada", "n": 1}, {"who": "Bo", "n": None}]


@pytest.mark.parametrize(
    "value", [ROWS, RECORDS, pd.DataFrame(RECORDS), pd.DataFrame(RECORDS).convert_dtypes()]
)
def test_rows_records_and_frames_are_the_same_table(value):
    assert as_table(value) == as_table([["who", "n"], ["Ada", 1.0], ["Bo", ""]])


@pytest.mark.parametrize("value", [None, float("nan"), 7, [], {"who": ["Ada"]}, ["who", "Ada"]])
def test_what_is_no_table_is_refused(value):
    with pytest.raises(InputError, match="table: expected the path of a CSV file, a DataFrame"):
        as_table(value)


def test_a_row_with_more_cells_than_there_are_names_is_refused():
    with pytest.raises(InputError, match="expected at most 2 cells, found .*'Cy', '3', '4'"):
        as_table([*ROWS, ["Cy", 3, 4]])
