"""Columns of numbers, and CSV files as people have them."""

import gzip

import pytest

from hardem_jax.errors import InputError
from hardem_jax.tables.csv import make_table, read_csv_table


def column(*cells, **options):
    """Type and cells of a column of these texts."""
    table = make_table("t", ["x"], [[cell] for cell in cells], **options)
    return table.types[0], [row[0] for row in table.rows]


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (("3", "12,467", "-0.5", ".5"), [3, 12467, -0.5, 0.5]),
        (("1,00,000", "12,34,567"), [100000, 1234567]),
        (("+5", "−3", "–2", "- 1", "1e-05", "NaN", "null"), [5, -3, -2, -1, 1e-5, None, None]),
        (("−3 °C", "+4 °C", "-5 °C"), [-3, 4, -5]),
        (("7,144[2]", "8 [note 1]", "12*", "3†‡#"), [7144, 8, 12, 3]),
        (("72 km", "1,000 KM", ".5 km"), [72, 1000, 0.5]),
        (("72 km", "", "—", "n/a"), [72, None, None, None]),
        (("5 %", "6.5 %"), [5, 6.5]),
        (("1", *("", "-", "–", "—", "--", "?", "...", "N/A", "None", "TBA")), [1] + [None] * 10),
        (("1.5", "#N/A", "#DIV/0!", "#VALUE!"), [1.5, None, None, None]),
        ((" 3 ", "\t4\n"), [3, 4]),
        (("07", "0", "0.25", "00"), [7, 0, 0.25, 0]),
        ((str(2**53),), [2**53]),
    ],
)
def test_columns_of_numbers(cells, numbers):
    kind, found = column(*cells)
    assert (kind, found) == ("real", numbers)
    assert all(type(cell) is float for cell in found if cell is not None)


TEXTS = ["3 | three", "1st | 2nd", "5% | 6%", "$5 | $6", "72 km | 72 m", "72 km | 72", "2-1 | 3-0"]
TEXTS += ["7 November | 8 November", "July 9 | July 10", "2:47 | 3:01", "1997/98 | 1998/99", "-3 -"]
TEXTS += ["1,2 | 3,45", "1.234,56 | 7", "1234,567 | 7", "5. | 6.", " | ", "- | n/a", "1e5 | 2"]
TEXTS += ["nan | inf", "9" * 400 + " | 1", "٣ | 1", "3 km away | 4 km away", f"{2**53 + 1}.5 | 1"]
TEXTS += [f"{2**63} | 1", f"00{2**53 + 1} | 1"]  # account numbers, of which no digit may be lost
TEXTS += ["02139 | 10001", "7 | 007 | ", "1\u00a0200 | 12 345", "9" * 5000 + " | 1"]


@pytest.mark.parametrize("cells", [*(text.split(" | ") for text in TEXTS), []])
def test_columns_of_text(cells):
    kind, found = column(*cells)
    assert kind == "text"
    assert found == [" ".join(cell.split()) for cell in cells]


def test_whole_numbers_that_float64_rounds_are_integers():
    kind, found = column("9,007,199,254,740,993", f"−{2**63 - 1}", "7", "")
    assert (kind, found) == ("real", [2**53 + 1, 1 - 2**63, 7.0, None])
    assert [type(cell) for cell in found[:3]] == [int, int, float]
    assert column("9007199254740993 km", "7 km") == ("real", [2**53 + 1, 7.0])
    assert column("-9223372036854775808") == ("real", [-(2**63)])
    assert [str(cell) for cell in column("-0", "−0.0", "1")[1]] == ["0.0", "0.0", "1.0"]
    assert column("São  Paulo", "ROME")[1] == ["São Paulo", "ROME"]
    assert column("São Paulo", "ROME", official=True)[1] == ["são paulo", "rome"]
    assert column("007", "7", official=True) == ("real", [7.0, 7.0])


def test_ragged_rows_are_filled_up():
    table = make_table("t", ["A "], [["x", "1"], [], ["y"], ["z", "2", ""]])
    assert table.header == ("A", "", "")
    assert table.types == ("text", "real", "text")
    assert table.rows == (("x", 1.0, ""), ("", None, ""), ("y", None, ""), ("z", 2.0, ""))


