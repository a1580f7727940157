"""Equations to look at: those of a build, with their numbers, signs and places."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from hardem_jax import find_equations
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.equations.builds import DropNum
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.inputs import NumericInput
from hardem_jax.equations.readers import cut_after_words
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.show import views
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import EquationRules
from hardem_jax.equations.task import EquationReading
from hardem_jax.errors import InputError
from tests.show.html_pages import Page

PASSAGE = "Longwell threw 41 yards, Favre 38 and Ryan 40."
QUESTION = "How many yards was Longwell ahead of 38?"


def value_of(equation):
    return sum(n.value * {"+": 1, "-": -1}[n.sign] for n in equation.numbers)


def test_equations_of_drop_are_those_of_a_build(shared_dir, tmp_path):
    folder = shared_dir / "data" / "drop"
    builder = DropNum()
    examples = list(itertools.islice(builder.read(folder, "dev", ExclusionCounts()), 80))
    total = 0
    for example, record in zip(examples, builder.solver.records(examples), strict=True):
        z = find_equations(example.passage, example.question, example.answer)
        assert [list(equation.row) for equation in z] == record["equations"].tolist()
        assert np.allclose([value_of(equation) for equation in z], example.answer, atol=1e-5)
        texts = {"passage": example.passage, "question": example.question}
        for n in itertools.chain.from_iterable(equation.numbers for equation in z):
            if n.source != "special":
                piece = texts[n.source][n.start : n.end].replace(",", "")
                assert not piece[0].isdecimal() or float(piece) == n.value
        total += len(z)
    assert total > 300


def test_a_solution_says_what_it_is_made_of():
    z = find_equations(PASSAGE, QUESTION, 3)
    assert [equation.text for equation in z] == ["41 - 38", "41 - 38"]
    first, second = z[0].numbers
    assert (first.value, first.sign, first.source) == (41.0, "+", "passage")
    assert PASSAGE[first.start : first.end] == "41"
    assert (second.value, second.sign, PASSAGE[second.start : second.end]) == (38.0, "-", "38")
    other = z[1].numbers[1]
    assert other.source == "question" and QUESTION[other.start : other.end] == "38"
    assert str(z).splitlines() == [
        "2 equations with the answer 3",
        "  [0]  41 - 38  passage 15-17, 31-33",
        "  [1]  41 - 38  passage 15-17, question 37-39",
    ]


def test_a_prediction_outside_of_z_says_where_its_numbers_are():
    rules = EquationRules()
    example = NumericExample("q", "", PASSAGE, QUESTION, 3.0, ({"number": "3"},))
    found = numeric_question(example, NumberConfig(), rules)
    read = NumericInput.of(found, found.spans[:, 0], np.ones(len(found.spans), bool))
    one, other = (dataclasses.replace(read, equations=read.equations[i:][:1]) for i in (0, 1))
    said = EquationReading(other.equations, np.zeros(1), np.zeros(0), -1, np.zeros(1), -1)
    task, data = SimpleNamespace(rules=rules), SimpleNamespace(questions=[found])
    [view] = views(task, None, data, [one], [(0, said)])
    assert view.predicted == -1 and view.places == [0]
    [view] = views(task, None, data, [other], [(0, said)])
    assert view.predicted == 0 and view.places == [1]  # whose text is that of the first
    assert [(n, (PASSAGE, QUESTION)[n][a:b]) for n, a, b in view.spans] == [(0, "41"), (1, "38")]


def test_constants_have_no_place_and_numbers_follow_the_formula():
    z = find_equations("The 2nd of 96 points.", "What percent was not?", 4)
    (only,) = z
    assert only.text == "{100} - 96"
    assert [(n.source, n.sign, n.start) for n in only.numbers] == [
        ("special", "+", None),
        ("passage", "-", 11),
    ]
    assert str(z).splitlines()[1] == "  [0]  {100} - 96  passage 11-13"


def test_rules_may_be_others():
    options = DropNum(rules=EquationRules(percent="factor", max_count=3))
    z = find_equations("20 of 10 here.", "?", 2, options)
    assert {"20 % * 10", "20 * 10 %", "count 2"} <= {equation.text for equation in z}
    counted = next(equation for equation in z if equation.text == "count 2")
    assert counted.numbers == () and counted.row == (2, 4, -1, 0)
    assert "%" in {n.sign for equation in z for n in equation.numbers}
    Page(z._repr_html_())


@pytest.mark.parametrize(
    "answer",
    ["many", "12 yards", "", float("nan"), "1e999", None, [3], np.array([1, 2]), object()]
    + [pytest.param(10**400, id="10**400"), pytest.param(10**5000, id="10**5000")],
)
def test_other_answers_are_refused(answer):
    with pytest.raises(InputError, match="^answer: expected a finite number"):
        find_equations(PASSAGE, QUESTION, answer)


def test_the_passage_ends_where_training_ends():
    passage = "word " * 399 + "57 and 38."
    z = find_equations(passage, "How many more than 3?", 57)
    assert z.read == cut_after_words(passage, 400) == len(passage) - len(" and 38.")
    assert [equation.text for equation in z] == ["57"]
    assert not find_equations(passage, "How many?", 38)
    page = Page(z._repr_html_())
    assert page.texts("span", "unread") == [" and 38."]
    assert page.texts("div", "text") == [passage, "How many more than 3?"]
    assert "The last 8 characters of the passage are not read." in str(z)
    whole = find_equations(passage, "How many?", 38, DropNum(max_words=None))
    assert whole.read == len(passage) and len(whole) == 1


def test_the_page_marks_numbers_in_both_texts_and_the_others_as_candidates():
    page = Page(find_equations(PASSAGE, QUESTION, 3).with_probabilities([0.25, 0.5])._repr_html_())
    assert page.texts("div", "text") == [PASSAGE, QUESTION]
    found = [(n.text, n.attributes["data-label"], n.shade) for n in page.all("mark")]
    assert found == [("41", "0,1", 0.75), ("38", "0", 0.25), ("38", "1", 0.5)]
    assert page.texts("span", "candidate") == ["40"]
    assert page.texts("code") == ["41 - 38", "41 - 38"]


def test_many_equations_make_a_page_of_bounded_size():
    z = find_equations(" ".join(["5"] * 80), "How many?", 0)
    assert len(z) > 5_000
    html = z._repr_html_()
    assert len(html) < 400_000
    assert len(Page(html).all("mark")) == 80
