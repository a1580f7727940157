"""Shards written by Apache Beam (``pip install '.[beam]'``), on one machine or on many.

`write_shard` is a pure function of its shard, so the files are those of a build in a single
process. (TFDS's own pipeline makes a step of every shard, and Beam's local runner does one step
after the other.) Options, after ``--beam``, are Beam's own without the dashes:

========  ==================================================================================
local     ``direct_num_workers=8`` (0, the default: one for each core)
Dataflow  ``runner=DataflowRunner project=P region=R temp_location=gs://B/tmp``
          ``staging_location=gs://B/staging sdk_container_image=IMAGE max_num_workers=64``
Flink     ``runner=FlinkRunner flink_master=HOST:8081 environment_type=DOCKER``
          ``environment_config=IMAGE parallelism=64``
Spark     ``runner=SparkRunner spark_master_url=spark://HOST:7077 environment_type=DOCKER``
          ``environment_config=IMAGE``; or, with a job server,
          ``runner=PortableRunner job_endpoint=HOST:8099``
========  ==================================================================================

IMAGE is a container with this package. Every worker must see the folder of the build under the same
path (a network file system, or a bucket mounted with gcsfuse).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from hardem_jax.data.builders.shards import Shard, write_shard
from hardem_jax.errors import InputError

#: An `InputError`, which is one line, in what Beam says of a worker that failed.
_INPUT_ERROR = re.compile(rf"{InputError.__name__}: (.*?)(?: \[while running .*)?$", re.MULTILINE)


def beam_config(options: Sequence[str] = ()) -> tfds.download.DownloadConfig:
    """Makes ``builder.download_and_prepare(download_config=...)`` use Beam, given ``name=value``
    options."""
    try:
        from apache_beam.options.pipeline_options import PipelineOptions  # pyright: ignore
    except ImportError as error:
        raise InputError(
            "Apache Beam: expected the package apache-beam (pip install '.[beam]' in a checkout), "
            "found none"
        ) from error
    flags = pipeline_flags(options)
    parsed = PipelineOptions(flags)
    known = parsed.get_all_options()
    names = [flag.removeprefix("--").partition("=")[0] for flag in flags]
    for name in names:
        # A job server has options of its own, which only it can check.
        if "job_endpoint" not in names and name.removeprefix("no_") not in known:
            raise InputError(f"--beam: expected an option of Apache Beam, found {name!r}")
    return tfds.download.DownloadConfig(beam_options=parsed)


def pipeline_flags(options: Sequence[str]) -> list[str]:
    """The options as flags, with those of the local runner where no other is named."""
    given = {option.removeprefix("--").partition("=")[0] for option in options}
    defaults = {"direct_running_mode": "multi_processing", "direct_num_workers": "0"}
    flags = [
        f"--{name}={value}"
        for name, value in defaults.items()
        if "runner" not in given and name not in given
    ]
    return flags + ["--" + option.removeprefix("--") for option in options]


def write_with_beam(shards: Iterable[tuple[Shard, Path]], options: Any, runner: Any = None) -> None:
    """Writes shards, each with its file, by a pipeline, and waits for it."""
    import apache_beam as beam  # pyright: ignore

    try:
        with _importable_by_workers(), beam.Pipeline(runner=runner, options=options) as pipeline:
            _ = pipeline | beam.Create(list(shards)) | "write" >> beam.Map(write_shard)
    except Exception as error:
        # Of an exception in another process, Beam has the text; it adds the step to either.
        text = f"{InputError.__name__}: {error}" if isinstance(error, InputError) else str(error)
        if found := _INPUT_ERROR.findall(text):
            raise InputError(found[-1]) from error
        raise


@contextlib.contextmanager
def _importable_by_workers() -> Iterator[None]:
    """Puts a checkout that is not installed on the path of local workers, new interpreters."""
    before = os.environ.get("PYTHONPATH")
    checkout = str(Path(__file__).resolve().parents[3])
    os.environ["PYTHONPATH"] = os.pathsep.join([checkout, *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
