"""The commands for DROP with the tagger, from an official file to an answer, on a tiny stand-in."""

import functools
import io
import json

import numpy as np
import pytest

from experiments import drop
from hardem_jax.equations import reader
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.equations.reader import NumberReader
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.task import EquationTask
from hardem_jax.errors import InputError
from hardem_jax.task.trained import Trained
from hardem_jax.training import loop
from tests import commands
from tests.commands import OBEYED, SHOWN
from tests.tiny import write_checkpoint, write_drop

NUM_PASSAGES = 12
PASSAGE = "Ada ran 41 yards. Then Bo ran 38 yards. Eve saw Ada."


call = functools.partial(commands.call, drop)
fails = functools.partial(commands.fails, drop)
output_of = functools.partial(commands.output_of, drop)


def train_flags(root, out, *, train="built", dev="built", seed=0, model=()):
    loop = ["--loop.num-steps", 4, "--loop.eval-every", 2, "--loop.log-every", 1]
    return [
        *("train", "--data", root / train, "--dev", root / dev, "--out", out),
        *("--num-devices", 2, "--batches.batch-size", 4, "--batches.buckets", 32),
        *(*loop, "--loop.seed", seed, "--loop.no-progress", "--optimizer.learning-rate", "1e-3"),
        *("model:tagger", "--model.encoder", root / "bert", "--model.num-layers", 1),
        *("--model.max-tokens", 32, "--model.max-question-tokens", 12, *model),
        *("objective:hard-em", "--objective.tau", "2"),
    ]


def prepare(root, name, *options):
    call("prepare", "--folder", root / "official", "--out", root / name, *options)


def official(folder, content, splits=("train", "dev")):
    """A folder with this content, or text, in its official files."""
    folder.mkdir()
    text = content if isinstance(content, str) else json.dumps(content)
    for split in splits:
        (folder / f"drop_dataset_{split}.json").write_text(text)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint, a build and a finished run."""
    root = tmp_path_factory.mktemp("drop")
    write_checkpoint(root / "bert")
    write_drop(root / "drop.json", passages=NUM_PASSAGES)
    official(root / "official", (root / "drop.json").read_text())
    prepare(root, "built")
    call(*train_flags(root, root / "run"))
    return root


@pytest.fixture
def ask(root, tmp_path, capsys):
    """What ``predict`` prints, as two lists of lines, and its error line if it fails."""

    def run(passage, question="How many more than Bo?", *, failing=False):
        file = tmp_path / "mine.txt"
        file.write_bytes(passage if isinstance(passage, bytes) else passage.encode())
        command = ["predict", "--run-dir", root / "run", "--document", file, "--question", question]
        if failing:
            return fails(capsys, *command)
        capsys.readouterr()
        call(*command)
        said = capsys.readouterr()
        return said.out.splitlines(), said.err.splitlines()

    return run


def test_the_same_prepare_again_finds_the_build(root, capsys):
    said = []
    for _ in range(2):
        prepare(root, "built")
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and f"{2 * NUM_PASSAGES}  questions with a solution" in said[0]
    assert f"  answer is a text span: {NUM_PASSAGES} (" in said[0]
    assert len(list((root / "built").rglob("build.json"))) == 1


def test_a_finished_run_evaluates(root, capsys, tmp_path):
    predictions = tmp_path / "predictions.json"
    command = ("evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "built")
    command += ("--checkpoint", "last", "--predictions", predictions, "--decoding", "equation")
    printed = output_of(capsys, *command, "--official", tmp_path / "official.json")
    assert "top in Z" in printed
    rows = json.loads(predictions.read_text())
    assert [row["id"] for row in rows] == [f"q{i}-{j}" for i in range(NUM_PASSAGES) for j in (0, 1)]
    official = json.loads((tmp_path / "official.json").read_text())
    assert official == {row["id"]: row["answer"] for row in rows if row["answer"] is not None}
    assert official and all(isinstance(answer, str) for answer in official.values())
    last = commands.logged(root / "run", "eval")[-1]
    evaluation = commands.evaluation(printed)
    scores = evaluation["scores"]
    # Questions about spans are no part of DROP_num.
    assert evaluation["counts"] == {"questions": 2 * NUM_PASSAGES, "left out": 0, "reasons": {}}
    options = {"checkpoint": "last", "decoding": "equation", "normalize": None}
    assert evaluation["options"] == options
    # What was measured while training is what the saved parameters give.
    assert last["step"] == 4 and {"em", "f1", "top in Z", "P<0.001"} <= set(scores)
    assert {name: last[name] for name in scores} == pytest.approx(scores)


@pytest.fixture(scope="module")
def softmax_run(root):
    """A run with the other normalisation, as the paper's heads have no bias."""
    flags = ["--model.normalize", "equations", "--model.no-tag-bias", 0]
    call(*train_flags(root, root / "softmax", model=flags))
    return root / "softmax"


