"""The equation task: its loss is the objective over Z, its answers are the likeliest equations."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax import MML, FirstOnly, HardEM
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.encoders.bert import Bert
from hardem_jax.equations.config import EquationInference
from hardem_jax.equations.distribution import AbilityDistribution, TagDistribution
from hardem_jax.equations.examples import NumericExample
from hardem_jax.equations.inputs import EquationInput, pad_equations, pad_inputs
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import (
    COUNT,
    MINUS,
    NONE,
    PASSAGE,
    PERCENT,
    PLUS,
    SPECIAL,
    EquationRules,
)
from hardem_jax.equations.task import EquationTask
from hardem_jax.errors import InputError
from hardem_jax.task.base import make_loss
from hardem_jax.task.trained import BatchReader
from tests.task.listed import Listed
from tests.task.toy import SMALL_BERT, compile_together

NUM_SPECIAL = 2


def make_input(id, length, number_tokens, equations, true=-1):
    """A text of `length` tokens, of whose numbers none was cut."""
    kinds = [SPECIAL] * NUM_SPECIAL + [PASSAGE] * len(number_tokens)
    return EquationInput(
        id=id,
        token_ids=np.arange(length) % 23 + 5,
        passage_start=3,
        slots=np.arange(len(kinds)),
        number_tokens=np.array(number_tokens, int),
        kinds=np.array(kinds),
        equations=np.array(equations, int).reshape(-1, 4),
        true_equation=true,
    )


INPUTS = [
    make_input("q1", 9, [4, 6, 5, 7], [[2, PLUS, 3, MINUS], [0, PLUS, 5, PLUS]], true=1),
    make_input("q2", 7, [5], [[2, PLUS, -1, NONE], [1, PERCENT, 2, PLUS], [0, MINUS, 2, PLUS]]),
    make_input("q3", 8, [4, 5], []),
]


@pytest.fixture(scope="module")
def tagger():
    encoder = Bert(SMALL_BERT, rngs=nnx.Rngs(0))
    tagger = EquationTagger(encoder, num_special=NUM_SPECIAL, rngs=nnx.Rngs(1))
    # Larger than at initialisation, so that scores differ and ties do not hide mistakes.
    for head in (tagger.tag_scores, tagger.special_scores):
        head.kernel.set_value(head.kernel.get_value() * 50)
    return nnx.split(tagger, nnx.Param)


def arrays(inputs, num_tokens=10, num_numbers=4, num_solutions=3):
    sizes = {"num_numbers": num_numbers, "num_solutions": num_solutions}
    batch = pad_inputs(inputs, num_tokens, num_special=NUM_SPECIAL, **sizes, pad_id=0)
    return {name: jnp.asarray(value) for name, value in batch.items()}


COMBINE = {MML(): sum, HardEM(): max, FirstOnly(): lambda p: p[0]}
ANNEALED = HardEM(tau=10)


@pytest.fixture(scope="module")
def losses(tagger):
    """Batch, step -> the loss and its metrics by objective, and what the model says."""
    graphdef, params = tagger
    losses = {objective: make_loss(graphdef, objective) for objective in (*COMBINE, ANNEALED)}
    return functools.partial(compile_together(graphdef, losses), params)


def probability(tags, equation):
    """The product over the numbers of a table ``[N, 4]`` of P(tag): the paper's appendix A."""
    n1, o1, n2, o2 = equation
    chosen = np.zeros(len(tags), int)
    chosen[n1] = o1
    if n2 >= 0:
        chosen[n2] = o2
    return np.prod(tags[np.arange(len(tags)), chosen])


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_loss_is_the_mean_over_questions_of_the_objective_over_z(losses, objective, combine):
    found, said = losses(arrays(INPUTS))
    tags = np.exp(np.asarray(said.tags))
    costs = [
        -np.log(combine([probability(tags[row], z) for z in item.equations]))
        for row, item in enumerate(INPUTS[:2])  # the third has no Z and takes no part
    ]
    loss, metrics = found[objective]
    np.testing.assert_allclose(loss, np.mean(costs), rtol=1e-5)
    np.testing.assert_allclose(metrics["z_size"], (2 + 3) / 2)
    entropy = 0.0
    for row, item in enumerate(INPUTS[:2]):
        masses = np.array([probability(tags[row], z) for z in item.equations])
        shares = masses / masses.sum()
        entropy -= (shares * np.log(shares)).sum() / 2
    np.testing.assert_allclose(metrics["z_entropy"], entropy, rtol=1e-5)
    assert metrics.get("hard") == (1 if isinstance(objective, HardEM) else None)


