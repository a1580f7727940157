"""The span task: its loss is the objective plus the selector, its answers are the likeliest."""

import dataclasses
import functools
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from hardem_jax import MML, FirstOnly, HardEM
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.inputs.windows import pad_windows
from hardem_jax.data.prepared.spans import Question
from hardem_jax.data.prepared.windows import Window, WindowConfig
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.errors import InputError
from hardem_jax.models.encoders.bert import Bert
from hardem_jax.models.span_reader import Reading, SpanReader
from hardem_jax.tasks.config import LatentConfig, SpanInference
from hardem_jax.tasks.spans.answers import Answer, AnswerPool, WindowReading, window_reading
from hardem_jax.tasks.spans.loss import make_span_loss
from hardem_jax.tasks.spans.questions import ReadingQuestions
from hardem_jax.tasks.spans.task import SpanTask, WindowInputs
from hardem_jax.tasks.trained import Reader
from tests.tasks.toy import SMALL_BERT, compile_together


def window(example_id, context, solutions=(), true=-1, document=0):
    """[CLS] 5 [SEP] context [SEP]; every context token is one letter of the text."""
    text = "".join(chr(ord("a") + token - 4) for token in context)
    places = np.arange(len(context))
    return Window(
        example_id=example_id,
        document=document,
        text=text,
        text_start=10,
        token_ids=np.array([2, 5, 3, *context, 3]),
        context_start=3,
        offsets=np.stack([places, places + 1], axis=1),
        solutions=np.array(solutions, int).reshape(-1, 2),
        true_solution=true,
    )


WINDOWS = [
    window("q1", [6, 7, 8, 6], [(3, 3), (6, 6)], true=1),
    window("q2", [9, 10, 11], [(4, 5)], true=0),
    window("q1", [12, 13], document=1),
    window("q2", [14, 15, 16, 17, 18, 19]),
]