@pytest.mark.slow
def test_the_normalisation_is_stored_with_the_run(root, softmax_run, capsys, tmp_path):
    model = json.loads((softmax_run / "config.json").read_text())["flags"]["model"]
    assert (model["normalize"], model["no_tag_bias"]) == ("equations", 0)
    assert "cannot resume" in fails(capsys, *train_flags(root, softmax_run))
    command = ("evaluate", "--num-devices", 1, "--run-dir", softmax_run, "--data", root / "built")
    command += ("--checkpoint", "last")
    scores = commands.evaluation(output_of(capsys, *command))["scores"]
    last = commands.logged(softmax_run, "eval")[-1]
    assert {name: last[name] for name in scores} == pytest.approx(scores)
    readings = []
    for normalize in (None, "tags"):
        model = {} if normalize is None else {"normalize": normalize}
        trained = Trained(EquationTask, softmax_run, "last", model=model, batch_size=1)
        example = NumericExample("q", "p", "Ada ran 41 yards.", "How far?", None, ())
        question = numeric_question(example, trained.task.numbers, trained.task.rules)
        data = NumericQuestions(questions=[question], rules=trained.task.rules)
        [(_, reading)] = trained.reader.read(trained.params, trained.model.inputs(data))
        readings.append(reading)
    softmax, product = readings
    # Five of 31 equations: 41, and 41 with each of ten special numbers in three ways.
    assert 5 / 31 < np.exp(softmax.log_probs).sum() < 1
    np.testing.assert_array_equal(softmax.equations, product.equations)
    assert np.all(product.log_probs < softmax.log_probs)
    assert "top in Z" in output_of(capsys, *command, "--normalize", "tags")


def test_predict_shows_the_answer_and_where_it_comes_from(ask):
    answers, notes = ask(PASSAGE)
    lines = [line for line in answers if not line.startswith("   " * 2 + "  ")]
    assert notes == [] and len(lines) == 5  # the answer and the next four
    shares = []
    for line in lines:
        share, _, rest = line.strip().partition("%  ")
        value, _, formula = rest.partition(" = ")
        shares.append(float(share))
        assert eval(formula.replace("{", "").replace("}", "")) == float(value)
    assert shares == sorted(shares, reverse=True) and shares[0] < 100
    formula = lines[0].partition(" = ")[2]
    sentences = [line.strip() for line in answers if line not in lines]
    expected = {"41": "Ada ran [41] yards.", "38": "Then Bo ran [38] yards."}
    wanted = {sentence for number, sentence in expected.items() if number in formula}
    assert wanted and wanted <= set(sentences)
    special = [part for part in formula.split() if part.startswith("{")]
    assert set(sentences) - wanted == {f"{s} is one of the special numbers" for s in special}
    assert answers[1 : 1 + len(sentences)] == [f"        {s}" for s in sentences]


def test_a_piped_question_without_numbers_does_not_end_the_others(
    root, tmp_path, capsys, monkeypatch
):
    file = tmp_path / "mine.txt"
    file.write_text("Ada saw Bo.")
    monkeypatch.setattr("sys.stdin", io.StringIO("Who?\nMore than 7 and 8?\n"))
    command = ("predict", "--run-dir", root / "run", "--document", file, "--top", 1)
    first, problem, second, answer, *_ = output_of(capsys, *command).splitlines()
    assert (first, second) == ("Who?", "More than 7 and 8?") and "%  " in answer
    assert "mine.txt: expected numbers to calculate with, found none" in problem