def test_padding_of_any_kind_changes_nothing(losses):
    expected, _ = losses(arrays(INPUTS))
    sizes = dict(num_tokens=16, num_solutions=9, num_numbers=11)
    found, _ = losses(arrays([*INPUTS, None, None], **sizes))
    for objective, (loss, metrics) in found.items():
        np.testing.assert_allclose(loss, expected[objective][0], rtol=1e-5, err_msg=str(objective))
        np.testing.assert_allclose(metrics["z_size"], (2 + 3) / 2)


def test_the_true_equation_is_never_trained_on(losses):
    hidden = [dataclasses.replace(item, true_equation=-1) for item in INPUTS]
    expected, found = losses(arrays(INPUTS))[0], losses(arrays(hidden))[0]
    for objective in expected:
        assert found[objective][0] == expected[objective][0]


class Fixed(nnx.Module):
    """Says what it was given about row 0, 1, ... whatever the batch holds."""

    def __init__(self, tags, abilities=None, counts=None):
        self.logits = nnx.Param(jnp.log(jnp.asarray(tags, jnp.float32)))
        self.abilities, self.counts = (
            nnx.data(None if p is None else nnx.Param(jnp.log(jnp.asarray(p, jnp.float32))))
            for p in (abilities, counts)
        )

    def __call__(self, batch, *, rngs=None):
        where = batch["kinds"] >= 0
        if self.abilities is None:
            return TagDistribution.from_logits(self.logits[...], where=where)
        return AbilityDistribution.from_logits(
            self.abilities[...], self.logits[..., :3], self.counts[...], where=where
        )


RULES = EquationRules(special_numbers=False, question_numbers=False, percent="term")
GOLD = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": []}


def make_question(passage, answer, *golds, rules=RULES, **changes):
    golds = tuple(GOLD | gold for gold in golds or ({"number": f"{answer:g}"},))
    example = NumericExample("q", "p", passage, "?", answer, golds, **changes)
    return numeric_question(example, NumberConfig(), rules)


def fixed_task(module, questions, *, rules=RULES, kept=True, **config):
    """The task with a model that says the same of every row, and the questions as its inputs."""
    graphdef, params = nnx.split(module, nnx.Param)
    inputs = [
        EquationInput.of(
            q, q.spans[:, 0], np.resize(kept, len(q.spans)), token_ids=np.zeros(4), passage_start=1
        )
        for q in questions
    ]
    sizes = [[4, len(q.equations)] for q in questions]
    num_slots = max(len(q.values) for q in questions)
    num_solutions = max(1, *(len(q.equations) for q in questions))
    task = EquationTask(EquationInference(batch_size=len(questions), **config), rules)

    def pad(inputs, num_solutions_of_inputs):
        return lambda rows, num_tokens: pad_equations(rows, num_slots, num_solutions)

    reader = BatchReader(task, graphdef, pad, batches=BatchConfig(buckets=(4,)))
    return reader, params, Listed(inputs, sizes)


def scores_of(module, questions, **options):
    return read_and_scored(module, questions, **options)[:2]


def read_and_scored(module, questions, left_out=0, repeated=None, **options):
    """Scores, answers, and the scores by question."""
    reader, params, inputs = fixed_task(module, questions, **options)
    data = NumericQuestions(
        questions=questions,
        rules=reader.task.rules,
        left_out={f"left out {i}": "a reason" for i in range(left_out)},
        repeated=repeated or {},
    )
    scores, answers = reader.evaluate(params, data, inputs)
    return scores, answers, reader.task.by_question(data, answers)


FOUR = "41 and 38, then 40 and 37"  # 3 = 41 - 38 = 40 - 37
# Probabilities of NONE, PLUS, MINUS, PERCENT.
IDLE, PLUS_, MINUS_ = [0.97, 0.01, 0.01, 0.01], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1]
SURE = [0.9985, 0.0005, 0.0005, 0.0005]


