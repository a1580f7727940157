"""What every reader shares: byte order marks, depth and broken escapes."""

import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_stream import (
    MAX_DEPTH,
    JsonStream,
    iter_json_entries,
    iter_json_items,
    iter_json_lines,
    read_json_object,
    read_text,
)
from hardem_jax.data.readers.csv_tables import read_csv_table
from hardem_jax.data.readers.dpr import read_contexts
from hardem_jax.errors import InputError

READERS = {
    "items": lambda file: list(iter_json_items(file, "Data")),
    "entries": lambda file: list(iter_json_entries(file)),
    "lines": lambda file: list(iter_json_lines(file)),
    "object": read_json_object,
    "contexts": lambda file: list(read_contexts(file, skips=ExclusionCounts())),
}
GOOD = {
    "items": {"Data": [{"a": 1}]},
    "entries": {"a": {"b": 1}},
    "lines": {"a": 1},
    "object": {"a": 1},
    "contexts": [{"question": "who", "answers": ["Ada"], "ctxs": [{"text": "Ada did."}]}],
}


@pytest.fixture(params=sorted(READERS))
def name(request):
    return request.param


def test_a_byte_order_mark_at_the_start_is_passed_over(name, tmp_path):
    plain, marked = tmp_path / "file", tmp_path / "marked" / "file"
    marked.parent.mkdir()
    plain.write_text(json.dumps(GOOD[name]), encoding="utf-8")
    marked.write_text(json.dumps(GOOD[name]), encoding="utf-8-sig")
    assert READERS[name](marked) == READERS[name](plain)
    marked.write_text("\ufeff" + json.dumps(GOOD[name]), encoding="utf-8-sig")
    with pytest.raises(InputError, match="file: "):
        READERS[name](marked)


def test_so_it_is_in_plain_text_and_tables(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("City,Size\nBonn,3\n", encoding="utf-8-sig")
    assert read_text(file).startswith("City")
    assert read_csv_table(file).header == ("City", "Size")


def test_absurd_nesting_is_refused_and_needs_no_memory(name, tmp_path):
    file = tmp_path / "deep"
    lists = "[" * 100_000 + "]" * 100_000
    content = {
        "items": f'{{"Data": [{{"a": {lists}}}]}}',
        "entries": f'{{"a": {{"b": {lists}}}}}',
        "contexts": f'[{{"question": {lists}}}]',
    }.get(name, f'{{"a": {lists}}}')
    file.write_text(content)
    with pytest.raises(InputError, match="deep: .*(nested at most 200 deep|cannot be parsed)"):
        READERS[name](file)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 16])
def test_depth_is_counted_outside_strings_only(size):
    text = json.dumps([{"a": "[[{{" * 300, 'b"\\"[': ["\\\\", "\\", '\\"[{'] * 100}] * 3)
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    for good in (text, deep, f"[{text}, {deep[1:-1]}]"):
        assert read_all(good, size) == good.encode()
    with pytest.raises(InputError, match="nested"):
        read_all(f"[{text}, {deep}]", size)


def read_all(text, size):
    stream = JsonStream(Chunks(text.encode(), size), "a")
    return b"".join(iter(lambda: stream.read(size), b""))


class Chunks:
    def __init__(self, data, size):
        self._data, self._size = data, size

    def read(self, size=-1):
        chunk, self._data = self._data[: self._size], self._data[self._size :]
        return chunk


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_only_python_calls_a_number_is_refused_in_both_layouts(number, tmp_path):
    file = tmp_path / "a.json"
    passage = f'{{"text": "Ada did.", "score": {number}}}'
    record = f'{{"question": "who", "answers": ["Ada"], "ctxs": [{passage}]}}'
    file.write_text(f"[{record}]")
    with pytest.raises(InputError, match="a.json: after 0 items, .*: expected JSON, found broken"):
        READERS["contexts"](file)
    file.write_text(record)
    with pytest.raises(InputError, match=f"a.json: line 1: .* {number} is not a JSON number"):
        READERS["contexts"](file)
    file.write_text(f'{{"a": {number}}}')  # which files that this package writes may hold
    for name in ("object", "lines"):
        assert repr(float(number)) in repr(READERS[name](file))


def test_half_a_surrogate_pair_is_named(tmp_path):
    file = tmp_path / "a.json"
    record = '[{"question": "who", "answers": ["a"], "ctxs": [{"text": "\\udc00"}]}]'
    file.write_text(record)
    with pytest.raises(InputError, match="a.json: after 0 items.* half a surrogate pair"):
        READERS["contexts"](file)
    file.write_text('{"Data": [{"a": "\\udc00"}]}')
    with pytest.raises(InputError, match="a.json: after 0 items of 'Data'.* half a surrogate pair"):
        READERS["items"](file)


def test_a_field_of_a_table_may_be_long(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(f"City;Text\nBonn;{'x' * 200_000}\n")
    assert len(read_csv_table(file).rows[0][1]) == 200_000


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 13, 1 << 16])
@pytest.mark.parametrize(
    ("escapes", "whole"),
    [
        ("\\ud83d\\ude00", True),
        ("\\uD83D\\uDE00\\ud83d\\ude00", True),
        ("\\\\ud83d", True),  # a backslash and five letters
        ("\\\\\\ud83d", False),
        ("\\ud83d", False),
        ("\\ud83d\\u0041", False),  # which the parser makes another character of
        ("\\ud83d\\\\ude00", False),
        ("a\\ud800b", False),
        ("\\ud83d\\ude00\\ud83d", False),
    ],
)
def test_the_first_half_of_a_surrogate_pair_needs_the_second(escapes, whole, size):
    text = f'["{escapes}"]'
    if whole:
        assert read_all(text, size) == text.encode()
    else:
        with pytest.raises(InputError, match="a: before byte .*: expected JSON, found half a"):
            read_all(text, size)


@pytest.mark.parametrize("reader", ["items", "entries", "contexts"])
def test_a_number_of_many_digits_is_refused(reader, tmp_path):
    """The parser ends the process on more than 4,300 where it makes integers of them."""
    file = tmp_path / "a.json"
    number = "1" * 5000
    file.write_text(f"[{number}]" if reader == "contexts" else f'{{"a": {number}}}')
    with pytest.raises(InputError, match="a.json"):
        READERS[reader](file)
