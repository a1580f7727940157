"""The answers of the span task are the likeliest, and its scores are the official ones."""

import dataclasses
import functools
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.prepared import Question
from hardem_jax.documents.questions import ReadingQuestions, WindowInputs
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError
from hardem_jax.spans.answers import window_reading
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.distribution import SpanDistribution
from hardem_jax.spans.model import Reading
from hardem_jax.spans.task import SpanTask
from hardem_jax.task.trained import BatchReader
from tests.spans.windows import CHOICES, WINDOWS, arrays, choice_window, window


def task(**config):
    # The text of a window is one word, whose letters are the tokens.
    inference = SpanInference(max_answer_tokens=3, whole_words=False, batch_size=3)
    return SpanTask(dataclasses.replace(inference, **config))


PIECES = "Le Corbusier built in Chandigarh, 1,000 km off."
PIECE_OFFSETS = [(0, 2), (3, 6), (6, 9), (9, 12), (13, 18), (19, 21), (22, 27), (27, 32), (32, 33)]
PIECE_OFFSETS += [(34, 35), (35, 36), (36, 39), (40, 42), (43, 46), (46, 47)]
# Le, Corbusier, built, in, Chandigarh, the comma behind it, 1,000, km, off and the full stop.
FIRST_PIECES = {0, 1, 4, 5, 6, 8, 9, 12, 13, 14}
LAST_PIECES = {0, 3, 4, 5, 7, 8, 11, 12, 13, 14}


def piece_window():
    plain = window("q", range(5, 5 + len(PIECE_OFFSETS)))
    return dataclasses.replace(plain, text=PIECES, text_start=0, offsets=np.array(PIECE_OFFSETS))


@pytest.mark.parametrize("whole", [True, False])
def test_answers_are_whole_words_and_the_likeliest_of_them(whole):
    """In one compiled step for any batch of a size, compared with every span there is."""
    span_task = SpanTask(SpanInference(max_answer_tokens=4, whole_words=whole, top=80))
    batch = arrays([piece_window(), WINDOWS[1], None], num_tokens=20)
    assert batch["word_starts"].shape == (3, 20)
    traced = []

    @jax.jit
    def decode(start, end, batch):
        traced.append(True)
        spans = SpanDistribution.from_logits(start, end, where=batch["context"])
        return span_task.decode(Reading(spans, jnp.zeros((3, 2))), batch)

    for seed in range(3):
        start, end = np.random.default_rng(seed).normal(size=(2, 3, 20)).astype(np.float32)
        row = {name: np.asarray(value)[0] for name, value in decode(start, end, batch).items()}
        found = window_reading(piece_window(), row)
        expected = {}
        for i, j in itertools.combinations_with_replacement(range(len(PIECE_OFFSETS)), 2):
            text = PIECES[PIECE_OFFSETS[i][0] : PIECE_OFFSETS[j][1]]
            if j - i < 4 and (not whole or (i in FIRST_PIECES and j in LAST_PIECES)):
                expected[text] = max(expected.get(text, -np.inf), start[0, i + 3] + end[0, j + 3])
        assert set(found.texts) == set(expected)
        assert list(found.texts) == sorted(expected, key=lambda text: -expected[text])
        assert ("bus" in found.texts) == ("1" in found.texts) == (not whole)
    assert len(traced) == 1


def pad(inputs, num_solutions):
    return functools.partial(pad_windows, num_solutions=num_solutions, pad_id=0)


def read(reader, windows, **config):
    """Index and reading of every window."""
    graphdef, params = reader
    return list(compiled(graphdef, **config).read(params, WindowInputs(windows)))


@functools.cache
def compiled(graphdef, **config):
    return BatchReader(task(**config), graphdef, pad, batches=BatchConfig(buckets=(8, 12)))


def said(reader, batch):
    """What the reader says of a batch."""
    graphdef, params = reader
    return jax.jit(lambda params: nnx.merge(graphdef, params)(batch))(params)


def evaluate(reader, windows, questions, left_out=(), **config):
    data = asked(windows, questions, left_out)
    return task(**config).score(data, iter(read(reader, windows, **config)))


def asked(windows, questions, left_out=(), metric="squad"):
    order = list(questions)
    places = [[order.index(w.example_id), w.document, rank] for rank, w in enumerate(windows)]
    return ReadingQuestions(
        questions=list(questions.values()),
        left_out=dict.fromkeys(left_out, "a reason"),
        windows=WindowInputs(windows),
        places=np.array(places),
        metric=metric,
        tokenizer=None,
        window_sizes=WindowConfig(),
    )


def test_best_solution_is_the_likeliest_of_z(reader):
    batch = arrays(WINDOWS)
    log_probs = said(reader, batch).spans.log_prob(batch["solutions"])
    readings = dict(read(reader, WINDOWS))
    assert readings[0].best_solution == int(jnp.argmax(log_probs[0, :2]))
    assert readings[1].best_solution == 0
    assert readings[2].best_solution == -1


