"""Passage files of others: what is read, counted and refused."""

import csv
import gzip
import io

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.retrieval.files import read_passages
from tests.retrieval.corpora import HEADER


@pytest.fixture
def read(tmp_path):
    def run(text, name="a.tsv", **options):
        file = tmp_path / name
        data = text if isinstance(text, bytes) else text.encode()
        file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        skips = ExclusionCounts()
        found = list(read_passages(file, skips=skips, **options))
        return [(p.id, p.title, p.text) for p in found], skips

    return run


ROWS = [
    ("1", "Rome", 'A "quoted" text,\nover two lines\twith a tab.'),
    ("2", "Bonn", 'plain 5" pipe \u2028 no line end'),
    ("3", "", "'' no title"),
]


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.txt"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_reads_what_csv_writes(read, name, newline):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t", lineterminator=newline)
    writer.writerows([("id", "text", "title"), *((id, text, title) for id, title, text in ROWS)])
    found, skips = read(text.getvalue(), name)
    assert found == ROWS and skips.total == 0


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("header", ["title\tlang\tid\ttext", '"title"\t"lang"\t"id"\t"text"'])
def test_columns_are_found_by_name(read, header, mark):
    found, _ = read(f"{mark}{header}\nRome\tit\t1\told\n")
    assert found == [("1", "Rome", "old")]


def test_json_lines(read):
    lines = [
        '{"id": 1, "title": "Rome", "text": "old"}',
        "",
        '{"_id": "x", "contents": "both"}',
        '{"id": "y", "title": null, "text": null}',
        r'{"id": "z", "contents": "\"The \"Sun\"\"\nold \"and\"\nnew"}',
    ]
    found, skips = read("\n".join(lines), "a.jsonl.gz")
    assert found == [("1", "Rome", "old"), ("x", "", "both"), ("z", 'The "Sun"', 'old "and"\nnew')]
    assert skips.as_dict() == {"empty document": 1}
    records = ", ".join(filter(None, lines))
    for text, name in ((f"[{records}]", "a.json"), ("\n".join(lines), "a.json.gz")):
        assert read(text, name)[0] == found


def test_bad_rows_are_counted_and_named(read):
    rows = ["1\tfine\tA", "2\ttoo few", "3\tone\ttoo\tmany", "\tno id\tA", "4\t \tA", ""]
    rows += ["1\tagain\tA"]
    found, skips = read("\n".join([HEADER, *rows]))
    assert found == [("1", "A", "fine")]
    assert skips.as_dict() == {
        "row with another number of fields": 2,
        "no passage id": 1,
        "empty document": 1,
        "passage id occurs again": 1,
    }
    assert skips.ids("row with another number of fields") == ("line 3", "line 4")


@pytest.mark.parametrize("more", [3, 3000])
def test_a_quotation_mark_never_closed_costs_its_row_alone(read, more):
    rows = ['1\t"never closed\tA', '2\t"a"b\tA', *(f"r{i}\tsome text\tA" for i in range(more))]
    found, skips = read("\n".join([HEADER, *rows]))
    assert [id for id, _, _ in found] == [f"r{i}" for i in range(more)]
    assert skips.as_dict() == {"row with a quotation mark out of place or never closed": 2}
    assert skips.ids("row with a quotation mark out of place or never closed") == (
        "line 2",
        "line 3",
    )


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "a.tsv", "expected the columns id, text, title in the first line, .* none named id"),
        ("id\ttext\n", "a.tsv", "found none named title"),
        ('"id\ttext\ttitle\n1\told\tRome\n', "a.tsv", "found none named id"),
        (b"id\ttext\ttitle\n1\tcaf\xe9\tA", "a.tsv", "line 2: byte 19: expected UTF-8 text"),
        ('{"id": 1}', "a.jsonl", "line 1: expected 'text' or 'contents', found the keys 'id'"),
        ('{"id": 1, "text": 3}', "a.jsonl", "line 1: expected 'text' to be a string"),
        ('{"7": {"text": "old"}}', "a.json", "expected 'text' or 'contents', found the keys '7'"),
    ],
)
def test_a_file_of_another_layout_is_an_error(read, text, name, message):
    with pytest.raises(InputError, match=message):
        read(text, name)
