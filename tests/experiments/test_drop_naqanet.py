"""NAQANet through the commands of `experiments.drop`, on a tiny stand-in for DROP."""

import functools
import json

import numpy as np
import pytest
from flax import nnx

from experiments import drop
from hardem_jax.equations.config import NAQANetModelConfig
from hardem_jax.equations.models import RULES, NAQANetModel, NumericQuestions
from hardem_jax.equations.naqanet import NAQANet
from hardem_jax.equations.task import EquationTask
from hardem_jax.equations.words import Vocabulary
from hardem_jax.task.trained import Trained
from hardem_jax.training.state import named_leaves
from tests import commands
from tests.tiny import drop_answer

SIZES = {
    **{"word-size": 8, "character-size": 4, "num-filters": 4, "filter-width": 3},
    **{"num-highway-layers": 1, "hidden-size": 16, "num-heads": 2, "num-phrase-convs": 1},
    **{"num-modelling-blocks": 1, "num-modelling-convs": 1, "num-passes": 1},
    **{"max-passage-words": 16, "max-question-words": 8},
    # Compiling dropout takes longer than all the rest; the model's own tests have it.
    **{"dropout": 0, "layer-dropout": 0},
}
MODEL = [word for name, size in SIZES.items() for word in (f"--model.{name}", size)]
WORDS = ["yards", "and", "points", "how", "many", "more", "yards", "all", "a", "kick"]


# Compiling NAQANet takes half a minute; quick tests have its layers and its gradient.
pytestmark = pytest.mark.slow

call = functools.partial(commands.call, drop)
fails = functools.partial(commands.fails, drop)


def write_drop(file):
    """Six passages with a difference, a number alone and a count each."""
    content = {}
    for i in range(6):
        first, second = 50 + 3 * i, 31 - 4 * i
        questions = {
            "How many more yards?": first - second,
            "How many points in all?": 14 + i,
            "How many times did they kick?": 2,
        }
        content[f"p{i}"] = {
            "passage": f"A kick of {first} yards and a kick of {second} yards, {14 + i} points.",
            "qa_pairs": [
                {"query_id": f"q{i}-{n}", "question": text, "answer": drop_answer(str(number))}
                for n, (text, number) in enumerate(questions.items())
            ],
        }
    file.write_text(json.dumps(content))
    return file


def write_vectors(file, size=8):
    rng = np.random.default_rng(0)
    rows = [f"{word} {' '.join(map(str, rng.normal(size=size)))}" for word in sorted(set(WORDS))]
    file.write_text("\n".join(rows) + "\n")
    return file


def train_flags(root, out, *, steps=4, every=2, batch_size=6, rate="5e-4", vectors=True):
    return [
        *("train", "--data", root / "built", "--dev", root / "built", "--out", out),
        *("--num-devices", 1, "--batches.batch-size", batch_size, "--batches.buckets", 16),
        *("--loop.num-steps", steps, "--loop.eval-every", every, "--loop.log-every", every),
        *("--loop.no-progress", "--optimizer.learning-rate", rate, "--optimizer.clip-norm", 5),
        *("--optimizer.schedule", "constant", "--optimizer.warmup-fraction", 0),
        *("--optimizer.ema-decay", 0.9, "--optimizer.weight-decay", 0.5),
        *("model:naqanet", *MODEL),
        *(("--model.word-vectors", root / "vectors.txt") if vectors else ()),
        *("objective:hard-em", "--objective.tau", 2),
    ]


