"""Equations: Z against brute force in exact arithmetic, its order, and f."""

import itertools
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.equations.readers import read_drop
from hardem_jax.equations.solutions.enumeration import (
    enumerate_equations,
    execute_equation,
    format_number,
    number_table,
)
from hardem_jax.equations.solutions.numbers import NumberConfig, NumberMention, find_numbers
from hardem_jax.equations.solutions.rules import (
    COUNT,
    MINUS,
    NONE,
    PASSAGE,
    PERCENT,
    PLUS,
    QUESTION,
    SPECIAL,
    SPECIAL_NUMBERS,
    EquationRules,
)
from hardem_jax.errors import InputError
from tests.marks import slow

FLAGS = ("special_numbers", "special_pairs", "lone_special", "lone_text", "question_numbers")
FLAGS += ("negative", "distinct_values")
OPERATORS = {PLUS: Fraction(1), MINUS: Fraction(-1), PERCENT: Fraction(1, 100)}


def table_of(special, passage, question=()):
    return number_table(
        *([NumberMention(float(v), 0, 1) for v in part] for part in (passage, question)),
        special=[float(v) for v in special],
    )


def random_rules(rng):
    options = {flag: bool(rng.integers(2)) for flag in FLAGS}
    percent = ("off", "term", "factor")[rng.integers(3)]
    return EquationRules(percent=percent, max_count=(None, 0, 3, 9)[rng.integers(4)], **options)


def random_problem(rng):
    """Special, passage and question numbers with one decimal, as exact fractions."""
    sizes = rng.integers(0, (4, 8, 4))
    numbers = [[Fraction(int(n), 10) for n in 5 * rng.integers(0, 9, size)] for size in sizes]
    numbers[0] = list(dict.fromkeys(numbers[0]))
    return numbers


def brute_values(values, kinds, rules):
    """{equation: its exact value} for all of Z_tot without counts, by trying every row."""
    result = {}
    taking_part = [
        (k == SPECIAL and rules.special_numbers)
        or k == PASSAGE
        or (k == QUESTION and rules.question_numbers)
        for k in kinds
    ]
    for n1 in range(len(values)):
        if not taking_part[n1]:
            continue
        lone_allowed = rules.lone_special if kinds[n1] == SPECIAL else rules.lone_text
        for o1 in OPERATORS:
            if not lone_allowed or (o1 == MINUS and not rules.negative):
                continue
            if o1 == PERCENT and rules.percent != "term":
                continue
            result[n1, o1, -1, NONE] = OPERATORS[o1] * values[n1]
        for n2 in range(n1 + 1, len(values)):
            if not taking_part[n2]:
                continue
            if kinds[n1] == kinds[n2] == SPECIAL and not rules.special_pairs:
                continue
            for o1, o2 in itertools.product(OPERATORS, OPERATORS):
                if PERCENT in (o1, o2) and rules.percent == "off":
                    continue
                left, right = OPERATORS[o1] * values[n1], OPERATORS[o2] * values[n2]
                if PERCENT in (o1, o2) and rules.percent == "factor":
                    if o1 == o2 or (MINUS in (o1, o2) and not rules.negative):
                        continue
                    result[n1, o1, n2, o2] = left * right
                elif o1 == o2 == MINUS and not rules.negative:
                    continue
                else:
                    result[n1, o1, n2, o2] = left + right
    return result


def reading_order(equation, kinds):
    """Sort key: operands as they are read, passage, question, special; lone before its pairs."""
    n1, o1, n2, o2 = equation
    place = {PASSAGE: 0, QUESTION: 1, SPECIAL: 2}
    operands = [((place[kinds[n]], n), o) for n, o in ((n1, o1), (n2, o2)) if n >= 0]
    operands.sort()
    return [where for where, _ in operands], [o for _, o in operands]