@pytest.fixture
def read(tmp_path):
    def run(content):
        """Also compressed."""
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "cars.csv.gz").write_bytes(gzip.compress(content))
        (tmp_path / "cars.csv").write_bytes(content)
        table = read_csv_table(tmp_path / "cars.csv")
        assert read_csv_table(tmp_path / "cars.csv.gz", id=table.id) == table
        return table

    return run


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found(read, delimiter):
    rows = [["Model", "HP", "Note, or; none"], ["Beetle", "50", ""], ["Golf", "75", "x|y\tz"]]
    table = read("\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows))
    assert table.header == ("Model", "HP", "Note, or; none")
    assert table.types == ("text", "real", "text")
    assert [row[1] for row in table.rows] == [50, 75]


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        ("a,b\r\n1,x\r\n", ("a", "b"), ((1.0, "x"),)),
        ("a,b\r1,x\r", ("a", "b"), ((1.0, "x"),)),
        ("a,b\n\n1,x\n\n", ("a", "b"), ((1.0, "x"),)),
        ("\ufeffa,b\n1,x", ("a", "b"), ((1.0, "x"),)),
        ('a,b\n1,"say ""hi"", ok"\n', ("a", "b"), ((1.0, 'say "hi", ok'),)),
        ('a,b\n1,"two\nlines"\n', ("a", "b"), ((1.0, "two lines"),)),
        ("a,b,c\n1,x\n\n2\n", ("a", "b", "c"), ((1.0, "x", ""), (2.0, "", ""))),
        ("a,b\n1,x,, \n2,y,\n", ("a", "b"), ((1.0, "x"), (2.0, "y"))),
        ("City\nRome\n", ("City",), (("Rome",),)),
        ('City\nRome\n""\n', ("City",), (("Rome",), ("",))),
        ("a,b\n,\n1,x\n, \n  \n,,\n", ("a", "b"), ((1.0, "x"),)),
        ("a;b\n1,5;x\n2,5;y\n", ("a", "b"), (("1,5", "x"), ("2,5", "y"))),
        ("a,a,\n1,2,3\n", ("a", "a", ""), ((1.0, 2.0, 3.0),)),
        ('a,b\n\'; DROP TABLE t; --,"""x"""\n', ("a", "b"), (("'; DROP TABLE t; --", '"x"'),)),
        ("a,b\n", ("a", "b"), ()),
        ("a;b, c\n2019;3,5\n", ("a", "b, c"), ((2019.0, "3,5"),)),  # as many commas
        ("sep=\n1\n", ("sep=",), ((1.0,),)),
        ("sep=;x\n1;2\n", ("sep=", "x"), ((1.0, 2.0),)),
    ],
)
def test_files_of_many_kinds(read, text, header, rows):
    table = read(text)
    assert (table.header, table.rows) == (header, rows)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('Title,Year\n"\\"Weird Al\\" Yankovic",1983\n', (('"Weird Al" Yankovic', 1983.0),)),
        ('a;b\n"6\\"; new";"\\\\0"\n7;x\n', (('6"; new', "\\0"), ("7", "x"))),
        ('a,b\n"6\\"",c:\\x\n', (('6"', "c:\\x"),)),
        ('a,b\n"C:\\",5\n"D:\\",6\n', (("C:\\", 5.0), ("D:\\", 6.0))),
        ('a,b\nC:\\x,"say ""hi"", \\o/"\n', (("C:\\x", 'say "hi", \\o/'),)),
        ('a,b\n"\\\\nas\\x",1\n', (("\\\\nas\\x", 1.0),)),
        ('a\tb, c\n"Weird\t4\nx, y\t5\n', (('"Weird', 4.0), ("x, y", 5.0))),
        ('a\tb\n5" disk, red\t4\n', (('5" disk, red', 4.0),)),
        ('a\tb\n"x, ""y"""\t4\n', (('x, "y"', 4.0),)),
    ],
)
def test_quotation_marks_are_read_by_what_the_file_holds(read, text, rows):
    assert read(text).rows == rows


@pytest.mark.parametrize(("delimiter", "newline"), [(";", "\n"), ("\t", "\r\n"), ("~", "\r")])
def test_excel_may_name_the_delimiter_in_a_line_of_its_own(read, delimiter, newline):
    text = newline.join([f"sep={delimiter}", f"a{delimiter}b,c", f"1{delimiter}2,3", ""])
    assert read(text).header == ("a", "b,c") and read(text).rows == ((1.0, "2,3"),)
    if delimiter == "\t":
        assert read(text.replace("1", '"1')).rows == (('"1', "2,3"),)
    else:
        with pytest.raises(InputError, match="cars.csv: line 3: expected comma-separated values"):
            read(text.replace("1", '"1'))
    with pytest.raises(InputError, match="found an empty file"):
        read(f"sep={delimiter}{newline}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cars.csv: expected a line with the names of columns, found an empty file"),
        (b"\n\n", "found an empty file"),
        (b"a,b\ncaf\xe9,1\n", "byte 7: expected UTF-8 text, found 0xe9; save it as UTF-8"),
        (b"\xff\xfea\x00", "cars.csv: byte 0: expected UTF-8 text, found 0xff"),
        (b'a,b\n1,2\n"x,3\n', "line 3: expected comma-separated values, found unexpected end"),
        (b'a,b\n"x"y,3\n', "cars.csv: line 2: expected comma-separated values, found "),
        (b'a,b\n"x"y,"\\"3"\n', "cars.csv: line 2: expected comma-separated values, found "),
        (b'a;b\n1;"x\n2;y\n', "cars.csv: line 3: expected comma-separated values, found "),
        (b"one column\nRome\nOslo, Bergen\n", "line 3: expected at most 1 cells, .* found 2"),
        (b'City,People\n"Rome\n(old)",2\nOslo,3,000,000\n', "line 4: expected at most 2 .*found 4"),
    ],
)
def test_broken_files_are_one_line(read, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read(content)
    assert "\n" not in str(caught.value)
