"""The answer to a question, out of what its windows say."""

import dataclasses

import numpy as np
import pytest

from hardem_jax.spans.answers import Answer, AnswerPool, WindowReading
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.task import SpanTask


def reading(answerable, *spans, document=0, sizes=(0.0, 0.0)):
    return WindowReading(
        answerable,
        texts=tuple(text for text, _ in spans),
        log_probs=tuple(score for _, score in spans),
        spans=tuple((document, 0, len(text)) for text, _ in spans),
        log_partitions=sizes,
        best_solution=-1,
    )


def answers(readings, **config):
    return SpanTask(SpanInference(**config)).answers(readings)


def test_the_selector_chooses_the_window_unless_joint_is_asked_for():
    readings = [reading(-0.1, ("x", -5.0), ("y", -6.0)), reading(-0.2, ("z", -0.1), ("x", -1.0))]
    paper = answers(readings)
    assert [answer.text for answer in paper] == ["x", "y", "z"]
    assert paper[0].probability == pytest.approx(np.exp(-5.1))
    joint = answers(readings, joint=True)
    assert [answer.text for answer in joint] == ["z", "x", "y"]
    assert joint[1] == Answer("x", (0, 0, 1), pytest.approx(np.exp(-1.2)))


READINGS = [
    reading(-0.5, ("a", -0.1), ("b", -3.0), document=0, sizes=(1.0, 2.0)),
    reading(-0.4, ("c", -0.3), document=1, sizes=(0.0, 0.5)),
    reading(-2.0, ("a", -0.2), ("d", -0.9), document=1, sizes=(3.0, 2.0)),
    reading(-9.0, document=2, sizes=(-np.inf, -np.inf)),
]


def offered(answerable, none, *spans):
    """A window that offers "unknown", with this log-probability."""
    found = reading(answerable, *spans)
    texts = dict(zip(found.texts, zip(found.log_probs, found.spans, strict=True), strict=True))
    texts[""] = (none, (0, -8, -1))
    best = sorted(texts.items(), key=lambda item: -item[1][0])
    return dataclasses.replace(
        found,
        texts=tuple(text for text, _ in best),
        log_probs=tuple(score for _, (score, _) in best),
        spans=tuple(span for _, (_, span) in best),
    )


SILENT = [
    offered(-0.1, np.log(0.2), ("x", np.log(0.3)), ("y", np.log(0.25))),
    offered(-0.2, np.log(0.9), ("z", np.log(0.05))),
]


@pytest.mark.parametrize(
    ("scope", "joint", "odds"),
    [
        ("window", False, 0.2 / 0.3),
        ("window", True, 0.9 / 0.3 * np.exp(-0.1)),
        ("document", False, 0.9 / 0.3),
        ("question", False, 0.9 / 0.3),
    ],
)
@pytest.mark.parametrize("keep", [None, 1, 2])
def test_no_answer_competes_with_the_best_span(scope, joint, odds, keep):
    expected = odds / (1 + odds)
    for threshold in (0.0, expected - 0.01, expected + 0.01, 1.0):
        inference = SpanInference(scope=scope, joint=joint, no_answer_threshold=threshold)
        pool = AnswerPool(inference, keep)
        for one in SILENT:
            pool.add(one)
        best, *others = pool.answers()
        assert best.text == ("" if expected > threshold else "x")
        assert best.is_choice == (best.text == "")
        assert pool.best_span() == "x"
        assert all(x.no_answer == pytest.approx(expected) for x in (best, *others))
        assert len(others) == (3 if keep is None else keep - 1)


def test_without_that_choice_there_is_no_such_probability():
    assert [answer.no_answer for answer in answers(READINGS[:2])] == [None] * 3
    assert AnswerPool(SpanInference()).best_span() == ""


def chances(scope, readings=READINGS, keep=None):
    pool = AnswerPool(SpanInference(scope=scope), keep)
    for one in readings:
        pool.add(one)
    return {answer.text: answer.probability for answer in pool.answers()}


def share(window, windows):
    """Of one window among others, for start times end."""
    sums = np.exp([READINGS[i].log_partitions for i in windows])
    return np.prod(np.exp(READINGS[window].log_partitions) / sums.sum(axis=0))


def test_spans_of_a_question_share_one_softmax_without_the_selector():
    expected = {
        "a": np.exp(-0.2) * share(2, [0, 1, 2]),
        "d": np.exp(-0.9) * share(2, [0, 1, 2]),
        "b": np.exp(-3.0) * share(0, [0, 1, 2]),
        "c": np.exp(-0.3) * share(1, [0, 1, 2]),
    }
    got = chances("question")
    assert got == pytest.approx(expected)
    assert list(got) == sorted(expected, key=lambda text: -expected[text])


def test_the_selector_chooses_a_document_and_its_windows_share_one_softmax():
    got = chances("document")
    expected = {
        "a": np.exp(-0.4 - 0.2) * share(2, [1, 2]),
        "d": np.exp(-0.4 - 0.9) * share(2, [1, 2]),
        "c": np.exp(-0.4 - 0.3) * share(1, [1, 2]),
        "b": np.exp(-0.5 - 3.0),
    }
    assert got == pytest.approx(expected) and list(got) == list(expected)


@pytest.mark.parametrize("scope", ["window", "document", "question"])
def test_what_a_pool_forgets_is_not_asked_for(scope):
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        readings = [READINGS[i] for i in order]
        whole, best = chances(scope, readings), chances(scope, readings, keep=1)
        [(text, chance)] = best.items()
        assert text == next(iter(whole)) and chance == pytest.approx(whole[text])
