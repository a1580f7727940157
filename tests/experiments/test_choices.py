"""Answers that are in no document, from the official layout to scores: yes, no, and unknown.

A reader learns to name who lives somewhere, to tell yes from no, and to see that nobody does.
"""

import json
import re

import numpy as np
import pytest

from experiments import squad_layout
from hardem_jax.documents.prepared import PreparedSplit
from hardem_jax.documents.questions import ReadingQuestions
from hardem_jax.spans.reader import Reader
from hardem_jax.spans.show import window_record
from tests import official_scripts
from tests.commands import WINDOWS, call, evaluation, fails, output_of
from tests.tiny import PEOPLE, PLACES, write_checkpoint

pytestmark = pytest.mark.slow

ASKED = ("Who ran yards?", "How many more?", "Who lives?")
WORDS = ("yes", "no", "unknown")
CHOICES = ("--windows.choices", *WORDS)


def write_questions(file, *, paragraphs=16):
    """Four questions on each paragraph: who, yes or no, and one that it does not answer."""
    content = []
    for i in range(paragraphs):
        person, place = PEOPLE[i % 8], PLACES[(i + i // 8) % 8]
        context = f"{person} lives in {place}."
        spoken = "yes" if i % 2 else "no"
        asked = "more" if i % 2 else "how"
        nobody = [{"text": person, "answer_start": 0}]
        nothing = {"answers": [], "is_impossible": True, "plausible_answers": nobody}
        questions = [
            ("who", "Who lives?", {"answers": nobody}),
            ("said", f"How many {asked}?", {"answers": [{"text": spoken, "answer_start": -1}]}),
            ("none", "Who ran yards?", nothing),
        ]
        qas = [{"id": f"{kind}{i}", "question": text, **rest} for kind, text, rest in questions]
        content.append({"context": context, "qas": qas})
    file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": content}]}))
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("choices")
    bert = write_checkpoint(root / "bert", layers=1, hidden_size=32, words=WORDS)
    gold = write_questions(root / "gold.json")
    for split in ("train", "dev"):
        flags = ("--file", gold, "--out", root / split, "--split", split, "--tokenizer", bert)
        call(squad_layout, "prepare", *flags, *WINDOWS, *CHOICES)
    call(
        squad_layout,
        *("train", "--data", root / "train", "--dev", root / "dev", "--out", root / "run"),
        *("--model.encoder", bert, "--num-devices", 1, "--loop.no-progress"),
        *("--batches.batch-size", 8, "--batches.buckets", 16, "--loop.num-steps", 150),
        *("--loop.eval-every", 150, "--optimizer.learning-rate", "5e-3", "objective:hard-em"),
    )
    return root


def evaluate(root, capsys, *flags):
    command = ("evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "dev")
    printed = output_of(squad_layout, capsys, *command, *flags)
    return evaluation(printed)["scores"], printed


def test_a_reader_learns_choices_next_to_spans(trained, capsys, tmp_path):
    meta = json.loads((trained / "train" / "meta.json").read_text())
    assert meta["metric"] == "squad2" and meta["counts"]["questions with a mention"] == 48
    assert meta["solutions per question"]["max"] == 1
    for window in PreparedSplit(trained / "train").windows():
        [text] = [window.span_text(*span) for span in window.solutions]
        assert (text == "unknown") == window.id.startswith("none")
        assert (text in ("yes", "no")) == window.id.startswith("said")
    answers, best = tmp_path / "answers.json", tmp_path / "best.json"
    scores, printed = evaluate(trained, capsys, "--predictions", answers, "--nbest", best)
    assert min(scores["HasAns_exact"], scores["NoAns_exact"]) > 90
    assert "best_exact_thresh │ 0." in printed
    found = json.loads(answers.read_text())
    assert {found[f"none{i}"] for i in range(16)} == {""}
    assert [found[f"said{i}"] for i in range(4)] == ["no", "yes", "no", "yes"]
    best = json.loads(best.read_text())
    assert best["none0"][0]["text"] == "" and best["none0"][0]["document"] is None
    assert best["said0"][0]["start"] is None and best["who0"][0]["start"] == 0


def test_predictions_and_chances_get_the_same_scores_from_the_official_script(
    trained, capsys, tmp_path
):
    answers, chances = tmp_path / "answers.json", tmp_path / "na_prob.json"
    files = ("--predictions", answers, "--na-prob-file", chances)
    printed = {}
    for threshold in (0.0, 0.5, 1.0):
        flags = ("--no-answer-threshold", threshold)
        printed[threshold], _ = evaluate(trained, capsys, *flags, *files)
    # The last answers are the best spans, whatever the chances.
    assert all(json.loads(answers.read_text()).values())
    assert printed[0.0]["NoAns_exact"] == 100 and printed[0.0]["HasAns_exact"] == 0
    assert printed[1.0]["NoAns_exact"] == 0
    for threshold, scores in printed.items():
        official = official_scripts.squad2(trained / "gold.json", answers, chances, threshold)
        names = [name for name in official if not name.endswith("total")]
        assert len(names) == 10
        for name in names:
            assert scores[name] == pytest.approx(official[name]), name


def test_a_choice_answers_own_questions(trained, capsys, tmp_path):
    page = tmp_path / "page.txt"
    page.write_text("Bo lives in Rome.")
    command = ("predict", "--run-dir", trained / "run", "--document", page, "--top", 1)
    shown = {}
    for question in ASKED:
        said = output_of(squad_layout, capsys, *command, "--question", question)
        shown[question] = said.splitlines()
    assert shown["Who ran yards?"][0].endswith("(no answer)")
    assert shown["How many more?"][0].endswith("yes")
    assert shown["How many more?"][1].strip() == "(in no document)"
    assert shown["Who lives?"][0].endswith("Bo") and "characters 0-2" in shown["Who lives?"][1]
    certain = ("--no-answer-threshold", 1, "--question", "Who ran yards?", "--json")
    [answer] = json.loads(output_of(squad_layout, capsys, *command, *certain))["answers"]
    assert answer["text"]

    reader = Reader.from_run(trained / "run")
    [answer] = reader.answer("How many more?", ["Bo lives in Rome."], top=1)
    assert reader.choices == WORDS and answer.is_choice
    assert answer.context == ("", "yes", "") and answer.no_answer < 0.5


def test_an_exported_reader_keeps_its_choices(trained, capsys, monkeypatch):
    call(squad_layout, "export", "--run-dir", trained / "run", "--out", trained / "exported")
    reader = Reader.from_pretrained(trained / "exported")
    found = [reader.answer(question, "Bo lives in Rome.")[0] for question in ASKED]
    assert [answer.text for answer in found] == ["", "yes", "Bo"]
    card = (trained / "exported" / "README.md").read_text()
    assert 'begins with the words "yes no unknown"' in card
    [code] = re.findall(r"^```python\n(.*?)^```$", card, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^from hardem_jax\..* import (\w+)$", code, re.MULTILINE) == ["Reader"]
    assert "qa_outputs" not in code
    monkeypatch.chdir(trained / "exported")
    exec(code, {})
    assert re.search(r"^\d+% \S", capsys.readouterr().out, flags=re.MULTILINE)


def test_the_inspector_shows_documents_without_the_choices(trained):
    data = ReadingQuestions.open(trained / "train")
    records = []
    for index, question in enumerate(data.questions[:3]):
        windows = [data.windows[n] for n in np.flatnonzero(data.places[:, 0] == index)]
        records.append(window_record(question, windows))
        assert records[-1].size == 1 and records[-1].answer == question.golds[0]
    everywhere = "in front of every window"
    assert [(z.text, z.place) for record in records for z in record.solutions] == [
        ("Ada", "0-3"),
        ("no", everywhere),
        ("unknown", everywhere),
    ]
    for record in records:
        [shown] = record.texts
        assert shown.text == "Ada lives in Oslo."
    assert len(records[0].texts[0].marks) == 1 and not records[1].texts[0].marks


def test_data_without_these_choices_are_refused(trained, capsys, tmp_path):
    flags = ("--file", trained / "gold.json", "--out", tmp_path / "dev", "--split", "dev")
    flags += ("--tokenizer", trained / "bert", *WINDOWS, "--windows.choices", "yes", "no")
    call(squad_layout, "prepare", *flags)
    counts = json.loads((tmp_path / "dev" / "meta.json").read_text())
    assert counts["metric"] == "squad" and counts["excluded"] == {"marked impossible to answer": 16}
    command = ("evaluate", "--run-dir", trained / "run", "--data", tmp_path / "dev")
    assert "prepared with other choices" in fails(squad_layout, capsys, *command)
    line = fails(squad_layout, capsys, *command, "--na-prob-file", tmp_path / "na.json")
    assert 'expected the choice "unknown" (prepare --windows.choices unknown), found none' in line
