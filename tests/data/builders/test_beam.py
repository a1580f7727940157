"""Beam writes the files that a single process writes, with any number of workers."""

import contextlib
import errno
import os
import sys
import traceback
import types
from typing import Any

import pytest

from hardem_jax.data import builders
from hardem_jax.data.builders import shards
from hardem_jax.data.builders.beam import beam_config, write_with_beam
from hardem_jax.documents.records import SpanSolver
from hardem_jax.equations.builds import DropNum
from hardem_jax.errors import InputError
from tests.data.builders import inputs
from tests.data.builders.test_builders import built, contents

builders.quiet()


@pytest.fixture(scope="module")
def beam():
    return pytest.importorskip("apache_beam", reason="the extra [beam] is not installed")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("beam")


def with_beam(name, root, out, *options):
    builder = inputs.make(name, root, out, shard_size=2)
    builder.download_and_prepare(download_config=beam_config(options))
    return builders.open_build(builder.data_dir)


# Warnings of Beam and its dependencies are not ours to mend.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "workers"), [("drop", 1), ("drop", 2), ("wtq", 2)])
def test_workers_write_the_files_of_a_single_process(beam, name, workers, root, tmp_path):
    here = built(name, root, tmp_path / "here", shard_size=2)
    there = with_beam(name, root, tmp_path / "there", f"direct_num_workers={workers}")
    assert len(here.examples("train")) > 4
    assert contents(there.folder) == contents(here.folder)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", inputs.NAMES)
def test_beam_in_this_process_writes_them_too(beam, name, root, tmp_path):
    here = built(name, root, tmp_path / "here", shard_size=2)
    there = with_beam(name, root, tmp_path / "there", "direct_running_mode=in_memory")
    assert contents(there.folder) == contents(here.folder)


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_fails_leaves_nothing(beam, root, tmp_path):
    broken: Any = None
    builder = inputs.make("drop", root, tmp_path, data_set=DropNum(rules=broken))
    config = beam_config(["direct_running_mode=in_memory"])
    with pytest.raises(Exception, match="question_numbers"):
        builder.download_and_prepare(download_config=config)
    with pytest.raises(InputError, match="found 0"):
        builders.open_build(tmp_path)


class FullDisk(shards.Shard):
    """Its worker finds no room for what it writes."""

    def records(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Defective(shards.Shard):
    def records(self):
        raise KeyError("question_numbers")


def in_this_process(error):
    """Beam's exception for one in a step: of the same type, with the step in its message."""
    return type(error)(f"{error.args[0]} [while running 'write']")


def in_another_process(error):
    """Beam's exception for one in a worker, of which it has the text."""
    text = "".join(traceback.format_exception(in_this_process(error)))
    return RuntimeError(f"Error processing instruction 3. Original traceback is\n{text}\n")


class StandIn(types.ModuleType):
    """As much of Beam as a pipeline of one step needs; ``wrap`` makes its exceptions."""

    def __init__(self, wrap):
        super().__init__("apache_beam")
        self.Create = list

        class Map:
            def __init__(self, function):
                self.function = function

            def __rrshift__(self, name):
                return self

        class Pipeline(contextlib.nullcontext):
            def __init__(self, runner, options):
                super().__init__(self)

            def __or__(self, step):
                if isinstance(step, list):
                    self.items = step
                    return self
                try:
                    return [step.function(item) for item in self.items]
                except Exception as error:
                    raise wrap(error) from None

        self.Map, self.Pipeline = Map, Pipeline


@pytest.mark.parametrize("wrap", [in_this_process, in_another_process])
def test_a_full_disk_of_a_worker_is_one_line(monkeypatch, tmp_path, wrap):
    monkeypatch.setitem(sys.modules, "apache_beam", StandIn(wrap))
    solver = SpanSolver()
    file = tmp_path / "train-0"
    with pytest.raises(InputError) as refused:
        write_with_beam([(FullDisk(tmp_path / "0.pickle", 1, solver), file)], None)
    assert str(refused.value) == f"{file}: cannot be written (No space left on device)"
    # A defect keeps its stack trace.
    with pytest.raises((KeyError, RuntimeError), match="question_numbers"):
        write_with_beam([(Defective(tmp_path / "0.pickle", 1, solver), file)], None)


@pytest.mark.filterwarnings("ignore")
def test_an_unknown_option_is_an_error(beam):
    with pytest.raises(InputError, match="expected an option of Apache Beam, found 'workers'"):
        beam_config(["workers=2"])


def test_without_beam_it_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    with pytest.raises(InputError, match=r"pip install '.\[beam\]'"):
        beam_config()
