"""A reader with random weights that answers in one layout, for `benchmark.data.packing`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from flax import nnx

from experiments.benchmark.steps.jax_steps import make_encoder
from experiments.benchmark.steps.setting import Setting
from hardem_jax.data.batching.evaluation import evaluation_batches
from hardem_jax.data.batching.padding import BatchConfig, Inputs
from hardem_jax.models.encoders.packing import token_metrics
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.tasks.config import SpanInference
from hardem_jax.tasks.spans.answers import WindowReading
from hardem_jax.tasks.spans.task import SpanTask, pad_rows
from hardem_jax.tasks.trained import Reader


class LayoutReader:
    """Reads windows in one layout.

    Args:
        setting: sizes of the encoder.
        config: buckets, and the length of packed rows.
        batch_size: windows read at once.
    """

    def __init__(self, setting: Setting, config: BatchConfig, batch_size: int):
        module = SpanReader(make_encoder(setting), rngs=nnx.Rngs(0))
        graphdef, self._params = nnx.split(module, nnx.Param)
        inference = SpanInference(batch_size=batch_size, packed_tokens=config.packed_tokens)
        self._pad = lambda _, num_solutions: pad_rows(0, num_solutions)
        self._reader = Reader(SpanTask(inference), graphdef, self._pad, batches=config)
        self._config, self._batch_size = config, batch_size
        self._shapes: set[str] = set()

    def read(self, windows: Inputs) -> dict[int, WindowReading]:
        """What the reader says about each window, by index."""
        return dict(self._reader.read(self._params, windows))

    def real_share(self, windows: Inputs) -> float:
        """The share of real tokens among those that the encoder reads."""
        batches = self._batches(windows)
        self._shapes |= {str({n: x.shape for n, x in batch.items()}) for batch in batches}
        read = sum((b["packing"] if "packing" in b else b["where"]).size for b in batches)
        return sum(float(token_metrics(batch)["tokens"]) for batch in batches) / read

    def programs(self) -> int:
        """How many different shapes `real_share` has seen."""
        return len(self._shapes)

    def _batches(self, windows: Inputs) -> Sequence[dict[str, Any]]:
        config = dataclasses.replace(self._config, batch_size=self._batch_size)
        pad = self._pad(windows, config.num_solutions(windows.sizes))
        lengths = windows.sizes[:, 0]
        found = evaluation_batches(windows, lengths, config=config, pad=pad)
        return [jax.device_get(arrays) for _, arrays in found]