def test_evaluation_of_a_distribution_made_by_hand():
    first, second = (0, PLUS, 1, MINUS), (2, PLUS, 3, MINUS)
    questions = [
        make_question(FOUR, 3.0, true_equation=first),
        make_question(FOUR, 3.0, true_equation=first),
        make_question(FOUR, 3.0, {"number": "3"}, {"number": "40"}),
        make_question(FOUR, 999.0, {"spans": ["3 yards"]}),
    ]
    assert [q.equations.tolist() for q in questions[2:]] == [[list(first), list(second)], []]
    tags = np.array(
        [
            [PLUS_, MINUS_, IDLE, IDLE],  # the first of Z, the true one
            [IDLE, IDLE, PLUS_, MINUS_],  # the second of Z
            [SURE, SURE, PLUS_, SURE],  # 40: right for another annotator, not in Z
            [PLUS_, MINUS_, IDLE, IDLE],  # 3: no equation gives 999
        ]
    )
    scores, answers = scores_of(Fixed(tags), questions)
    assert answers == ["3", "3", "40", "3"]
    p = np.array([probability(tags[i], z) for i in range(3) for z in (first, second)])
    expected = {
        "em": np.mean([1, 1, 1, 0]),
        "f1": np.mean([1, 1, 1, 0.67]),
        "em |Z|=0": 0,
        "em |Z|=2": 1,
        "P<0.0001": np.mean(p < 1e-4),
        "P<0.001": np.mean(p < 1e-3),
        "top in Z": np.mean([1, 1, 0]),
        "true z": np.mean([1, 0]),
    }
    assert 0 < expected["P<0.0001"] < expected["P<0.001"] < 1
    assert list(scores) == list(expected)
    for name, value in expected.items():
        assert scores[name] == pytest.approx(100 * value), name
    # Questions of the data set that are not in the split count 0 where all questions count.
    of_all, _ = scores_of(Fixed(tags), questions, left_out=2)
    for name, value in expected.items():
        share = 4 / 6 if name in ("em", "f1") else 1
        assert of_all[name] == pytest.approx(100 * value * share), name


def test_a_question_counts_as_often_as_the_data_set_has_it():
    right, wrong = (
        dataclasses.replace(make_question(FOUR, answer), id=id)
        for id, answer in (("right", 3.0), ("wrong", 999.0))
    )
    tags = np.array([[PLUS_, MINUS_, IDLE, IDLE]] * 2)
    # Each repetition has its own golds: here, the wrong answer is right once.
    repeated = {"right": [right.golds, wrong.golds], "wrong": [right.golds], "elsewhere": [[]]}
    once, _ = scores_of(Fixed(tags), [right, wrong])
    often, _ = scores_of(Fixed(tags), [right, wrong], repeated=repeated)
    assert once["em"] == once["f1"] == 50 and often["em"] == often["f1"] == 60
    assert {n: v for n, v in once.items() if n not in ("em", "f1")} == {
        n: v for n, v in often.items() if n not in ("em", "f1")
    }


def test_readings_hold_the_likeliest_equations_and_all_of_z():
    tags = np.array([[PLUS_, MINUS_, IDLE, IDLE]])
    question = make_question(FOUR, 3.0)
    reader, params, inputs = fixed_task(Fixed(tags), [question], top=4)
    [(index, reading)] = reader.read(params, inputs)
    assert index == 0 and reading.equations.shape == (4, 4) and reading.count == -1
    expected = [probability(tags[0], z) for z in reading.equations]
    np.testing.assert_allclose(np.exp(reading.log_probs), expected, rtol=1e-5)
    assert expected == sorted(expected, reverse=True)
    expected = [probability(tags[0], z) for z in question.equations]
    np.testing.assert_allclose(np.exp(reading.solutions), expected, rtol=1e-5)
    assert reading.tags.tolist() == [PLUS, MINUS, NONE, NONE]