def test_answers_are_a_choice_or_in_the_document(reader):
    one = choice_window([6, 7, 8], [(4, 4)])
    [(_, found)] = read(reader, [one], top=30)
    letters = one.text[len(CHOICES) :]
    inside = {letters[i:j] for i in range(3) for j in range(i + 1, 4)}
    assert set(found.texts) == {"yes", "no", "", *inside}
    batch = arrays([one], num_tokens=12)
    log_prob = said(reader, batch).spans.log_prob(jnp.array([[[5, 5], [3, 3]]]))[0]
    by_text = dict(zip(found.texts, found.log_probs, strict=True))
    np.testing.assert_allclose([by_text[""], by_text["yes"]], log_prob, rtol=1e-4)
    assert list(found.log_probs) == sorted(found.log_probs, reverse=True)
    # However unlikely, that there is no answer is among the few that are kept.
    [(_, few)] = read(reader, [one], top=1)
    assert len(few.texts) == 2 and "" in few.texts
    places = dict(zip(found.texts, found.spans, strict=True))
    assert places["no"] == (0, -11, -9) and places[""] == (0, -8, -1)
    assert places[letters] == (0, 10, 13)


def test_the_selector_is_right_where_it_finds_a_window_with_an_answer(reader):
    """Or one without; "unknown" is a Z and no answer."""
    golds = {("c",): [(6, 6)], ("yes",): [(3, 3)], ("",): [(5, 5)]}
    windows = [
        dataclasses.replace(choice_window([6, 7, 8], own), example_id=str(i))
        for i, own in enumerate(golds.values())
    ]
    questions = {str(i): Question(str(i), "?", own, 1) for i, own in enumerate(golds)}
    data = asked(windows, questions, metric="squad2")
    scores, _ = task().score(data, iter(read(reader, windows)))
    logits = said(reader, arrays(windows, num_tokens=12)).selector_logits
    right = np.asarray(logits[:, 1] > logits[:, 0]) == [True, True, False]
    assert scores["selector"] == pytest.approx(100 * np.mean(right))


def test_scores_of_squad2_with_every_threshold(reader):
    windows = [choice_window([6, 7, 8], [(6, 6)]), choice_window([9, 10], [(5, 5)])]
    windows[1] = dataclasses.replace(windows[1], example_id="q2")
    golds = {"q1": (windows[0].text[len(CHOICES)],), "q2": ("",)}
    questions = {id: Question(id, "?", texts, 1) for id, texts in golds.items()}
    data = asked(windows, questions, left_out=["q3"], metric="squad2")
    readings = read(reader, windows)
    chances, exact = {}, {}
    for threshold in (0.0, 0.5, 1.0):
        own = task(no_answer_threshold=threshold)
        scores, answers = own.score(data, iter(readings))
        assert set(scores) <= own.metric_names(data)
        chances |= {id: answer.no_answer for id, answer in answers.items()}
        exact[threshold] = scores["exact"]
        assert scores["best_exact"] >= scores["exact"]
        if threshold == 0:
            # All is unknown: right for one question; whether q3 has an answer is not known.
            assert scores["NoAns_exact"] == 100 and scores["HasAns_exact"] == 0
    assert all(0 < chance < 1 for chance in chances.values())
    per_question = task().by_question(data, answers)
    assert set(per_question) == {"exact", "f1"} and len(per_question["f1"]) == 3
    assert per_question["exact"].mean() == pytest.approx(exact[1.0])
    assert [row.gold for row in task().shown(data, answers)] == [golds["q1"][0], ""]


def test_data_with_other_choices_are_refused():
    data = dataclasses.replace(asked([], {}), window_sizes={"choices": ["yes"]}, place="prepared/x")
    tokenizer = types.SimpleNamespace(fingerprint="f")
    data = dataclasses.replace(data, tokenizer=tokenizer)
    model = types.SimpleNamespace(tokenizer=tokenizer)
    with pytest.raises(InputError, match="prepared/x: prepared with other choices .* than runs/x"):
        task().check(data, model, "runs/x")
    dataclasses.replace(task(), windows=WindowConfig(choices=("yes",))).check(data, model, "runs/x")


def test_fewer_documents_are_scored_out_of_the_same_reading(reader):
    questions = {
        "q1": Question("q1", "?", ("x",), 2),
        "q2": Question("q2", "?", ("x",), 1),
        "q3": Question("q3", "no window", ("x",), 0),
    }
    moved = [dataclasses.replace(w, document=1 - w.document) for w in WINDOWS]

    _, alone = evaluate(reader, [w for w in moved if w.document == 0], questions)
    golds = {"q1": alone["q1"].text}
    questions["q1"] = dataclasses.replace(questions["q1"], golds=(golds["q1"],))
    got, answers = evaluate(reader, moved, questions, sweep=(1, 2))
    # Only q1 has a document 0, and its mention is not there; q2's document is the second.
    assert got["em n=1"] == pytest.approx(100 / 3) and got["recall n=1"] == 0
    assert got["recall n=2"] == pytest.approx(200 / 3)
    of_all, _ = evaluate(reader, moved, questions, left_out=["q4"], sweep=(1, 2))
    assert of_all["em n=1"] == pytest.approx(25) and of_all["recall n=2"] == pytest.approx(50)
    assert got["em n=2"] == got["em"] and answers == evaluate(reader, moved, questions)[1]


