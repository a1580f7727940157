"""What a table of one's own may be."""

import datetime

import pandas as pd
import pytest

from hardem_jax import TableReader
from hardem_jax.errors import InputError
from hardem_jax.tables.show import to_table

ROWS = [["who", "n"], ["Ada", 1], ["Bo", None]]
RECORDS = [{"who": "Ada", "n": 1}, {"who": "Bo", "n": None}]


@pytest.mark.parametrize(
    "value", [ROWS, RECORDS, pd.DataFrame(RECORDS), pd.DataFrame(RECORDS).convert_dtypes()]
)
def test_rows_records_and_frames_are_the_same_table(value):
    assert to_table(value) == to_table({"who": ["Ada", "Bo"], "n": ["1.0", ""]})


DAY = datetime.date(2026, 1, 2)
CELLS = {"n": [0.5, 1e-5, 1e16], "big": [7, 2**53 + 1, 3], "day": [DAY] * 3, "x": ["1", None, "b"]}


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame(CELLS).astype({"day": "datetime64[ns]"}).set_index("n"),
        [list(CELLS), *zip(*CELLS.values(), strict=True)],
    ],
)
def test_cells_are_those_that_find_queries_reads(value):
    """The Z that is looked at is the Z that is trained on."""
    read = to_table(value)
    assert read == to_table(CELLS)
    assert read.types == ("real", "real", "text", "text") and read.rows[0][2] == "2026-01-02"


def test_rows_may_lack_cells_and_names():
    read = to_table([["who", None], ["Ada"], ["Bo", 2]])
    assert read.header == ("who", "") and read.rows == (("Ada", None), ("Bo", 2))


def test_tables_of_one_name_are_all_kept(tmp_path):
    files = [tmp_path / name for name in ("scores.csv", "scores 2.csv", "b/scores.csv")]
    (tmp_path / "b").mkdir()
    for number, file in enumerate(files):
        file.write_text(f"n\n{number}\n")
    rows = [{"question": "n?", "answer": n, "table": file} for n, file in enumerate(files * 2)]
    lines = list(TableReader._lines(rows, "table"))
    tables = {x["table"]["id"]: x["table"]["rows"] for x in lines if "table" in x}
    assert sorted(tables.values()) == [((0.0,),), ((1.0,),), ((2.0,),)]
    asked = [line for line in lines if "table" not in line]
    assert [tables[line["table_id"]] for line in asked] == [((n,),) for n in (0.0, 1.0, 2.0) * 2]


@pytest.mark.parametrize("value", [None, float("nan"), 7, [], ["who", "Ada"]])
def test_what_is_no_table_is_refused(value):
    with pytest.raises(TypeError, match="table: expected a dict of columns, rows, a DataFrame"):
        to_table(value)


def test_a_row_with_more_cells_than_there_are_names_is_refused():
    with pytest.raises(InputError, match="expected at most 2 cells, found .*'Cy', 3, 4"):
        to_table([*ROWS, ["Cy", 3, 4]])