def prepare(root, out, rules):
    call("prepare", "--folder", root / "official", "--out", out, *rules)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A build and a finished run of four steps."""
    root = tmp_path_factory.mktemp("naqanet")
    (root / "official").mkdir()
    for split in ("train", "dev"):
        write_drop(root / "official" / f"drop_dataset_{split}.json")
    write_vectors(root / "vectors.txt")
    prepare(root, root / "built", RULES.split())
    call(*train_flags(root, root / "run"))
    return root


def test_the_run_folder_holds_the_vocabularies(root):
    # Words of the training split that have a vector, most frequent first.
    assert set(Vocabulary.load(root / "run" / "words.json").entries) == set(WORDS)
    assert set("0123456789?") < set(Vocabulary.load(root / "run" / "characters.json").entries)


def test_a_finished_run_evaluates_and_predicts(root, capsys, tmp_path):
    (root / "vectors.txt").rename(root / "elsewhere.txt")  # needed to start only
    try:
        predictions = tmp_path / "predictions.json"
        call(
            *("evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "built"),
            *("--predictions", predictions, "--checkpoint", "last", "--batch-size", 4),
        )
        assert [row["id"] for row in json.loads(predictions.read_text())] == [
            f"q{i}-{n}" for i in range(6) for n in range(3)
        ]
        scores = commands.evaluation(capsys.readouterr().out)["scores"]
        last = commands.logged(root / "run", "eval")[-1]
        # Evaluated in the run and read back from disk: the same averaged parameters.
        assert last["step"] == 4 and {"em", "f1", "P<0.001"} <= set(scores)
        assert {name: last[name] for name in scores} == pytest.approx(scores)
        passage = tmp_path / "mine.txt"
        passage.write_text("A kick of 60 yards. Then 12 points and 3 more.")
        asked = ("--document", passage, "--question", "How many more yards?")
        said = commands.output_of(drop, capsys, "predict", "--run-dir", root / "run", *asked)
        assert sum(" = " in line for line in said.splitlines()) == 5
    finally:
        (root / "elsewhere.txt").rename(root / "vectors.txt")


def test_given_word_vectors_stay_as_they_are(root):
    lines = (root / "vectors.txt").read_text().splitlines()
    vectors = {line.split()[0]: np.array(line.split()[1:], np.float32) for line in lines}
    words = Vocabulary.load(root / "run" / "words.json")
    for checkpoint in ("best", "last"):
        params = named_leaves(Trained(EquationTask, root / "run", checkpoint).params)
        table = np.asarray(params["words.word_vectors"])
        # Decay 0.5 would have moved them, and so would an average with rounding errors.
        for index, word in enumerate(words.entries, 2):
            np.testing.assert_array_equal(table[index], vectors[word])


def test_without_a_file_vectors_are_learned(root):
    split = NumericQuestions.open(root / "built", "train")
    sizes = {name.replace("-", "_"): size for name, size in SIZES.items()}
    model = NAQANetModel.start(NAQANetModelConfig(**sizes), split, seed=0)
    # Numbers that occur once are unknown words, to be learned from.
    assert "yards" in model.words.entries and "50" not in model.words.entries
    module: NAQANet = nnx.merge(model.graphdef, model.params)
    assert module.words.word_vectors[...].shape == (len(model.words), 8)
    assert not module.words.frozen


def test_a_tiny_model_learns_a_tiny_set_by_heart(root, tmp_path):
    flags = train_flags(root, tmp_path / "run", steps=150, every=50, batch_size=18, rate="5e-3")
    flags[flags.index("--optimizer.weight-decay") + 1] = 0
    call(*flags)
    assert max(line["em"] for line in commands.logged(tmp_path / "run", "eval")) == 100.0
    trained = Trained(EquationTask, tmp_path / "run", "best")
    data = NumericQuestions.open(root / "built", "dev")
    _, answers = trained.evaluate(data)
    assert answers == [question.golds[0]["number"] for question in data.questions]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ([], "special_numbers=True, question_numbers=True, max_count=None"),
        (RULES.split()[:2], "max_count=None"),
        ([*RULES.split()[:3], 12], "max_count=12"),
        ([*RULES.split(), "--rules.percent", "term"], "percent=term"),
    ],
)
def test_other_rules_are_refused_with_the_flags_to_use(root, capsys, tmp_path, rules, found):
    prepare(root, tmp_path / "built", rules)
    line = fails(capsys, *train_flags(tmp_path, tmp_path / "run", vectors=False))
    assert RULES in line and line.endswith(f"found {found}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flag", "value", "culprit"),
    [
        ("--model.word-vectors", "nowhere.txt", "nowhere.txt: expected a file"),
        ("--model.word-size", 9, "line 1: expected a word and 9 numbers, found 8"),
        ("--model.hidden-size", 15, "--model.hidden-size: expected an even number"),
        ("--model.max-question-words", 0, "--model.max-question-words: expected at least 1"),
    ],
)
def test_what_is_wrong_is_told(root, capsys, tmp_path, flag, value, culprit):
    flags = train_flags(root, tmp_path / "run")
    flags[flags.index(flag) + 1] = value
    assert culprit in fails(capsys, *flags)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flag", ["--batches.packed-tokens", "--inference.packed-tokens"])
def test_only_bert_reads_packed_rows(root, capsys, tmp_path, flag):
    flags = train_flags(root, tmp_path / "run")
    flags[1:1] = [flag, 32]
    assert f"{flag}: only pretrained encoders read packed rows" in fails(capsys, *flags)
