"""A sample of the fuzzing of `tests.robustness.fuzz`, the same every time."""

import pytest

from hardem_jax.errors import InputError
from tests.robustness.fuzz import COMMAND_LINES, Fuzzer

EACH = 60


@pytest.fixture(scope="module")
def fuzzer():
    with Fuzzer(seed=1) as fuzzer:
        yield fuzzer


def test_the_files_are_read_as_they_are(fuzzer):
    refused = {}
    for name in fuzzer.names:
        if name != COMMAND_LINES:
            try:
                fuzzer.read_whole(name)
            except InputError as error:
                refused[name] = str(error)
    assert refused == {}


def test_damaged_input_is_read_or_refused_in_one_line(fuzzer):
    results = [fuzzer.try_input(name, i) for name in fuzzer.names for i in range(EACH)]
    assert [finding for _, finding in results if finding is not None] == []
    read = sum(was_read for was_read, _ in results)
    assert len(results) / 5 < read < len(results) * 4 / 5


def test_an_input_is_a_function_of_its_number(fuzzer):
    again = [fuzzer.try_input("drop", i) for i in range(EACH)]
    with Fuzzer(seed=1) as other:
        assert [other.try_input("drop", i) for i in range(EACH)] == again
