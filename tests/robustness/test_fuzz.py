"""Damaged files of every layout are read or refused in one line."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardem_jax.errors import MAX_MESSAGE, InputError, printable
from tests.robustness.targets import targets, write_files

TARGETS = targets()
TEXTS = ("", " ", "\x00", "\x1b[2J\u202e\u200b", "\ud800", "x" * 3000, "../../x", "e\u0301", "nan")
VALUES = (None, True, -1, 0, 10**30, 2**63, 1.5, -0.0, float("nan"), float("inf"), [], {}, [[]])
INSERTS = (b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n", b'"', b"\\", b"\x1b[31m", b",",
           b"\t", b";", b"{}", b"NaN", b"1e999", b"-Infinity", b"\\udc00", b"9" * 400, b"[" * 50,
           b"y" * 200_000, b"[" * 100_000, b'{"a":' * 20_000, b"\n" * 5_000)  # fmt: skip


def places(value):
    """Container and key of every value in a JSON value."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


@st.composite
def damaged(draw, content):
    """The file with another JSON value in a line, or none, or with other bytes somewhere."""
    lines = content.split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    try:
        value = json.loads(lines[number])
    except ValueError:
        value = None
    if (found := [*places(value)]) and draw(st.booleans()):
        container, key = draw(st.sampled_from(found))
        if draw(st.integers(0, 3)):
            container[key] = draw(st.sampled_from((*TEXTS, *VALUES)))
        else:
            del container[key]
        return b"\n".join([*lines[:number], json.dumps(value).encode(), *lines[number + 1 :]])
    start = draw(st.integers(0, len(content)))
    end = start + draw(st.sampled_from((0, 1, 5, len(content))))
    return content[:start] + draw(st.sampled_from(INSERTS)) + content[end:]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Name of a reader -> folder with its files."""
    made = {name: tmp_path_factory.mktemp("files") for name in TARGETS}
    for name, folder in made.items():
        write_files(folder, TARGETS[name].files)
    return made


@pytest.mark.parametrize("name", TARGETS)
def test_the_files_are_read_as_they_are(folders, name):
    TARGETS[name].read(folders[name])


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data())
def test_damaged_input_is_read_or_refused_in_one_line(folders, name, data):
    folder: Path = folders[name]
    file = data.draw(st.sampled_from([*TARGETS[name].files]))
    content = TARGETS[name].files[file]
    (folder / file).write_bytes(data.draw(damaged(content)))
    try:
        TARGETS[name].read(folder)
    except InputError as error:
        message = str(error)
        assert message and len(message) <= MAX_MESSAGE and printable(message) == message
    finally:
        (folder / file).write_bytes(content)
