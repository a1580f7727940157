"""Answers by programs and their scores, with a model whose tables are given."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.errors import InputError
from hardem_jax.programs.config import ProgramInference
from hardem_jax.programs.distribution import SLOTS, ProgramDistribution
from hardem_jax.programs.model import KINDS, NUM_KINDS
from hardem_jax.programs.records import links_of, program_question
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.types import PARTS, SHAPES, Field, Shape
from hardem_jax.programs.task import ProgramQuestions, ProgramTask
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.tables.table import Table
from tests.task import given

ROWS = (("ann", 7.0), ("bo", 9.0), ("cy", 8.0), ("bo", 3.0))
TABLE = Table("1-1", ("player", "goals"), ("text", "real"), ROWS)
RULES = ProgramRules(contains=False, empty=False, negation=False, row_numbers=False)
NUM_FIELDS = 3 * len(PARTS)
PLAYER = Field(0, PARTS.index("text")).code
GOALS = Field(1, PARTS.index("number")).code
ALL, ONE, HIGHEST, AND, OR = (
    SHAPES.index(Shape("values", modifier, connective))
    for modifier, connective in (
        ("none", "all"), ("none", "one"), ("highest", "one"), ("none", "and"), ("none", "or"),
    )
)  # fmt: skip


def question(text="did ann or cy come next to bo ?", answer=("ann",), rules=RULES):
    return program_question(TableQuestion("q", text, TABLE, answer, "denotation"), rules)


ANN, CY, BO = range(3)  # the links of the question


def logits(*favourites, num_links=3):
    """Small ones in falling order, with large ones for these programs, the first the largest."""
    sizes = {"shape": (len(SHAPES),)}
    sizes |= {n: (NUM_KINDS[place], NUM_FIELDS) for place, n in enumerate(SLOTS[:2])}
    sizes |= {n: (NUM_KINDS[2 + place], num_links) for place, n in enumerate(SLOTS[2:])}
    tables = {
        name: np.linspace(0.01, 0, int(np.prod(size)), dtype=np.float32).reshape(size)
        for name, size in sizes.items()
    }
    for rank, (shape, *entries) in enumerate(favourites):
        tables["shape"][shape] = 9 - rank
        for name, kind, entry in zip(SLOTS, KINDS[shape], entries, strict=True):
            if kind >= 0:
                tables[name][kind, entry] = 9 - rank
    return tables


def distribution(logits):
    return ProgramDistribution.from_logits(**logits, kinds=KINDS)


def run(models, questions, left_out=(), **config):
    """Scores and answers."""
    data = ProgramQuestions(
        questions=questions,
        tables={TABLE.id: TABLE},
        rules=RULES,
        left_out=dict.fromkeys(left_out, "a reason"),
    )
    task = ProgramTask(ProgramInference(batch_size=2, **config), RULES)
    programs = [question.programs for question in questions]
    return given.read_and_scored(task, given.Given(models, distribution), data, programs)[:2]


def test_scores_are_what_they_say():
    right = logits((ONE, PLAYER, -1, ANN, -1))
    wrong = logits((ONE, GOALS, -1, ANN, -1))
    empty = question(answer=("zed",))
    questions = [question(), question(), empty, question()]
    scores, answers = run([right, wrong, right, right], questions, left_out=["cut"])
    assert [answer.result for answer in answers] == [["ann"], [7.0], ["ann"], ["ann"]]
    assert answers[0].program.text(TABLE.header) == "values(player) of (player = 'ann')"
    assert answers[0].row == (ONE, PLAYER, -1, ANN, -1)
    assert not len(empty.programs) and 4 < question().num_programs <= 16
    expected = {
        "accuracy": 40,
        "answered": 100,
        "in Z": 100 * 2 / 3,
        "accuracy |Z|=0": 0,
        "accuracy |Z|=5-16": 100 * 2 / 3,
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert 0 < scores["P<0.0001"] <= scores["P<0.001"] < 100


def test_the_answer_is_the_most_likely_program_that_has_a_result():
    """Ann and Cy are no row, and two links of "and" are in order and have different words."""
    model = logits((AND, PLAYER, -1, ANN, CY), (HIGHEST, PLAYER, GOALS, BO, -1))
    _, [answer] = run([model], [question()])
    assert answer.row == (HIGHEST, PLAYER, GOALS, BO, -1) and answer.result == ["bo"]
    scores, [nothing] = run([model], [question()], max_combinations=1)
    assert nothing is None and scores["answered"] == scores["accuracy"] == 0
    # Cy or Ann is Ann or Cy, and only this is written.
    model = logits((OR, PLAYER, -1, CY, ANN))
    model["link2"][:, BO] = 8
    _, [answer] = run([model], [question()])
    assert answer.row == (OR, PLAYER, -1, CY, BO)


def test_programs_come_in_the_order_of_their_probability():
    """The first of them is what `answer` gives, and log P(z) is that of the distribution."""
    tables = logits((ONE, PLAYER, -1, CY, -1))
    graphdef = distribution({name: jnp.asarray(x)[None] for name, x in tables.items()})
    task = ProgramTask(ProgramInference(top=30), RULES)
    out = {name: np.asarray(getattr(graphdef, name)[0]) for name in ("shape", *SLOTS)}
    row = {"solutions": np.array([[3, 1, -1, 0, -1], [-1] * 5]), "solutions_where": [True, False]}
    out["solutions"] = np.array([-1.5, 0.0])
    reading = task.reading(None, 0, out, row)
    assert reading.rows.tolist() == [[3, 1, -1, 0, -1]] and reading.solutions.tolist() == [-1.5]
    answers = task.answers(question(), TABLE, reading)
    found = [answer.log_prob for answer in answers]
    assert len(answers) == 30 and found == sorted(found, reverse=True)
    rows = jnp.array([[answer.row for answer in answers]])
    np.testing.assert_allclose(graphdef.log_prob(rows)[0], found, rtol=1e-5)
    assert task.answer(question(), TABLE, reading) == answers[0]
    assert all(answer.result for answer in answers)


def test_a_result_has_the_probability_of_all_its_programs():
    """Bo is the result of two programs, which add up to more than the one that gives Ann."""
    best = SHAPES.index(Shape("values", "highest", "all"))
    model = logits((ONE, PLAYER, -1, ANN, -1), (best, PLAYER, GOALS, -1, -1))
    model["shape"][[ONE, best]] = 9, 8
    model["link1"][:, [ANN, BO]] = 9, 8.9
    _, [first] = run([model], [question()])
    assert first.result == ["ann"]
    _, [best] = run([model], [question()], decoding="result")
    assert set(best.result) == {"bo"}


def test_a_question_prepared_by_other_rules_is_refused():
    other = question(rules=dataclasses.replace(RULES, negation=True))
    model = logits((ONE, PLAYER, -1, ANN, -1), num_links=len(other.links))
    with pytest.raises(InputError, match="question q: expected the links it was prepared with"):
        run([model], [other])
    data = ProgramQuestions(questions=[other], tables={}, rules=ProgramRules(), place="built")
    with pytest.raises(InputError, match="built: expected the rules of runs/1, found others"):
        ProgramTask(ProgramInference(), RULES).check(data, None, "runs/1")


def test_the_links_of_a_question_are_found_once():
    """And not taken for those of other rules or of another table, whose rows differ."""
    table, more = dataclasses.replace(TABLE, id="own"), dataclasses.replace(RULES, negation=True)
    asked = question()
    links = links_of(asked, table, RULES)
    assert links_of(asked, table, RULES) is links and np.array_equal(links.array, asked.links)
    assert len(links_of(question(rules=more), table, more)) > len(links)
    turned = dataclasses.replace(table, rows=table.rows[::-1])
    assert links_of(asked, turned, RULES).masks != links.masks
    with pytest.raises(InputError, match="expected the links it was prepared with"):
        links_of(dataclasses.replace(asked, links=asked.links[:-1]), table, RULES)