def brute_force(values, kinds, answer, rules):
    found = [z for z, value in brute_values(values, kinds, rules).items() if value == answer]
    found.sort(key=lambda z: reading_order(z, kinds))
    if rules.distinct_values:
        first = {}
        for n1, o1, n2, o2 in found:
            key = [(values[n], o) for n, o in ((n1, o1), (n2, o2)) if n >= 0]
            first.setdefault(tuple(sorted(key)), (n1, o1, n2, o2))
        found = list(first.values())
    counts = range(rules.max_count + 1) if rules.max_count is not None else []
    return found + [(c, COUNT, -1, NONE) for c in counts if c == answer]


@pytest.mark.parametrize("seed", range(10))
def test_equals_brute_force(seed):
    """A thousand problems in all, with every option drawn anew for each."""
    rng = np.random.default_rng(seed)
    sizes = []
    for _ in range(100):
        rules, numbers = random_rules(rng), random_problem(rng)
        values = [v for part in numbers for v in part]
        kinds = [k for k, part in enumerate(numbers) for _ in part]
        # Mostly an answer that some equation has; in a tenth of the cases perhaps none.
        reachable = [*brute_values(values, kinds, rules).values(), Fraction(3)]
        answer = reachable[rng.integers(len(reachable))]
        answer += Fraction(1, 10) if rng.random() < 0.1 else 0
        table = table_of(*numbers)
        found = enumerate_equations(table, float(answer), rules)
        expected = brute_force(values, kinds, answer, rules)
        assert found.dtype == np.int32 and found.shape == (len(expected), 4)
        assert [tuple(z) for z in found.tolist()] == expected
        results = execute_equation(found, table, rules)
        np.testing.assert_allclose(results, float(answer), atol=0.5e-5, rtol=0)
        sizes.append(len(expected))
    assert np.mean(np.array(sizes) > 1) > 0.4  # most problems are not trivial


@pytest.mark.parametrize("library", [np, *slow(jnp)])
@pytest.mark.parametrize("seed", range(20))
def test_table_and_lone_are_all_equations(library, seed):
    rng = np.random.default_rng(seed)
    rules = random_rules(rng)
    kinds = np.concatenate([np.sort(rng.integers(0, 3, 6)), [-1]])  # the last is padding
    expected = set(brute_values([Fraction(1)] * 7, kinds.tolist(), rules))
    batch = library.asarray(np.stack([kinds, np.full(7, -1)]))
    pairs, lone = rules.table(batch), rules.lone(batch)
    assert isinstance(pairs, type(batch)) and pairs.dtype == lone.dtype == bool
    assert pairs.shape == (2, 7, 3, 7, 3) and lone.shape == (2, 7, 3)
    assert not pairs[1].any() and not lone[1].any()
    found = [(a, b + 1, c, d + 1) for a, b, c, d in np.argwhere(pairs[0]).tolist()]
    found += [(a, b + 1, -1, NONE) for a, b in np.argwhere(lone[0]).tolist()]
    assert len(found) == len(expected) and set(found) == expected
    np.testing.assert_array_equal(rules.table(library.asarray(kinds)), pairs[0])


@pytest.mark.parametrize(
    ("digits", "answer", "agrees"),
    [(5, 3.000004, True), (5, 3.000006, False), (1, 3.04, True), (1, 3.06, False), (0, 3.4, True)],
)
def test_digits(digits, answer, agrees):
    rules = EquationRules(digits=digits, max_count=9)
    found = enumerate_equations(table_of([], [41, 38]), answer, rules)
    expected = [[0, PLUS, 1, MINUS], [3, COUNT, -1, NONE]] if agrees else []
    assert found.tolist() == expected


