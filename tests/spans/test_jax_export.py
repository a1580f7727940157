"""Programs of models run in a process that knows jax only, at several shapes."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from flax import nnx

from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.encoders.modernbert import ModernBert, ModernBertConfig
from hardem_jax.spans.jax_export import export_reader
from hardem_jax.spans.model import SpanReader
from tests.encoders.modules import drawn, run
from tests.marks import slow

SIZES = (40, 16, 2, 2, 12)
ENCODERS = {
    "scan": lambda: Bert(BertConfig(*SIZES, 16), rngs=nnx.Rngs(0), scan_layers=True),
    "modernbert": lambda: ModernBert(
        ModernBertConfig(*SIZES, 16, local_attention=4), rngs=nnx.Rngs(0)
    ),
    # What a run on TPUs asks for is not what other devices can load.
    "splash": lambda: Bert(
        BertConfig(*SIZES, 16, attention_dropout=0.0), rngs=nnx.Rngs(0), attention="splash"
    ),
}
LOAD = """
import sys
import jax
import numpy as np
from jax import export
with open(sys.argv[1], "rb") as file:
    program = export.deserialize(bytearray(file.read()))
for path in sys.argv[2:]:
    outputs = program.call(dict(np.load(path)))
    np.savez(path + ".out.npz", **outputs)
assert not {"hardem_jax", "flax"} & set(sys.modules)
"""


def text_batch(batch_size, length):
    rng = np.random.default_rng(batch_size)
    where = np.arange(length)[None] < rng.integers(5, length + 1, batch_size)[:, None]
    return {
        "token_ids": np.where(where, rng.integers(2, 40, where.shape), 0).astype(np.int32),
        "token_type_ids": rng.integers(0, 2, where.shape, dtype=np.int32),
        "where": where,
    }


def outputs_elsewhere(program, batches, folder):
    """What a fresh process returns that can import nothing of this checkout."""
    (folder / "program").write_bytes(program)
    files = []
    for number, batch in enumerate(batches):
        files.append(str(folder / f"{number}.npz"))
        np.savez(files[-1], **batch)
    environment = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder / "program"), *files],
        env=environment | {"JAX_PLATFORMS": "cpu"},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return [dict(np.load(f"{file}.out.npz")) for file in files]


@pytest.mark.parametrize("name", ["modernbert", *slow("scan", "splash")])
def test_a_reader_runs_without_its_code(tmp_path, name):
    reader = drawn(lambda: SpanReader(ENCODERS[name](), rngs=nnx.Rngs(1)))
    batches = [text_batch(*shape) for shape in ((2, 9), (3, 16))]
    for batch in batches:
        batch["context"] = batch["where"] & (np.arange(batch["where"].shape[1]) > 2)[None]
    program = export_reader(reader)
    for batch, found in zip(batches, outputs_elsewhere(program, batches, tmp_path), strict=True):
        if name == "splash":
            with pytest.warns(UserWarning, match="computed by XLA, not by 'splash'"):
                reading = reader(batch)
        else:
            reading = run(reader, batch)
        expected = {part: getattr(reading.spans, part) for part in ("start", "end")}
        expected |= {"log_partitions": reading.spans.log_partitions}
        expected |= {"selector_logits": reading.selector_logits}
        assert found.keys() == expected.keys()
        for part, values in expected.items():
            np.testing.assert_allclose(found[part], values, rtol=1e-5, atol=1e-5, err_msg=part)
    long = text_batch(1, 17)
    with pytest.raises(ValueError, match="refining shapes"):
        jax.export.deserialize(bytearray(program)).call(long | {"context": long["where"]})
