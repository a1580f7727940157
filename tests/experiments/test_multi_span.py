"""Answers of several spans, from the official layout to the official metric."""

import json
import re

import pytest

from experiments import multi_span, squad_layout
from hardem_jax.documents.prepared import TAGGINGS_FORMAT, PreparedSplit
from tests import official_scripts
from tests.commands import WINDOWS, call, evaluation, fails, output_of
from tests.tiny import PEOPLE, PLACES, write_checkpoint


def write_questions(file, *, paragraphs=24):
    """Who lives somewhere: one or two people, each also mentioned where nobody asks about."""
    content = []
    for i in range(paragraphs):
        first, second, third = (PEOPLE[(i + shift) % 8] for shift in (0, 2, 5))
        place = PLACES[(i + i // 8) % 8]
        context = f"{second} saw {third}. {first} and {second} lives in {place}. {third} ran."
        both = [
            {"text": name, "answer_start": context.index(f"{name} ")} for name in (first, second)
        ]
        qas = [
            {"id": f"both{i}", "question": f"Who lives in {place}?", "answers": both},
            {"id": f"one{i}", "question": "Who ran?", "answers": [{"text": third}]},
            {"id": f"none{i}", "question": "Who more?", "answers": [{"text": "Nobody"}]},
        ]
        content.append({"context": context, "qas": qas})
    file.write_text(json.dumps({"data": [{"title": "t", "paragraphs": content}]}))
    return file


def prepare(file, out, bert, *flags):
    call(multi_span, "prepare", "--file", file, "--out", out, "--tokenizer", bert, *WINDOWS, *flags)


def test_a_split_holds_mentions_of_all_texts(tmp_path, capsys):
    bert = write_checkpoint(tmp_path / "bert")
    gold = write_questions(tmp_path / "gold.json", paragraphs=4)
    prepare(gold, tmp_path / "train", bert)
    assert "answer not in the documents: 4 (none0" in capsys.readouterr().out
    split = PreparedSplit(tmp_path / "train", format=TAGGINGS_FORMAT)
    assert [q.num_solutions for q in split.questions.values()] == [3] * 8
    for window in split.windows():
        assert window.texts is not None
        texts = [window.span_text(*span) for span in window.solutions]
        assert (len(texts), sorted(window.texts.tolist())) in [(3, [0, 1, 1]), (2, [0, 0])]
    train = ("--data", tmp_path / "train", "--dev", tmp_path / "train", "--out", tmp_path / "run")
    refused = fails(squad_layout, capsys, "train", *train, "--model.encoder", bert)
    assert "expected format spans 6, found taggings 4" in refused
    command = ("prepare", "--file", gold, "--tokenizer", bert, "--out", tmp_path / "new")
    refused = fails(multi_span, capsys, *command, "--windows.choices", "no")
    assert "--windows.choices: expected none" in refused
    refused = fails(multi_span, capsys, *command, "--columns.question", "ask")
    assert f"--columns: expected none, for {gold} is in SQuAD's layout" in refused


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("several")
    bert = write_checkpoint(root / "bert", layers=1, hidden_size=32, words=("ran", "more"))
    gold = write_questions(root / "gold.json")
    prepare(gold, root / "train", bert)
    prepare(gold, root / "dev", bert, "--split", "dev")
    call(
        multi_span,
        *("compare", "--data", root / "train", "--dev", root / "dev", "--out", root / "runs"),
        *("--model.encoder", bert, "--num-devices", 1, "--loop.no-progress", "--seeds", 0),
        *("--batches.batch-size", 8, "--batches.buckets", 32, "--loop.num-steps", 200),
        *("--loop.eval-every", 200, "--optimizer.learning-rate", "5e-3"),
        *("--batches.packed-tokens", 96, "--watched", "both0"),
        *("--objectives", "mml", "hard-em"),
    )
    return root


@pytest.mark.slow
def test_readers_learn_which_mentions_are_meant(trained, capsys, tmp_path):
    answers = tmp_path / "answers.json"
    for objective in ("mml", "hard-em"):
        command = ("--run-dir", trained / "runs" / f"{objective}-0", "--data", trained / "dev")
        command += ("--predictions", answers, "--num-devices", 1)
        scores = evaluation(output_of(multi_span, capsys, "evaluate", *command))["scores"]
        # A third of the questions has an answer that no document holds.
        assert 60 < scores["em"] <= 100 * 2 / 3 + 0.01 and scores["em several"] > 90
        exact, f1 = official_scripts.quoref(
            trained / "gold.json", answers, tmp_path / "scores.json"
        )
        assert (scores["em"], scores["f1"]) == pytest.approx((exact, f1), abs=0.01)
    watched = json.loads((trained / "runs" / "hard-em-0" / "watched" / "200.json").read_text())
    [view] = watched if isinstance(watched, list) else watched["questions"]
    assert len(view["solutions"]) == 3 and view["predicted"] >= 0
    assert view["solutions"][0].count(" | ") == 1


@pytest.mark.slow
def test_own_questions_get_all_their_spans(trained, capsys, tmp_path):
    page = tmp_path / "page.txt"
    text = json.loads((trained / "gold.json").read_text())["data"][0]["paragraphs"][1]["context"]
    page.write_text(text)
    command = ("predict", "--run-dir", trained / "runs" / "hard-em-0", "--document", page)
    asked = ("--question", f"Who lives in {PLACES[1]}?")
    found = json.loads(output_of(multi_span, capsys, *command, *asked, "--json"))
    people = {PEOPLE[1], PEOPLE[3]}
    [best] = found["answers"]  # one window
    assert len(best["texts"]) == 2 and set(best["texts"]) == people
    assert {text[s["start"] : s["end"]] for s in best["spans"]} == people
    first, *places = output_of(multi_span, capsys, *command, *asked).splitlines()
    assert re.fullmatch(r" *[\d.]+%  (Bo \| Dov|Dov \| Bo)", first)
    assert len(places) == len(best["spans"])