def test_questions_of_a_file_are_answered_about_their_own_passages(root, tmp_path, capsys):
    file = tmp_path / "mine.csv"
    other = "Cy ran 7 yards. Then Bo ran 9 yards."
    nothing = "Nobody ran.,How many?"  # which costs the others nothing
    file.write_text(f"passage,question\n{PASSAGE},How many more?\n{nothing}\n{other},How many?\n")
    command = ("predict", "--run-dir", root / "run", "--questions", file, "--json", "--top", 2)
    lines = [json.loads(line) for line in output_of(capsys, *command).splitlines()]
    assert [(line["id"], line["question"]) for line in lines] == [
        ("mine-0", "How many more?"),
        ("mine-1", "How many?"),
        ("mine-2", "How many?"),
    ]
    refused = lines.pop(1)
    assert refused["answers"] == [] and "line 3 (mine-1): expected numbers" in refused["error"]
    asked = NumberReader.from_run(root / "run")
    for line, passage in zip(lines, (PASSAGE, other), strict=True):
        alone = asked.answer(line["question"], passage, top=2)
        assert [one["equation"] for one in line["answers"]] == [one.equation for one in alone]
        shown = [one["probability"] for one in line["answers"]]
        np.testing.assert_allclose(shown, [one.probability for one in alone], rtol=1e-4)
    question = ("--question", "How many?")
    both = fails(capsys, "predict", "--run-dir", root / "run", "--questions", file, *question)
    assert "--questions: expected no other question" in both
    none = fails(capsys, "predict", "--run-dir", root / "run", *question)
    assert "--document: expected a file, or --questions" in none


@pytest.mark.slow
def test_predict_shows_a_passage_as_it_is_and_harmlessly(ask):
    answers, _ = ask(f"Ada ran 41 yards {OBEYED} then 38 {OBEYED}.")
    assert any(SHOWN in line for line in answers)
    assert all(line.isprintable() for line in answers)


@pytest.mark.slow
def test_predict_says_what_the_model_does_not_see(ask):
    _, notes = ask(PASSAGE + " Ada ran yards." * 5 + " Then 44 and 45.")
    assert notes == ["note: text too long for the model; 2 numbers left out"]


def test_predict_survives_a_value_too_large_for_float64(ask, monkeypatch):
    monkeypatch.setattr(reader, "execute_equation", lambda rows, *_: np.full(len(rows), np.inf))
    answers, _ = ask(PASSAGE)
    assert sum("too large = " in line for line in answers) == 5


@pytest.mark.parametrize(
    ("passage", "question", "culprit"),
    [
        (b"caf\xe9", "Who?", "mine.txt: byte 3"),
        ("Ada saw Bo.", "Who?", "mine.txt: expected numbers to calculate with, found none"),
        (PASSAGE, " ", "--question: expected a question"),
    ],
)
def test_what_cannot_be_answered_is_named(ask, capsys, passage, question, culprit):
    assert culprit in ask(passage, question, failing=True)


@pytest.mark.slow
def test_other_rules_do_not_continue_a_run_nor_change_it(root, capsys):
    prepare(root, "percent", "--rules.percent", "term")
    before = (root / "run" / "config.json").read_bytes()
    other = train_flags(root, root / "run", train="percent", dev="percent")
    assert "cannot resume" in fails(capsys, *other)
    assert "seed" in fails(capsys, *train_flags(root, root / "run", seed=5))
    assert (root / "run" / "config.json").read_bytes() == before
    mixed = train_flags(root, root / "mixed", dev="percent")
    assert "percent: prepared with other rules" in fails(capsys, *mixed)
    assert not (root / "mixed").exists()
    line = fails(capsys, "evaluate", "--run-dir", root / "run", "--data", root / "percent")
    assert "percent: prepared with other rules" in line


def test_a_run_that_never_began_takes_its_new_settings(root, capsys, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise InputError("no room for a batch")

    monkeypatch.setattr(loop, "place_batch", refuse)
    for seed in (0, 5):
        flags = train_flags(root, tmp_path / "run", seed=seed)
        assert "no room for a batch" in fails(capsys, *flags)
        config = json.loads((tmp_path / "run" / "config.json").read_text())
        assert config["flags"]["loop"]["seed"] == seed


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["prepare", "--folder", "no", "--out", "x"], "no: expected drop_dataset_train.json"),
        (["prepare", "--folder", "official", "--out", "x", "--max-words", "0"], "--max-words: "),
        (
            ["train", "--data", "x", "--dev", "x", "--out", "x", "model:tagger"]
            + ["--model.normalize", "equations", "--model.product-over", "tokens"],
            "--model.product-over: expected numbers, found tokens",
        ),
        (
            ["train", "--data", "x", "--dev", "x", "--out", "x", "model:tagger"]
            + ["--model.no-tag-bias", "nan"],
            "--model.no-tag-bias: expected a finite number",
        ),
    ],
)
def test_what_a_person_got_wrong_is_told(root, capsys, flags, culprit, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "official").symlink_to(root / "official")
    assert culprit in fails(capsys, *flags)
    assert not (tmp_path / "x").exists()
