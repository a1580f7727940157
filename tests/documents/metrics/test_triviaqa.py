"""TriviaQA's metric: literal tables, edge cases, and the official evaluator's own answers."""

import json

import pytest

from hardem_jax.documents.metrics import squad, triviaqa


def f1_of(shared, predicted, gold):
    precision, recall = shared / predicted, shared / gold
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("A.C. Clarke", "c clarke"),  # the point leaves a lone "a", which is an article
        ("spider-man", "spider man"),
        ("snake_case", "snake case"),
        ("the_answer", "answer"),  # articles are looked for after underscores are gone
        ("O’Brien ‘Neil´s", "o brien neil s"),
        ("`tis", "tis"),
        ("“Quoted”", "“quoted”"),  # double curly quotes are no punctuation here
        ("  The\tAnswer\n is  an apple, a pear ", "answer is apple pear"),
        ("Another theme", "another theme"),
        ("the", ""),
        ("", ""),
    ],
)
def test_normalize_answer(text, normalised):
    assert triviaqa.normalize_answer(text) == normalised


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "f1"),
    [
        ("Spider-Man", ["spider man", "peter parker"], 1, 1),
        ("The Amazing Spider-Man", ["spider man"], 0, f1_of(2, 3, 2)),
        ("é SOUTH PACIFIC", ["south pacific", "south pacific film"], 0, f1_of(2, 3, 2)),
        ("Louvre", ["eiffel tower"], 0, 0),
        ("", ["eiffel tower"], 0, 0),
        ("", ["the"], 1, 0),
        ("Eiffel", [], 0, 0),
    ],
)
def test_scores(prediction, golds, em, f1):
    assert triviaqa.exact_match(prediction, golds) == em
    assert triviaqa.f1(prediction, golds) == f1


def test_differs_from_squad_where_the_documentation_says_so():
    assert triviaqa.exact_match("spider man", ["spider-man"]) == 1
    assert squad.exact_match("spider man", ["spider-man"]) == 0
    assert triviaqa.exact_match("AC Clarke", ["A.C. Clarke"]) == 0
    assert squad.exact_match("AC Clarke", ["A.C. Clarke"]) == 1


def test_equals_the_official_evaluator(shared_dir):
    lines = (shared_dir / "vectors/triviaqa_em_f1.jsonl").read_text(encoding="utf-8").splitlines()
    vectors = [json.loads(line) for line in lines]
    assert len(vectors) == 1500
    found = [
        (
            triviaqa.exact_match(v["prediction"], v["golds"]),
            triviaqa.f1(v["prediction"], v["golds"]),
        )
        for v in vectors
    ]
    assert found == [(v["em"], v["f1"]) for v in vectors]  # to the last bit
