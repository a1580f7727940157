"""A name that is too long for a file is one line, whichever flag or reader gets it."""

import dataclasses
import typing

import pytest

from hardem_jax.data.built import open_build
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.documents.prepared import PreparedSplit
from hardem_jax.encoders.pretrained import read_config
from hardem_jax.errors import InputError
from hardem_jax.retrieval.index import PassageIndex
from tests.commands import fails
from tests.robustness.flags import MODULES
from tests.robustness.targets import targets

LONG = "x" * 300
COMMANDS = [(module, name) for module in MODULES for name in module.COMMANDS]


@pytest.mark.parametrize(
    ("module", "name"), COMMANDS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_long_name_in_every_flag_is_one_line(module, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hints = typing.get_type_hints(module.COMMANDS[name])
    flags = []
    for field in dataclasses.fields(module.COMMANDS[name]):
        required = field.default is dataclasses.MISSING
        if "Path" in str(hints[field.name]) or required:
            flags += [f"--{field.name.replace('_', '-')}", LONG]
    assert "xxxx" in fails(module, capsys, name, *flags)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "read", [PreparedSplit, open_build, PassageIndex, read_config, load_tokenizer]
)
def test_a_long_name_is_one_line_for_every_folder(tmp_path, read):
    with pytest.raises(InputError) as refused:
        read(tmp_path / LONG)
    assert "xxxx" in str(refused.value)


@pytest.mark.parametrize("name", targets())
def test_a_long_name_is_one_line_for_every_reader(name, tmp_path):
    with pytest.raises(InputError) as refused:
        targets()[name].read(tmp_path / LONG)
    assert "xxxx" in str(refused.value)
