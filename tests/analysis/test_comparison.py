"""What a comparison says about scores that were made up."""

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from hardem_jax.analysis.comparison import (
    differences,
    intervals,
    intervals_by_size,
    sentence,
    sentences,
    summarize,
    table,
)
from hardem_jax.analysis.statistics import Difference, difference, interval

RNG = np.random.default_rng(0)
#: Objective -> scores ``[S, N]`` of two metrics; hard EM is better than MML by one of them.
SCORES = {
    "First-only": {"em": 100.0 * (RNG.random((3, 200)) < 0.2), "f1": RNG.random((3, 200))},
    "MML": {"em": 100.0 * (RNG.random((3, 200)) < 0.5), "f1": RNG.random((3, 200))},
}
SCORES["Hard EM"] = {"em": np.maximum(SCORES["MML"]["em"], SCORES["First-only"]["em"])}
SCORES["Hard EM"]["f1"] = RNG.random((3, 200))
BY_QUESTION = {
    name: [{metric: x[seed].tolist() for metric, x in scores.items()} for seed in range(3)]
    for name, scores in SCORES.items()
}


def shown(rendered):
    console = Console(file=io.StringIO(), width=120)
    console.print(rendered)
    return console.file.getvalue()


def test_mean_and_spread_are_over_seeds():
    runs = {"MML": [{"em": 1.0}, {"em": 2.0}, {"em": 6.0, "only here": 1.0}]}
    assert summarize(runs) == {"MML": {"em": (3.0, math.sqrt((4 + 1 + 9) / 2))}}


def test_intervals_are_over_all_seeds_of_an_objective():
    found = intervals(BY_QUESTION)
    for name, scores in SCORES.items():
        assert found[name] == {metric: interval(x) for metric, x in scores.items()}
    assert json.loads(json.dumps(found))["MML"]["em"] == list(interval(SCORES["MML"]["em"]))


def test_every_pair_of_objectives_is_tested_on_every_metric():
    found = differences(BY_QUESTION)
    pairs = [("First-only", "MML"), ("First-only", "Hard EM"), ("MML", "Hard EM")]
    assert {metric: list(pairs) for metric, pairs in found.items()} == {"em": pairs, "f1": pairs}
    for metric, of_pairs in found.items():
        for (a, b), one in of_pairs.items():
            assert one == difference(SCORES[a][metric], SCORES[b][metric])


def test_of_a_single_seed_differences_are_those_of_the_runs():
    pairs = differences(BY_QUESTION)["em"]
    for num_seeds, said in ((1, True), (3, False)):
        heading, *lines = sentences("em", pairs, num_seeds)
        assert heading.startswith("em, ") and ("of these runs only" in heading) == said
        assert lines == [sentence(*pair, found) for pair, found in pairs.items()]


@pytest.mark.parametrize(
    ("low", "p", "says"),
    [
        (0.1, 0.049, "A is ahead"),
        (0.1, 0.05, "no difference shown"),
        (-0.1, 0.049, "no difference shown"),
        (0.0, 0.049, "no difference shown"),
    ],
)
def test_interval_and_test_have_to_agree(low, p, says):
    assert sentence("A", "B", Difference(1.0, low, 2.0, p)).endswith(says)


def rows_of(*arguments, of):
    text = shown(table(*arguments, title="dev: % of 200 questions", of=of))
    return [[cell.strip() for cell in line.split("│")] for line in text.splitlines()], text


def test_the_table_begins_with_intervals_of_scores_of_questions():
    more = {"true z": 50.0, "step": 2, "em |Z|=2": 7.0}
    runs = {
        name: [more | {metric: np.mean(x) for metric, x in run.items()} for run in of_seeds]
        for name, of_seeds in BY_QUESTION.items()
    }
    summary, found = summarize(runs), intervals(BY_QUESTION)
    lines, text = rows_of(summary, found, 3, of={"em |Z|=2": "9 questions"})
    rows = [row for row in lines if len(row) > 1]
    assert [row[1] for row in rows] == ["em", "f1", "true z", "em |Z|=2"]
    mean, low, high = found["Hard EM"]["em"]
    assert rows[0][-3] == f"{mean:.1f} [{low:.1f}, {high:.1f}]"
    assert f"{summary['Hard EM']['em'][0]:.1f}" == f"{mean:.1f}"
    assert rows[2][-3] == "50.0 ± 0.0" and [row[-2] for row in rows] == ["", "", "", "9 questions"]
    assert "over seeds and questions" in " ".join(text.split())
    assert lines[0] == ["dev: % of 200 questions"]


def test_intervals_by_size_are_over_the_questions_of_each_group():
    found = intervals_by_size(BY_QUESTION, {"em |Z|=2": [0, 3, 9], "f1 |Z|=5+": [7]})
    for name, scores in SCORES.items():
        assert found[name]["em |Z|=2"] == interval(scores["em"][:, [0, 3, 9]])
        assert found[name]["f1 |Z|=5+"] == interval(scores["f1"][:, [7]])


def test_of_a_single_seed_the_table_says_what_intervals_are_over():
    runs = {"MML": BY_QUESTION["MML"][:1]}
    summary = {"MML": {"em": (50.0, 0.0), "hit@1": (7.0, 0.0)}}
    _, rendered = rows_of(summary, intervals(runs), 1, of={})
    assert "over questions only, for there is one seed" in " ".join(rendered.split())
    assert "7.0" in rendered and "±" not in rendered and "deviation" not in rendered
