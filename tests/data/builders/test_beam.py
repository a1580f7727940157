"""Beam writes the files that a single process writes, with any number of workers."""

import errno
import os
import sys

import pytest

from hardem_jax.data.builders import shards
from hardem_jax.data.builders.base import quiet
from hardem_jax.data.builders.beam import beam_config, write_with_beam
from hardem_jax.data.built import open_build
from hardem_jax.documents.records import SpanSolver
from hardem_jax.errors import InputError
from tests.data.builders import inputs
from tests.data.builders.test_builders import built, contents

quiet()


@pytest.fixture(scope="module")
def beam():
    return pytest.importorskip("apache_beam", reason="the extra [beam] is not installed")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("beam")


def with_beam(name, root, out, *options):
    builder = inputs.make(name, root, out, shard_size=2)
    builder.download_and_prepare(download_config=beam_config(options))
    return open_build(builder.data_dir)


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


class FullDisk(shards.Shard):
    """Its worker finds no room for what it writes."""

    def records(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Defective(shards.Shard):
    def records(self):
        raise KeyError("question_numbers")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_a_full_disk_of_a_worker_is_one_line(beam, mode, tmp_path):
    options = beam_config([f"direct_running_mode={mode}"]).beam_options
    file, solver = tmp_path / "train-0", SpanSolver()
    with pytest.raises(InputError) as refused:
        write_with_beam([(FullDisk(tmp_path / "0.pickle", 1, solver), file)], options)
    assert str(refused.value) == f"{file}: cannot be written (No space left on device)"
    # A defect keeps its stack trace.
    with pytest.raises(Exception, match="question_numbers") as defect:
        write_with_beam([(Defective(tmp_path / "0.pickle", 1, solver), file)], options)
    assert not isinstance(defect.value, InputError)


@pytest.mark.filterwarnings("ignore")
def test_an_unknown_option_is_an_error(beam):
    with pytest.raises(InputError, match="expected an option of Apache Beam, found 'workers'"):
        beam_config(["workers=2"])


def test_without_beam_it_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    with pytest.raises(InputError, match=r"pip install '.\[beam\]'"):
        beam_config()
