"""The reader of a run: made from a pretrained encoder, or found again in the run's folder."""

import dataclasses
from pathlib import Path
from typing import Any

from flax import nnx
from jax.sharding import Mesh

from experiments.devices import on_mesh, placing, whole_rows
from experiments.encoder import load_encoder, untrained_encoder
from experiments.model_configs import ReaderConfig
from experiments.runs import RunConfig
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.prepared.windows import WindowConfig
from hardem_jax.data.tokenizer import Wordpieces, load_tokenizer
from hardem_jax.models.encoders.bert import BertConfig
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.tasks.span_qa import InferenceConfig, SpanQA
from hardem_jax.training.checkpoint import load_params


def new_reader(config: ReaderConfig, tokenizer: Wordpieces, *, seed: int) -> SpanReader:
    """A reader with the pretrained encoder and fresh heads.

    Raises:
        InputError: see `encoder.load_encoder`.
    """
    encoder = load_encoder(config, tokenizer)
    return SpanReader(encoder, rngs=nnx.Rngs(seed), softmax_over=config.softmax_over)


class TrainedReader:
    """What a run folder holds, ready to answer.

    Attributes:
        tokenizer: the run's.
        windows: how documents were cut.
        task: `SpanQA`.
        params: of the chosen checkpoint.

    Args:
        run_dir: the folder.
        checkpoint: "best" or "last".
        batch_size: windows read at once, with a mesh rounded up to a multiple of its devices.
        mesh: devices to read on; None for the first.
        **inference: other fields of `InferenceConfig` than the run has.

    Raises:
        InputError: if the folder holds no such run.
    """

    def __init__(
        self,
        run_dir: Path,
        checkpoint: str,
        *,
        batch_size: int,
        mesh: Mesh | None = None,
        **inference: Any,
    ):
        config = RunConfig(run_dir, "windows")
        model = config.flags("model", ReaderConfig)
        own = config.flags("inference", InferenceConfig)
        batches = config.flags("batches", BatchConfig)
        bert = config.section("bert", BertConfig)
        self.windows = config.section("windows", WindowConfig)
        self.tokenizer = load_tokenizer(run_dir)
        abstract = nnx.eval_shape(
            lambda: SpanReader(
                untrained_encoder(model, bert),
                rngs=nnx.Rngs(0),
                softmax_over=model.softmax_over,
            )
        )
        graphdef, shapes = nnx.split(abstract, nnx.Param)
        self.params = load_params(run_dir / checkpoint, on_mesh(shapes, mesh))
        self.task = SpanQA(
            graphdef,
            dataclasses.replace(own, batch_size=whole_rows(batch_size, mesh), **inference),
            batches=batches,
            pad_id=self.tokenizer.pad_id,
            place=placing(mesh),
        )