def test_what_is_read_without_a_cut_number_is_said_of_the_numbers_of_the_question():
    question, kept = make_question(FOUR, 3.0), [True, False, True, True]  # 38 is cut
    module = Fixed([[IDLE, PLUS_, MINUS_, PLUS_]])  # of 41, 40 and 37, then padding
    reader, params, inputs = fixed_task(module, [question], kept=kept)
    [(_, reading)] = reader.read(params, inputs)
    assert reading.equations[0].tolist() == [2, PLUS, 3, MINUS] and len(reading.solutions) == 1
    assert reading.tags.tolist() == [NONE, NONE, PLUS, MINUS]
    for decoding in ("equation", "tags"):
        assert scores_of(module, [question], kept=kept, decoding=decoding)[1] == ["3"]


def test_scores_by_size_of_z_come_in_order_and_none_is_empty():
    question = make_question(FOUR, 3.0)
    sizes = (17, 2, 16, 1, 9, 4)
    questions = [
        dataclasses.replace(question, equations=np.repeat(question.equations[:1], size, axis=0))
        for size in sizes
    ]
    tags = np.array([[PLUS_, MINUS_, IDLE, IDLE]] * len(sizes))
    scores, _ = scores_of(Fixed(tags), questions)
    groups = [name for name in scores if "|Z|" in name]
    assert groups == [f"em |Z|={size}" for size in ("1", "2", "3-4", "9-16", "17+")]
    scores, _ = scores_of(Fixed(tags[:1]), [make_question(FOUR, 999.0)])
    assert scores == {"em": 0, "f1": 0, "em |Z|=0": 0}


@pytest.mark.parametrize(("decoding", "expected"), [("equation", "81"), ("tags", "82.6")])
def test_an_equation_is_well_formed_and_tags_add_up_to_anything(decoding, expected):
    # 41 + 38 + 40 - 37 + 40 % as tags; the two likeliest operands make up the equation.
    operands = [[0.01, 0.97, 0.01, 0.01], [0.3, 0.5, 0.1, 0.1], [0.01, 0.97, 0.01, 0.01]]
    tags = np.array([[*operands, [0.3, 0.1, 0.5, 0.1], [0.3, 0.1, 0.1, 0.5]]])
    question = make_question(FOUR + ", 60 more", 81.0)
    assert scores_of(Fixed(tags), [question], decoding=decoding)[1] == [expected]


def test_tags_do_not_multiply():
    with pytest.raises(InputError, match="decoding: expected equation, .*found tags"):
        EquationTask(EquationInference(decoding="tags"), EquationRules(percent="factor"))


@pytest.mark.parametrize("decoding", ["equation", "tags"])
def test_counting_and_calculating_are_told_apart(decoding):
    rules = EquationRules(special_numbers=False, question_numbers=False, max_count=9)
    questions = [make_question("41 and 38", 3.0, rules=rules)] * 2
    assert questions[0].equations.tolist() == [[0, PLUS, 1, MINUS], [3, COUNT, -1, NONE]]
    counts = np.full((2, 10), 0.01)
    counts[:, 7] = 0.91
    module = Fixed([[PLUS_, MINUS_]] * 2, [[0.9, 0.1], [0.1, 0.9]], counts)
    scores, answers = scores_of(module, questions, rules=rules, decoding=decoding)
    assert answers == ["3", "7"] and scores["em"] == 50


def test_without_numbers_there_is_no_equation():
    questions = [make_question("None at all", 3.0), make_question(FOUR, 3.0)]
    module = Fixed([[IDLE] * 4, [PLUS_, MINUS_, IDLE, IDLE]])
    scores, answers = scores_of(module, questions)
    assert answers == [None, "3"] and scores["em"] == 50
    # An equation of nothing is no answer, tags that choose nothing are 0.
    assert scores_of(module, questions, decoding="tags")[1] == ["0", "3"]


@pytest.mark.parametrize("decoding", ["equation", "tags"])
def test_a_value_too_large_for_float64_is_no_answer(decoding):
    large = "17" + "0" * 307
    questions = [make_question(f"{large} and {large}", 3.0)]
    scores, answers = scores_of(Fixed([[PLUS_, PLUS_]]), questions, decoding=decoding)
    assert answers == [None] and scores["em"] == 0
