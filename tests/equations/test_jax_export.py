"""The program of a tagger runs in a process that knows jax only."""

import numpy as np
from flax import nnx

from hardem_jax.equations.jax_export import export_tagger
from hardem_jax.equations.model import EquationTagger
from tests.encoders.modules import drawn, run
from tests.spans.test_jax_export import ENCODERS, outputs_elsewhere, text_batch


def test_a_tagger_runs_without_its_code(tmp_path):
    tagger = drawn(lambda: EquationTagger(ENCODERS["bert"](), rngs=nnx.Rngs(1), num_special=3))
    batches = []
    for batch_size, length, numbers in ((2, 9, 3), (1, 16, 4)):
        batch = text_batch(batch_size, length)
        batch["number_tokens"] = np.tile(np.arange(numbers, dtype=np.int32), (batch_size, 1))
        batch["numbers_where"] = batch["number_tokens"] < 2 + np.arange(batch_size)[:, None]
        batches.append(batch)
    found = outputs_elsewhere(export_tagger(tagger), batches, tmp_path)
    for batch, outputs in zip(batches, found, strict=True):
        np.testing.assert_allclose(outputs["tags"], run(tagger, batch).tags, rtol=1e-5, atol=1e-5)
