"""Tables of a notebook become those of a CSV file with the same cells."""

import datetime
import decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hardem_jax import find_queries
from hardem_jax.errors import InputError
from hardem_jax.tables.csv import read_csv_table
from hardem_jax.tables.show import to_table
from hardem_jax.tables.table import Table

COLUMNS = {
    "City": ["Oslo", "Bergen", "Bonn; am Rhein"],
    "People": ["709,037", "n/a", "327,258"],
    "Rank": ["1st", "2nd", ""],
    "Year": [1048, 1070, 11],
}


def test_columns_rows_a_frame_and_a_file_give_one_table(tmp_path):
    lines = [COLUMNS, *zip(*COLUMNS.values(), strict=True)]
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    (tmp_path / "cities.csv").write_text(text)
    file = read_csv_table(tmp_path / "cities.csv")
    assert file.types == ("text", "real", "text", "real")
    frame = pd.DataFrame(COLUMNS)
    sources = [COLUMNS, frame, tmp_path / "cities.csv", map(list, lines), frame.to_dict("records")]
    polars = SimpleNamespace(get_columns=lambda: [frame[name] for name in frame])
    for source in (*sources, polars):
        table = to_table(source)
        assert (table.header, table.types, table.rows) == (file.header, file.types, file.rows)
    assert to_table(file) is file


def test_rows_may_lack_cells_and_names_and_have_none_beyond():
    table = to_table([["who", None], ["Ada"], ["Bo", 2]])
    assert table.header == ("who", "") and table.rows == (("Ada", None), ("Bo", 2))
    assert to_table([{"a": 1}, {"b": "x"}]).header == ("a", "b")
    with pytest.raises(InputError, match="expected at most 1 cells, found .*'Bo', 2"):
        to_table([["who"], ["Bo", 2]])


@pytest.mark.parametrize("source", [None, float("nan"), 7, [], ["who", "Ada"]])
def test_what_is_no_table_is_refused(source):
    with pytest.raises(TypeError, match="table: expected a dict of columns, rows, a DataFrame"):
        to_table(source)


def test_numbers_keep_their_type_and_missing_ones_are_null():
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "broken": [0.5, None, np.nan],
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "mixed": [1, "two", None],
            "none": [None, None, None],
            "yes": [True, False, True],
        }
    )
    table = to_table(frame)
    assert table.types == ("real", "real", "real", "text", "text", "text")
    assert table.rows == (
        (1, 0.5, 1, "1", "", "True"),
        (2, None, None, "two", "", "False"),
        (3, None, 3, "", "", "True"),
    )
    again = to_table({name: list(frame[name]) for name in ("whole", "broken", "yes")})
    assert again.rows == tuple((row[0], row[1], row[5]) for row in table.rows)
    assert type(again.rows[0][0]) is int


def test_dates_are_written_as_in_a_file():
    days = [datetime.date(2010, 7, 6), datetime.date(2011, 1, 2)]
    frame = pd.DataFrame({"day": pd.to_datetime(days)})
    expected = (("2010-07-06",), ("2011-01-02",))
    assert to_table(frame).rows == to_table({"day": days}).rows == expected
    # Years beyond those of Python are texts.
    assert to_table({"day": [np.datetime64("20100-07-06")]}).rows == (("20100-07-06",),)
    moment = datetime.datetime(2010, 7, 6, 12, 30)
    assert to_table({"at": [moment]}).rows == (("2010-07-06 12:30:00",),)


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_days_of_numpy_are_days_whatever_their_unit(unit):
    days = np.array(["2010-07-06", "NaT", "2011-01-02"], f"datetime64[{unit}]")
    expected = (("2010-07-06",), ("",), ("2011-01-02",))
    assert to_table({"day": days}).rows == to_table({"day": pd.Series(days)}).rows == expected
    assert to_table({"day": list(pd.Series(days))}).rows == expected
    moments = np.array(["2010-07-06T12:30"], "datetime64[s]").astype(f"datetime64[{unit}]")
    if unit != "D":
        assert to_table({"at": moments}).rows == (("2010-07-06 12:30:00",),)


@pytest.mark.parametrize(
    "value",
    [np.timedelta64(5, "ns"), np.timedelta64(5, "s"), datetime.timedelta(5), pd.Timedelta(5)],
)
def test_durations_are_refused(value):
    with pytest.raises(TypeError, match="column 'lap': expected strings, numbers or None.*found"):
        to_table({"lap": [value]})


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "ns")])
def test_what_is_missing_is_null(missing):
    assert to_table({"n": [1, missing]}).rows == ((1,), (None,))


def test_whole_numbers_keep_all_digits(tmp_path):
    numbers = [1234567890123456789, 1234567890123456790, 7]
    file = tmp_path / "ids.csv"
    file.write_text("id\n" + "".join(f"{number}\n" for number in numbers))
    for values in (numbers, np.array(numbers), pd.Series(numbers), map(decimal.Decimal, numbers)):
        table = to_table({"id": list(values)})
        assert table.types == ("real",) and table.rows == tuple((n,) for n in numbers)
    assert read_csv_table(file).rows == table.rows
    longer = [2**70, 2, -(2**60)]
    table = to_table({"id": longer})
    assert table.types == ("text",) and table.rows == tuple((str(n),) for n in longer)


def test_decimals_are_numbers():
    prices = [decimal.Decimal(text) for text in ("1.10", "2E2", "NaN", "-Infinity")]
    table = to_table({"price": prices})
    assert table.types == ("real",) and table.rows == ((1.1,), (200,), (None,), (-np.inf,))
    assert Table("t", ("price",), ("real",), ((prices[0],), (prices[1],))).rows == ((1.1,), (200,))
    z = find_queries({"what": ["tea", "milk"], "price": prices[:2]}, "How much is tea?", prices[0])
    assert "SELECT price WHERE what = 'tea'" in [query.text for query in z]


def test_a_named_index_is_a_column_and_names_may_repeat():
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"], index=pd.Index(["x", "y"], name="k"))
    table = to_table(frame)
    assert table.header == ("k", "a", "a") and table.rows == (("x", 1, 2), ("y", 3, 4))
    assert to_table(pd.DataFrame({7: [1]})).header == ("7",)
    assert to_table(pd.DataFrame({"a": []})).rows == ()
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).set_index("a", drop=False)
    assert to_table(frame).header == ("a", "a", "b")
