"""Programs of models run in a process that knows jax only, at several shapes."""

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.models.checkpoints.program import (
    export_naqanet,
    export_parser,
    export_program_parser,
    export_reader,
    export_tagger,
)
from hardem_jax.models.encoders.bert import Bert, BertConfig
from hardem_jax.models.encoders.distilbert import DistilBert, DistilBertConfig
from hardem_jax.models.encoders.electra import Electra, ElectraConfig
from hardem_jax.models.encoders.modernbert import ModernBert, ModernBertConfig
from hardem_jax.models.encoders.roberta import Roberta, RobertaConfig
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.models.naqanet import NAQANet
from hardem_jax.models.program_parser import ProgramParser
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.models.sqlova import SQLova
from hardem_jax.solutions.equations.rules import EquationRules
from tests.marks import slow
from tests.models import test_naqanet, test_program_parser
from tests.models.modules import drawn, run

SIZES = (40, 16, 2, 2, 12)
ENCODERS = {
    "bert": lambda: Bert(BertConfig(*SIZES, 16), rngs=nnx.Rngs(0)),
    "scan": lambda: Bert(BertConfig(*SIZES, 16), rngs=nnx.Rngs(0), scan_layers=True),
    "roberta": lambda: Roberta(RobertaConfig(*SIZES, 18), rngs=nnx.Rngs(0)),
    "electra": lambda: Electra(ElectraConfig(*SIZES, 16, embedding_size=8), rngs=nnx.Rngs(0)),
    "distilbert": lambda: DistilBert(DistilBertConfig(*SIZES, 16), rngs=nnx.Rngs(0)),
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


# The tagger and the parser below have BERT's unrolled layers.
OTHERS = [name for name in ENCODERS if name not in ("bert", "modernbert")]


@pytest.mark.parametrize("name", ["modernbert", *slow(*OTHERS)])
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
        expected = tagger({name: jnp.asarray(value) for name, value in batch.items()}).tags
        np.testing.assert_allclose(outputs["tags"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value_units", ["words", *slow("wordpieces")])
def test_a_parser_runs_without_its_code(tmp_path, value_units):
    parser = drawn(
        lambda: SQLova(ENCODERS["bert"](), hidden_size=4, value_units=value_units, rngs=nnx.Rngs(1))
    )
    batches = []
    for batch_size, length, words, columns in ((2, 12, 3, 2), (1, 16, 5, 4)):
        batch = text_batch(batch_size, length)
        question = np.tile(np.arange(1, words + 1, dtype=np.int32), (batch_size, 1))
        headers = np.arange(words + 2, words + 2 + columns, dtype=np.int32)
        batch |= {
            "question_tokens": question,
            "question_where": question <= words - np.arange(batch_size)[:, None],
            "words_first": question[:, :-1] - 1,
            "words_where": question[:, :-1] < words - np.arange(batch_size)[:, None],
            "header_tokens": np.tile(headers[None, :, None], (batch_size, 1, 2)),
            "header_where": np.tile(np.array([True, False]), (batch_size, columns, 1)),
            "columns_where": np.ones((batch_size, columns), bool),
        }
        batches.append(batch)
    found = outputs_elsewhere(export_parser(parser), batches, tmp_path)
    for batch, outputs in zip(batches, found, strict=True):
        queries = run(parser, batch)
        assert outputs.keys() == vars(queries).keys()
        for name, values in outputs.items():
            expected = getattr(queries, name)
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_parser_of_programs_runs_without_its_code(tmp_path):
    parser = drawn(
        lambda: ProgramParser(
            Bert(test_program_parser.CONFIG, rngs=nnx.Rngs(0)), hidden_size=6, rngs=nnx.Rngs(1)
        )
    )
    make = test_program_parser.make_batch
    batches = [make([0, 1]), make([1], tokens=26, words=7, columns=5, links=6)]
    batches = [{name: as_exported(x) for name, x in batch.items()} for batch in batches]
    found = outputs_elsewhere(export_program_parser(parser), batches, tmp_path)
    for batch, outputs in zip(batches, found, strict=True):
        programs = run(parser, batch)
        assert outputs.keys() == {"shape", "select", "modify", "link1", "link2"}
        for name, values in outputs.items():
            expected = getattr(programs, name)
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_naqanet_runs_without_its_code(tmp_path):
    config = dataclasses.replace(test_naqanet.CONFIG, num_special=2)
    model = drawn(lambda: NAQANet(config, rngs=nnx.Rngs(0), rules=EquationRules()))
    full = {name: as_exported(x) for name, x in test_naqanet.make_batch().items()}
    two = test_naqanet.pad({name: x[1:] for name, x in full.items()}, words=3, chars=2, numbers=1)
    program = export_naqanet(model)
    model.rules = None
    for batch, outputs in zip(
        (full, two), outputs_elsewhere(program, (full, two), tmp_path), strict=True
    ):
        expected = run(model, batch)
        expected = {
            **{"ability": expected.ability, "counts": expected.counts},
            "signs": expected.signs.tags,
        }
        assert outputs.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(outputs[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
    short = {name: x[..., :2] if name.endswith("chars") else x for name, x in full.items()}
    with pytest.raises(ValueError, match="refining shapes"):
        jax.export.deserialize(bytearray(program)).call(short)


def as_exported(values):
    """With the types of 32 bits that programs take."""
    values = np.asarray(values)
    return values.astype(np.int32) if values.dtype == np.int64 else values
