"""What every reader shares: byte order marks, depth and broken escapes."""

import json

import pytest

from hardem_jax.data import json_stream
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.json_stream import (
    iter_json_entries,
    iter_json_items,
    iter_json_lines,
    read_json_object,
)
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.dpr import read_contexts

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


def test_absurd_nesting_is_refused_and_needs_no_memory(name, tmp_path):
    file = tmp_path / "deep"
    lists = "[" * 100_000 + "]" * 100_000
    content = {
        "items": f'{{"Data": [{{"a": {lists}}}]}}',
        "entries": f'{{"a": {{"b": {lists}}}}}',
        "contexts": f'[{{"question": {lists}}}]',
    }.get(name, f'{{"a": {lists}}}')
    file.write_text(content)
    with pytest.raises(InputError, match="deep: .*(nested more than 200 deep|cannot be parsed)"):
        READERS[name](file)


def read(folder, text):
    file = folder / "a.json"
    file.write_text(text)
    return list(iter_json_entries(file))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_only_python_calls_a_number_is_refused_in_both_layouts(number, tmp_path):
    file = tmp_path / "a.json"
    passage = f'{{"text": "Ada did.", "score": {number}}}'
    record = f'{{"question": "who", "answers": ["Ada"], "ctxs": [{passage}]}}'
    file.write_text(f"[{record}]")
    with pytest.raises(InputError, match="a.json: after 0 items: expected JSON, found broken"):
        READERS["contexts"](file)
    file.write_text(record)
    with pytest.raises(InputError, match=f"a.json: line 1: .* {number} is not a JSON number"):
        READERS["contexts"](file)
    file.write_text(f'{{"a": {number}}}')  # which files that this package writes may hold
    for name in ("object", "lines"):
        assert repr(float(number)) in repr(READERS[name](file))


def test_escapes_do_not_read_the_whole_file_at_once(monkeypatch, tmp_path):
    sizes, read_some = [], json_stream._Checked.read
    monkeypatch.setattr(
        json_stream._Checked, "read", lambda *x: sizes.append(len(y := read_some(*x))) or y
    )
    assert read(tmp_path, json.dumps({"a": {"b": "東" * 99_999}})) == [("a", {"b": "東" * 99_999})]
    assert max(sizes) < 5_000


@pytest.mark.parametrize("before", [0, 4070, 4080, 4085, 4096])
@pytest.mark.parametrize(
    ("escapes", "whole"),
    [
        ("\\ud83d\\ude00", True), ("\\uD83D\\uDE00\\ud83d\\ude00", True),
        ("\\\\ud83d", True),  # a backslash and five letters
        ("\\\\\\ud83d", False), ("\\ud83d", False),
        ("\\ud83d\\u0041", False),  # which the parser makes another character of
        ("\\ud83d\\\\ude00", False), ("a\\ud800b", False), ("\\ud83d\\ude00\\ud83d", False),
    ],
)  # fmt: skip
def test_the_first_half_of_a_surrogate_pair_needs_the_second(escapes, whole, before, tmp_path):
    """Wherever the pair is cut in two: the file is read in pieces of 4,096 bytes."""
    text = f'{{"a": {{"b": "{"x" * before}{escapes}"}}}}'
    if whole:
        assert read(tmp_path, text) == list(json.loads(text).items())
    else:
        with pytest.raises(InputError, match="after 0 entries: .*half a surrogate pair"):
            read(tmp_path, text)
