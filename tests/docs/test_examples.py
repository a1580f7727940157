"""The worked examples of the guides run, and the guides show their code as it is."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from docs.examples.sentences import __main__ as sentences
from docs.examples.sentences.task import SentenceDistribution, SentenceQuestions
from tests.commands import call, evaluation
from tests.docs.pages import DOCS, blocks
from tests.docs.shell import run_shell
from tests.tiny import write_checkpoint, write_squad_layout


@pytest.mark.parametrize(
    "page, modules",
    [
        *[("new_task.md", "sentences/*.py"), ("new_data_set.md", "own_questions.py")],
        ("rationales.md", "rationales.py"),
    ],
)
def test_a_guide_shows_the_code_that_runs(page, modules):
    # Methods stand alone in a guide, without the indentation of their class.
    def lines(code):
        return "\n".join(line.strip() for line in code.splitlines() if line.strip())

    sources = [lines(path.read_text()) for path in sorted((DOCS / "examples").glob(modules))]
    shown = [lines(block) for block in blocks(page, "python")]
    assert len(shown) >= 3
    assert [block for block in shown if not any(block in source for source in sources)] == []


def test_sentences_have_a_probability_that_adds_up_to_1():
    scores = jnp.array([[1.0, 2.0, -jnp.inf], [0.0, 0.0, 0.0]])
    log_probs = SentenceDistribution(scores).log_prob(jnp.tile(jnp.arange(3), (2, 1)))
    np.testing.assert_allclose(jnp.exp(log_probs).sum(axis=-1), 1, rtol=1e-6)


def test_z_is_every_sentence_with_the_answer(tmp_path):
    file = write_squad_layout(tmp_path / "squad.json", questions=1)
    call(sentences, "prepare", "--file", file, "--out", tmp_path / "train")
    [question] = SentenceQuestions.open(tmp_path / "train").questions
    assert question.sentences == ["Ada saw Dov.", "Ada lives in Oslo.", "Dov met Ada."]
    assert question.solutions == [0, 1, 2] and question.true == 1


@pytest.mark.slow
def test_the_new_task_trains_compares_and_evaluates(tmp_path, capsys):
    file = write_squad_layout(tmp_path / "squad.json", questions=48)
    run_shell("new_task.md", tmp_path, {"TRAIN": str(file), "DEV": str(file), "STEPS": "60"})
    scores = json.loads((tmp_path / "runs" / "sentences" / "comparison.json").read_text())
    assert "hard-em" in json.dumps(scores)
    # A task from elsewhere is inspected like those of the project.
    assert "Ada lives in" in (tmp_path / "sentences.html").read_text()
    call(
        sentences,
        *("evaluate", "--run-dir", tmp_path / "runs" / "sentences" / "mml-0"),
        *("--data", tmp_path / "prepared" / "sentences-dev", "--num-devices", 1),
    )
    scores = evaluation(capsys.readouterr().out)["scores"]
    assert scores["in Z"] == 100  # every sentence is in Z
    assert scores["true z"] >= 0


@pytest.mark.slow
def test_the_new_data_set_trains_and_evaluates(tmp_path):
    lines = [
        {"id": f"q{i}", "question": f"Who lives in {place}?", "answers": ["Ada"],
         "document": f"Ada saw Bo. Ada lives in {place}. Bo met Ada."}
        for i, place in enumerate(["Oslo", "Rome", "Lima", "Bonn"] * 8)
    ]  # fmt: skip
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = {"hotpot.json": "no", "train-v2.0.json": "", "dev-v2.0.json": "", "quoref.json": "Ada"}
    for name, answer in files.items():
        said = {"answers": [{"text": answer}]} if answer else {"answers": [], "is_impossible": True}
        squad = json.loads(write_squad_layout(tmp_path / name, questions=8).read_text())
        squad["data"][0]["paragraphs"][0]["qas"].append({"id": "p", "question": "Who?", **said})
        (tmp_path / name).write_text(json.dumps(squad))
    encoder = write_checkpoint(tmp_path / "bert", positions=300, words=("no", "yes", "unknown"))
    variables = {"QUESTIONS": str(file), "ENCODER": str(encoder), "STEPS": "2"}
    # The official script of SQuAD 2.0 is not ours to bring along.
    printed = run_shell("new_data_set.md", tmp_path, variables, leave_out="evaluate-v2")
    assert "32  questions with a mention" in printed and "mine: % of 32 questions" in printed
    # Eight of each file and one more: answered by "no", by "unknown", by a name.
    assert printed.count("9  questions with a mention") == 4
    assert list((tmp_path / "runs" / "mine").glob("scores-mine-*.json"))
