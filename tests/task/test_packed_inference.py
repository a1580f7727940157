"""Evaluation on packed rows says what padded evaluation says, for every task that packs."""

import dataclasses
import functools

import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.prepared import Question
from hardem_jax.documents.questions import ReadingQuestions, WindowInputs
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.encoders.bert import Bert, BertConfig
from hardem_jax.equations.config import EquationInference, TaggerConfig
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.inputs import TaggerInputs, pad_inputs
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.equations.task import EquationTask
from hardem_jax.errors import InputError
from hardem_jax.objectives import HardEM
from hardem_jax.span_sets.config import TaggingInference
from hardem_jax.span_sets.inputs import pad_taggings
from hardem_jax.span_sets.model import TaggedReader
from hardem_jax.span_sets.task import TaggingTask
from hardem_jax.spans.config import ReaderConfig, SpanInference
from hardem_jax.spans.model import SpanReader
from hardem_jax.spans.task import SpanTask
from hardem_jax.task.start import start
from hardem_jax.task.trained import BatchReader
from hardem_jax.training.mesh import data_mesh
from tests.tiny import PEOPLE, roberta_tokenizer, write_checkpoint

BATCHES = BatchConfig(buckets=(16, 32, 64))
PACKED = 80


def encoder(vocab_size):
    return Bert(BertConfig(vocab_size, 16, 1, 2, 32), rngs=nnx.Rngs(0))


def asked(examples, tokenizer, config, metric="squad"):
    """Questions with the windows of their documents."""
    windows, places, questions = [], [], []
    for number, example in enumerate(examples):
        own = make_windows(example, tokenizer, config)
        windows += own
        places += [[number, window.document, rank] for rank, window in enumerate(own)]
        solutions = sum(len(window.solutions) for window in own)
        questions.append(Question(example.id, example.question, example.golds, solutions))
    return ReadingQuestions(
        questions=questions,
        windows=WindowInputs(windows),
        places=np.array(places),
        metric=metric,
        tokenizer=tokenizer,
        window_sizes=dataclasses.asdict(config),
    )


def people(count=7):
    """Questions with two documents of very different lengths."""
    for i in range(count):
        one, two = PEOPLE[i % 8], PEOPLE[(i + 3) % 8]
        texts = f"{one} met {two}. " * (1 + i % 5) + f"{two} ran.", f"{two} saw {one}."
        documents = tuple(Document(str(n), text) for n, text in enumerate(texts))
        yield ReadingExample(f"q{i}", "Who?", documents, (one, two), (one, two), all_required=True)


def task_reader(module, task, pad, num_devices=None):
    graphdef, params = nnx.split(module, nnx.Param)
    mesh = None if num_devices is None else data_mesh(num_devices)
    return BatchReader(task, graphdef, pad, batches=BATCHES, mesh=mesh), params


@pytest.fixture
def both(monkeypatch):
    return functools.partial(compare, monkeypatch)


def compare(monkeypatch, module, make_task, pad, inputs, data, num_devices):
    """Readings by index, scores and answers: of padded inputs on a device, of packed on all."""
    found = []
    for packed, devices in ((None, None), (PACKED, num_devices)):
        task = make_task(packed_tokens=packed)
        reader, params = task_reader(module, task, pad, devices)
        decode, packs = type(task).decode, []

        def spy(self, found, batch, decode=decode, packs=packs):
            packs.append("packing" in batch)
            return decode(self, found, batch)

        with monkeypatch.context() as patch:
            patch.setattr(type(task), "decode", spy)
            readings = list(reader.read(params, inputs))
        assert set(packs) == {packed is not None}
        # Packed inputs share one shape, whatever their lengths.
        assert packed is None or len(packs) == 1
        assert sorted(index for index, _ in readings) == list(range(len(inputs)))
        found.append((dict(readings), *task.score(data, iter(readings))))
    return found