@pytest.mark.parametrize("percent", ["off", "term", "factor"])
def test_overflow_is_no_solution(percent):
    table = table_of([], [1.7e308, 1.7e308, 5e307, 2])
    rules = EquationRules(percent=percent, negative=True)
    assert enumerate_equations(table, 2, rules).tolist() == [[3, PLUS, -1, NONE]]
    assert enumerate_equations(table, 1.7e308, rules)[:1].tolist() != []
    every = np.array([[0, PLUS, 1, PLUS], [0, MINUS, 1, MINUS], [0, PLUS, 1, MINUS]])
    assert execute_equation(every, table, rules).tolist() == [np.inf, -np.inf, 0]


def test_many_numbers():
    # 3,000 numbers make 13.5 million pairs; only blocks of them are in memory at once.
    table = table_of(SPECIAL_NUMBERS, 7.0 * np.arange(2, 3002))
    found = enumerate_equations(table, 7.0 * (3001 + 3000))
    assert found.tolist() == [[10 + 2998, PLUS, 10 + 2999, PLUS]]
    # In every block there are differences of five sevens, and in the first their sum.
    found = enumerate_equations(table, 7.0 * 5)
    differences = [[10 + n, MINUS, 15 + n, PLUS] for n in range(2995)]
    pairs = [row for row in found.tolist() if row[0] >= 10 and row[2] >= 10]
    assert sorted(pairs) == sorted([*differences, [10, PLUS, 11, PLUS]])


FORMATTED = [(2.3 - 1.1, "1.2"), (53000.0, "53000"), (-0.0, "0"), (-1e-9, "0")]
FORMATTED += [(0.000014, "0.00001"), (1e16, "10000000000000000")]
FORMATTED += [(99999999999999999999999.0, "1e+23"), (-0.09, "-0.09"), (1 / 3, "0.33333")]


@pytest.mark.parametrize(("value", "text"), FORMATTED)
def test_format_number(value, text):
    assert format_number(value) == text


def test_answers_may_be_texts_of_numbers():
    table = number_table(find_numbers("1,200 then 200.5"), find_numbers("?"))
    expected = enumerate_equations(table, 1200).tolist()
    assert expected
    for answer in ("1200", "1,200", "1200.0", np.float32(1200), np.int64(1200), np.str_("1200")):
        assert enumerate_equations(table, answer).tolist() == expected


TWELVE = number_table(find_numbers("12"), [])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: format_number(np.inf), "expected a finite number, found inf"),
        *(
            (lambda y=y: enumerate_equations(TWELVE, y), "^answer: expected a finite number")
            for y in (np.inf, np.nan, "twelve", "1,2", "", None, [12.0, 3.0], b"x", {}, 10**400)
        ),
        (lambda: EquationRules(digits=16), "digits: expected .* found 16"),
        (lambda: NumberConfig(words="nineten"), "words: expected .*nineteen.*, found 'nineten'"),
    ],
)
def test_what_makes_no_sense_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (EquationRules(), (0.930, 9.1, 4)),
        (EquationRules(percent="term"), (0.937, 10.3, 4)),
        (EquationRules(percent="factor"), (0.933, 11.0, 5)),
    ],
)
def test_sizes_of_z_of_real_questions(shared_dir, rules, expected):
    """The figures that docstrings give."""
    examples = []
    for split in ("train", "dev"):
        file = shared_dir / f"data/drop/drop_dataset_{split}.json"
        examples += read_drop(file, skips=ExclusionCounts())
    assert len(examples) == 4170 + 742
    sizes = []
    for passage, group in itertools.groupby(examples, key=lambda example: example.passage):
        mentions = find_numbers(passage)
        for example in group:
            table = number_table(mentions, find_numbers(example.question))
            equations = enumerate_equations(table, example.answer, rules)
            result = execute_equation(equations, table, rules)
            assert (np.abs(result - example.answer) <= 0.5e-5).all()
            sizes.append(len(equations))
    sizes = np.array(sizes)
    sizes, covered = sizes[sizes > 0], (sizes > 0).mean()
    assert round(covered, 3) == expected[0] and round(sizes.mean(), 1) == expected[1]
    assert np.median(sizes) == expected[2]
