"""What a comparison says about scores that were made up."""

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from hardem_jax.analysis.comparison import (
    by_group,
    differences,
    intervals,
    recorded,
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
    last = json.loads(json.dumps(recorded(found)))["em"][2]
    assert last.pop("objectives") == ["MML", "Hard EM"]
    assert Difference(**last) == found["em"]["MML", "Hard EM"]


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


def test_the_table_has_intervals_where_there_are_scores_of_questions():
    more = {"true z": 50.0, "step": 2}
    runs = {
        name: [{metric: np.mean(x) for metric, x in run.items()} | more for run in of_seeds]
        for name, of_seeds in BY_QUESTION.items()
    }
    summary, found = summarize(runs), intervals(BY_QUESTION)
    rows = [line.split("│") for line in shown(table(summary, found, 3)).splitlines() if "│" in line]
    assert [row[1].strip() for row in rows] == ["em", "f1", "true z"]
    mean, low, high = found["Hard EM"]["em"]
    assert rows[0][-2].strip() == f"{mean:.1f} [{low:.1f}, {high:.1f}]"
    assert f"{summary['Hard EM']['em'][0]:.1f}" == f"{mean:.1f}"
    assert rows[2][-2].strip() == "50.0 ± 0.0"
    assert "over seeds and questions" in " ".join(shown(table(summary, found, 3)).split())


def test_scores_of_all_questions_come_first_and_others_say_what_they_are_of():
    runs = {"MML": [{"P<0.0001": 3.0, "em |Z|=2": 7.0, "f1": 50.0, "em": 50.0}]}
    found, of = intervals({"MML": BY_QUESTION["MML"][:1]}), {"em |Z|=2": "9 questions"}
    drawn = table(summarize(runs), found, 1, title="dev: % of 200 questions", of=of)
    lines = shown(drawn).splitlines()
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert [row[1] for row in rows] == ["em", "f1", "P<0.0001", "em |Z|=2"]
    assert [row[-2] for row in rows] == ["", "", "", "9 questions"]
    assert "dev: % of 200 questions" in lines[0]


def test_scores_of_groups_are_those_of_their_questions():
    found = by_group(BY_QUESTION, {"em |Z|=2": [0, 3], "f1 |Z|=5+": [7]})
    for name, scores in SCORES.items():
        assert [run["em |Z|=2"] for run in found[name]] == scores["em"][:, [0, 3]].tolist()
        assert [run["f1 |Z|=5+"] for run in found[name]] == scores["f1"][:, [7]].tolist()


def test_of_a_single_seed_the_table_says_what_intervals_are_over():
    runs = {"MML": BY_QUESTION["MML"][:1]}
    rendered = shown(table({"MML": {"em": (50.0, 0.0), "hit@1": (7.0, 0.0)}}, intervals(runs), 1))
    assert "over questions only, for there is one seed" in " ".join(rendered.split())
    assert "7.0" in rendered and "±" not in rendered and "deviation" not in rendered