def assert_same(one, other):
    """Equal but for rounding of floats, in dataclasses, sequences and mappings."""
    if dataclasses.is_dataclass(one):
        one, other = ({f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
                      for x in (one, other))  # fmt: skip
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, (float, np.ndarray)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    else:
        assert one == other


@pytest.mark.parametrize("num_devices", [1, 4])
@pytest.mark.parametrize("scope", ["window", "document"])
def test_spans_of_packed_windows_are_those_of_padded_ones(both, scope, num_devices):
    tokenizer = Tokenizer(roberta_tokenizer())
    data = asked(people(), tokenizer, WindowConfig(max_tokens=48, stride=12, max_question_tokens=8))
    module = SpanReader(encoder(tokenizer.vocab_size), rngs=nnx.Rngs(1))
    options = {"scope": scope, "top": 4, "keep": 3, "sweep": (1,), "batch_size": 8}
    padded, packed = both(
        module,
        lambda **more: SpanTask(SpanInference(**options, **more)),
        lambda _, n: functools.partial(pad_windows, num_solutions=n, pad_id=tokenizer.pad_id),
        data.windows,
        data,
        num_devices,
    )
    assert len(data.windows) > 8 and len(packed[2]) == 7
    assert_same(padded, packed)


def test_taggings_of_packed_windows_are_those_of_padded_ones(both):
    tokenizer = Tokenizer(roberta_tokenizer())
    data = asked(
        people(), tokenizer, WindowConfig(max_tokens=48, stride=12, max_question_tokens=8), "quoref"
    )
    padded, packed = both(
        TaggedReader(encoder(tokenizer.vocab_size), rngs=nnx.Rngs(1), num_tags=3),
        lambda **more: TaggingTask(TaggingInference(batch_size=8, **more)),
        lambda _, num_solutions: functools.partial(
            pad_taggings, num_taggings=8, max_mentions=8, pad_id=tokenizer.pad_id
        ),
        data.windows,
        data,
        num_devices=2,
    )
    assert_same(padded, packed)


RULES = EquationRules(special_numbers=False, question_numbers=False, percent="term")


def numeric(passages, asked):
    gold = {"number": "5", "date": {"day": "", "month": "", "year": ""}, "spans": []}
    return [
        numeric_question(
            NumericExample(f"q{i}", f"p{i}", passage, asked, 5.0, (gold,)), NumberConfig(), RULES
        )
        for i, passage in enumerate(passages)
    ]


def test_equations_of_packed_questions_are_those_of_padded_ones(both):
    rules = RULES
    passages = (f"{i + 5} ran. " + f"Bo met {i}. " * (i % 4 + 1) for i in range(11))
    questions = numeric(passages, "Who?")
    tokenizer = Tokenizer(roberta_tokenizer())
    inputs = TaggerInputs(questions, tokenizer, max_tokens=60, max_question_tokens=6)
    padded, packed = both(
        EquationTagger(encoder(tokenizer.vocab_size), num_special=0, rngs=nnx.Rngs(1)),
        lambda **more: EquationTask(EquationInference(batch_size=4, **more), rules),
        lambda _, num_solutions: functools.partial(
            pad_inputs,
            num_numbers=inputs.num_numbers,
            num_special=0,
            num_solutions=num_solutions,
            pad_id=tokenizer.pad_id,
        ),
        inputs,
        NumericQuestions(questions=questions, rules=rules),
        num_devices=2,
    )
    assert len(padded[0]) == 11
    assert_same(padded, packed)


def started(task, config, data, dev, *, bucket, packed):
    batches = BatchConfig(batch_size=4, buckets=(bucket,), packed_tokens=packed, negatives=0)
    options = {"objective": HardEM(tau=10), "batches": batches, "num_steps": 2, "seed": 0}
    return start(task, config, data, dev, **options, mesh=data_mesh(1))


@pytest.mark.parametrize("packed", [None, PACKED])
def test_a_tagger_cuts_its_inputs_to_what_the_encoder_reads(tmp_path, packed):
    bert = str(write_checkpoint(tmp_path / "bert", positions=32))
    rules = RULES
    passages = ("5 yards . " + "ada met bo . " * 12 + f"then {i} yards ." for i in range(4))
    data = NumericQuestions(questions=numeric(passages, "how many ?"), rules=rules)
    task = EquationTask(EquationInference(batch_size=4, packed_tokens=packed), rules)
    config = TaggerConfig(encoder=bert, max_tokens=PACKED, max_question_tokens=10)
    message = f"--model.max-tokens: expected at most the 32 positions of {bert}, found {PACKED}"
    with pytest.raises(InputError, match=message):
        started(task, config, data, data, bucket=PACKED, packed=packed)
    config = dataclasses.replace(config, max_tokens=32)
    begun = started(task, config, data, data, bucket=32, packed=packed)
    assert np.isfinite(begun.evaluate(begun.params)[0]["em"])


@pytest.mark.parametrize("packed", [None, PACKED])
def test_windows_to_evaluate_on_have_to_fit_the_encoder(tmp_path, packed):
    bert = str(write_checkpoint(tmp_path / "bert", positions=20))
    tokenizer = load_tokenizer(bert)
    short = WindowConfig(max_tokens=20, stride=8, max_question_tokens=8)
    data, dev = (
        dataclasses.replace(asked(people(), tokenizer, config), place=place)
        for config, place in ((short, "train"), (dataclasses.replace(short, max_tokens=48), "dev"))
    )
    task, config = SpanTask(SpanInference(packed_tokens=packed)), ReaderConfig(encoder=bert)
    with pytest.raises(InputError, match="dev: expected inputs of at most 20 tokens, .* found one"):
        started(task, config, data, dev, bucket=20, packed=packed)
    started(task, config, data, data, bucket=20, packed=packed)