def test_evaluation_counts_every_question(reader):
    questions = {
        "q1": Question("q1", "?", ("no such text",), 2),
        "q2": Question("q2", "?", (), 1),
        "q3": Question("q3", "no window at all", ("x",), 0),
    }
    scores, answers = evaluate(reader, WINDOWS, questions)
    assert scores["em"] == 0 and set(answers) == {"q1", "q2"}
    assert {"em |Z|=0", "em |Z|=1", "em |Z|=2"} <= set(scores)
    questions["q1"] = dataclasses.replace(questions["q1"], golds=(answers["q1"].text,))
    scores, _ = evaluate(reader, WINDOWS, questions)
    assert scores["em"] == pytest.approx(100 / 3) and scores["em |Z|=2"] == 100
    # Questions of the data set that are not in the split count 0, and have no |Z|.
    of_all, _ = evaluate(reader, WINDOWS, questions, left_out=["q4", "q5"])
    assert of_all["em"] == pytest.approx(100 / 5) and of_all["f1"] == pytest.approx(100 / 5)
    assert {n: of_all[n] for n in scores if n not in ("em", "f1")} == {
        n: scores[n] for n in scores if n not in ("em", "f1")
    }
    # Two windows have an annotated mention, one of them with a choice to make.
    [(_, first)] = read(reader, WINDOWS[:1])
    assert scores["true z"] == scores["true z, not first"] == 100 * (first.best_solution == 1)


def test_mentions_that_training_leaves_out_count_in_evaluation(reader):
    graphdef, params = reader
    mentions = [(3, 3), (6, 6), (8, 8), (9, 9)]
    rng = np.random.default_rng(0)
    many = [window("q1", rng.integers(4, 26, 7).tolist(), mentions) for _ in range(20)]
    best = {i: found.best_solution for i, found in read(reader, many)}
    assert {2, 3} <= set(best.values())
    # The annotated mention is the likeliest, wherever it is.
    windows = [dataclasses.replace(w, true_solution=best[i]) for i, w in enumerate(many)]
    data = asked(windows, {"q1": Question("q1", "?", ("x",), 80)})
    for limit in (None, 2):
        batches = BatchConfig(buckets=(12,), max_solutions=limit)
        few = BatchReader(task(), graphdef, pad, batches=batches)
        scores, _ = few.evaluate(params, data, data.windows)
        assert scores["true z"] == scores["true z, not first"] == 100
        assert scores["first z"] == 100 * np.mean([z == 0 for z in best.values()])
    [(_, found)] = few.read(params, WindowInputs(windows[:1]))
    assert len(found.solutions) == 4 and np.all(np.isfinite(found.solutions))


@pytest.mark.parametrize(("best", "expected"), [((0, 0), 100), ((0, 1), 50), ((1, 1), 0)])
def test_how_often_the_first_mention_is_the_most_likely(reader, best, expected):
    """In windows with a choice, annotated or not; the second has one mention, the others none."""
    questions = {name: Question(name, "?", ("x",), 2) for name in ("q1", "q2")}
    choices = [WINDOWS[0], dataclasses.replace(WINDOWS[0], true_solution=-1), *WINDOWS[1:]]
    found = dict(read(reader, choices))
    for index, solution in enumerate(best):
        found[index] = dataclasses.replace(found[index], best_solution=solution)
    scores, _ = task().score(asked(choices, questions), iter(found.items()))
    assert scores["first z"] == expected
    assert scores["true z"] == 100 * best[0]


@pytest.mark.parametrize("metric", ["squad", "triviaqa", "rouge"])
def test_scores_of_questions_have_the_official_mean(reader, metric):
    """In their order, those left out at the end."""
    questions = {name: Question(name, "?", ("x",), 1) for name in ("q1", "q3", "q2")}
    _, answers = evaluate(reader, WINDOWS, questions)  # q3 has no window
    for name, answer in answers.items():
        questions[name] = dataclasses.replace(questions[name], golds=("x", answer.text))
    data = asked(WINDOWS, questions, left_out=["q4", "q5"], metric=metric)
    scores, answers = task().score(data, iter(read(reader, WINDOWS)))
    assert answers["q1"].text != answers["q2"].text
    found = task().by_question(data, answers)
    assert len(found) == (4 if metric == "rouge" else 2)
    for name, values in found.items():
        assert (values > 0).tolist() == [True, False, True, False, False]
        assert values.mean() == pytest.approx(scores[name])