@pytest.fixture(scope="module")
def reader():
    reader = SpanReader(Bert(SMALL_BERT, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    # Larger than at initialisation, so that scores differ and ties do not hide mistakes.
    reader.span_scores.kernel.set_value(reader.span_scores.kernel.get_value() * 50)
    reader.selector.kernel.set_value(reader.selector.kernel.get_value() * 50)
    return nnx.split(reader, nnx.Param)


def arrays(windows, num_tokens=10, num_solutions=4):
    batch = pad_windows(windows, num_tokens, num_solutions=num_solutions, pad_id=0)
    return {name: jnp.asarray(value) for name, value in batch.items()}


COMBINE = {MML(): np.sum, HardEM(): np.max, FirstOnly(): lambda p: p[0]}
POSITIONS = LatentConfig(likelihood="position")


@pytest.fixture(scope="module")
def losses(reader):
    """Batch -> losses of windows on their own, by setting, and what the model says."""
    graphdef, params = reader
    settings = [*((objective,) for objective in COMBINE), (MML(), POSITIONS)]
    losses = {setting: make_span_loss(graphdef, *setting) for setting in settings}
    return functools.partial(compile_together(graphdef, losses), params)


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_loss_is_the_mean_over_items_of_span_and_selector_costs(losses, objective, combine):
    found, reading = losses(arrays(WINDOWS))
    start, end = (np.exp(np.asarray(x)) for x in (reading.spans.start, reading.spans.end))
    p_first = np.array([start[0, 3] * end[0, 3], start[0, 6] * end[0, 6]])
    span = -np.log(combine(p_first)) - np.log(start[1, 4] * end[1, 5])
    selector = np.asarray(jax.nn.log_softmax(reading.selector_logits))
    choice = -selector[0, 1] - selector[1, 1] - selector[2, 0] - selector[3, 0]
    loss, metrics = found[objective,]
    np.testing.assert_allclose(loss, (span + choice) / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["span_loss"], span / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["z_size"], 3 / 2)
    shares = p_first / p_first.sum()  # the other item has one solution
    np.testing.assert_allclose(metrics["z_entropy"], -(shares * np.log(shares)).sum() / 2, 1e-5)
    assert metrics.get("hard") == (1 if isinstance(objective, HardEM) else None)


def test_padding_of_any_kind_changes_nothing(losses):
    expected, _ = losses(arrays(WINDOWS))
    found, _ = losses(arrays([*WINDOWS, None, None], num_tokens=16, num_solutions=9))
    for setting, (loss, _) in expected.items():
        np.testing.assert_allclose(found[setting][0], loss, rtol=1e-5, err_msg=str(setting))


def test_the_annotated_mention_is_never_trained_on(losses):
    hidden = [dataclasses.replace(w, true_solution=-1) for w in WINDOWS]
    expected, found = losses(arrays(WINDOWS))[0], losses(arrays(hidden))[0]
    for setting in expected:
        assert found[setting][0] == expected[setting][0]


def test_annealing_draws_once_and_adds_no_compilation(reader):
    graphdef, params = reader
    span_loss, traced = make_span_loss(graphdef, HardEM(tau=10)), []

    @jax.jit
    def loss(*arguments, **keywords):
        traced.append(True)
        return span_loss(*arguments, **keywords)

    batch = arrays(WINDOWS)
    hard = [
        float(
            loss(
                params,
                batch,
                step=jnp.int32(step),
                key=jax.random.key(step),
                dropout_key=jax.random.key(step),
            )[1]["hard"]
        )
        for step in range(12)
    ]
    assert len(traced) == 1
    assert hard[0] == 0 and hard[10:] == [1, 1] and 0 < sum(hard) < 12


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
    number = len(PIECE_OFFSETS)
    return Window(
        example_id="q",
        document=0,
        text=PIECES,
        text_start=0,
        token_ids=np.array([2, 5, 3, *range(5, 5 + number), 3]),
        context_start=3,
        offsets=np.array(PIECE_OFFSETS),
        solutions=np.zeros((0, 2), int),
    )


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
        out = decode(start, end, batch)
        row = {name: np.asarray(value)[0] for name, value in out.items()}
        found = window_reading(piece_window(), row)
        expected = {}
        for i, j in itertools.combinations_with_replacement(range(len(PIECE_OFFSETS)), 2):
            text = PIECES[PIECE_OFFSETS[i][0] : PIECE_OFFSETS[j][1]]
            if j - i < 4 and (not whole or (i in FIRST_PIECES and j in LAST_PIECES)):
                score = start[0, i + 3] + end[0, j + 3]
                expected[text] = max(expected.get(text, -np.inf), score)
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
    return Reader(task(**config), graphdef, pad, batches=BatchConfig(buckets=(8, 12)))


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


@pytest.mark.slow
def test_readings_are_those_of_the_window_alone(reader):
    """Neither batch size nor neighbours nor buckets change what is read."""
    together = dict(read(reader, WINDOWS))
    assert sorted(together) == [0, 1, 2, 3]
    for i, alone in enumerate(WINDOWS):
        [(_, reading)] = read(reader, [alone])
        assert reading.texts == together[i].texts
        assert reading.spans == together[i].spans
        np.testing.assert_allclose(reading.log_probs, together[i].log_probs, rtol=1e-4)
        for text, (document, start, end) in zip(reading.texts, reading.spans, strict=True):
            assert document == alone.document
            assert alone.text[start - 10 : end - 10] == text and len(text) <= 3


def test_best_solution_is_the_likeliest_of_z(reader, losses):
    batch = arrays(WINDOWS)
    log_probs = losses(batch)[1].spans.log_prob(batch["solutions"])
    readings = dict(read(reader, WINDOWS))
    assert readings[0].best_solution == int(jnp.argmax(log_probs[0, :2]))
    assert readings[1].best_solution == 0
    assert readings[2].best_solution == -1


def reading(answerable, *spans, document=0, sizes=(0.0, 0.0)):
    return WindowReading(
        answerable,
        texts=tuple(text for text, _ in spans),
        log_probs=tuple(score for _, score in spans),
        spans=tuple((document, 0, len(text)) for text, _ in spans),
        log_partitions=sizes,
        best_solution=-1,
    )


def test_the_selector_chooses_the_window_unless_joint_is_asked_for():
    readings = [reading(-0.1, ("x", -5.0), ("y", -6.0)), reading(-0.2, ("z", -0.1), ("x", -1.0))]
    paper = task().answers(readings)
    assert [answer.text for answer in paper] == ["x", "y", "z"]
    assert paper[0].probability == pytest.approx(np.exp(-5.1))
    joint = task(joint=True).answers(readings)
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
    assert [answer.no_answer for answer in task().answers(READINGS[:2])] == [None] * 3
    assert AnswerPool(SpanInference()).best_span() == ""


CHOICES = "yes no unknown "


def choice_window(context, solutions=()):
    """Like `window`, of one document, with three choices of a token each in front."""
    plain = window("q1", context, solutions)
    starts = np.array([[0, 3], [4, 6], [7, 14]])
    return dataclasses.replace(
        plain,
        text=CHOICES + plain.text,
        token_ids=np.array([2, 5, 3, 20, 21, 22, *context, 3]),
        offsets=np.concatenate([starts, plain.offsets + len(CHOICES)]),
        lead=len(CHOICES),
    )


def test_answers_are_a_choice_or_in_the_document(reader):
    one = choice_window([6, 7, 8], [(4, 4)])
    [(_, found)] = read(reader, [one], top=30)
    letters = one.text[len(CHOICES) :]
    inside = {letters[i:j] for i in range(3) for j in range(i + 1, 4)}
    assert set(found.texts) == {"yes", "no", "", *inside}
    batch = arrays([one], num_tokens=12)
    graphdef, params = reader
    log_prob = nnx.merge(graphdef, params)(batch).spans.log_prob(jnp.array([[[5, 5], [3, 3]]]))[0]
    by_text = dict(zip(found.texts, found.log_probs, strict=True))
    np.testing.assert_allclose([by_text[""], by_text["yes"]], log_prob, rtol=1e-4)
    assert list(found.log_probs) == sorted(found.log_probs, reverse=True)
    # However unlikely, that there is no answer is among the few that are kept.
    [(_, few)] = read(reader, [one], top=1)
    assert len(few.texts) == 2 and "" in few.texts
    places = dict(zip(found.texts, found.spans, strict=True))
    assert places["no"] == (0, -11, -9) and places[""] == (0, -8, -1)
    assert places[letters] == (0, 10, 13)


def test_the_selector_is_to_say_whether_a_window_holds_an_answer(losses, reader):
    """Not whether it has a Z, which "unknown" is, too."""
    # A mention, yes, unknown, unknown next to a mention, nothing.
    sets = [[(6, 6)], [(3, 3)], [(5, 5)], [(5, 5), (6, 6)], []]
    windows = [choice_window([6, 7, 8], own) for own in sets]
    found, said = losses(arrays(windows, num_tokens=12))
    log_probs = np.asarray(jax.nn.log_softmax(said.selector_logits))
    labels = [1, 1, 0, 1, 0]
    expected = -sum(log_probs[row, label] for row, label in enumerate(labels)) / 4
    assert found[MML(),][1]["selector_loss"] == pytest.approx(expected, rel=1e-5)

    likely = [log_prob[1] > np.log(0.5) for log_prob in log_probs]
    windows = [dataclasses.replace(w, example_id=str(i)) for i, w in enumerate(windows[:3])]
    golds = [("c",), ("yes",), ("",)]
    questions = {str(i): Question(str(i), "?", own, 1) for i, own in enumerate(golds)}
    data = asked(windows, questions, metric="squad2")
    scores, _ = task().score(data, iter(read(reader, windows)))
    right = [bool(a) == bool(b) for a, b in zip(likely, labels, strict=False)][:3]
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
            # All is unknown: right for one question, and q3 has no prediction at all.
            assert scores["NoAns_exact"] == 50 and scores["HasAns_exact"] == 0
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
    windows = WindowConfig(choices=("yes",))
    dataclasses.replace(task(), windows=windows).check(data, model, "runs/x")


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


DOCUMENT = LatentConfig(scope="document", group_size=2)
QUESTION = LatentConfig(scope="question", group_size=2, likelihood="position")


@pytest.fixture(scope="module")
def grouped(reader):
    """Losses of windows that share a softmax, by setting, and what the model says."""
    graphdef, params = reader
    losses = {
        (objective, latent): make_span_loss(graphdef, objective, latent, negatives=1)
        for objective in COMBINE
        for latent in (DOCUMENT, QUESTION)
    }
    # Two items: the windows of q1 and a negative, those of q2 (one) and a negative.
    windows = [WINDOWS[0], WINDOWS[2], WINDOWS[3], WINDOWS[1], None, WINDOWS[2]]
    return compile_together(graphdef, losses)(params, arrays(windows))


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_windows_of_a_group_have_one_softmax_and_one_z(grouped, objective, combine):
    found, said = grouped
    value, metrics = found[objective, DOCUMENT]
    start, end = (np.exp(np.asarray(x)) for x in (said.spans.start, said.spans.end))
    sums = np.exp(np.asarray(said.spans.log_partitions))
    weight = np.prod(sums[0] / (sums[0] + sums[1]))
    p_first = weight * np.array([start[0, 3] * end[0, 3], start[0, 6] * end[0, 6]])
    # The second window of the second item is padding, which leaves the first all of the mass.
    span = -np.log(combine(p_first)) - np.log(start[3, 4] * end[3, 5])
    np.testing.assert_allclose(metrics["span_loss"], span / 2, rtol=1e-5)
    selector = np.asarray(jax.nn.log_softmax(said.selector_logits))
    choice = -sum(selector[row, int(row in (0, 3))] for row in (0, 1, 2, 3, 5))
    np.testing.assert_allclose(value, (span + choice) / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["z_size"], 3 / 2)


@pytest.mark.parametrize(("objective", "combine"), COMBINE.items())
def test_positions_are_latent_variables_of_their_own(grouped, objective, combine):
    found, said = grouped
    _, metrics = found[objective, QUESTION]
    sums = np.exp(np.asarray(said.spans.log_partitions))
    expected = 0.0
    for side, log_probs in enumerate((said.spans.start, said.spans.end)):
        chance = np.exp(np.asarray(log_probs))
        of_q1 = chance[0, [3, 6]] * sums[0, side] / (sums[0, side] + sums[1, side])
        expected -= np.log(combine(of_q1)) + np.log(chance[3, 5 if side else 4])
    np.testing.assert_allclose(metrics["span_loss"], expected / 2, rtol=1e-5)


def test_positions_of_a_window_alone(losses):
    found, said = losses(arrays(WINDOWS))
    _, metrics = found[MML(), POSITIONS]
    start, end = (np.exp(np.asarray(x)) for x in (said.spans.start, said.spans.end))
    first = start[0, [3, 6]].sum() * end[0, [3, 6]].sum()
    expected = -np.log(first) - np.log(start[1, 4] * end[1, 5])
    np.testing.assert_allclose(metrics["span_loss"], expected / 2, rtol=1e-5)


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
