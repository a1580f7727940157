"""The reconstructor: what it scores, what it is trained on, and the command on a tiny stand-in."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments import wikisql
from experiments.reconstruction import command as reconstruction
from experiments.reconstruction.command import Reconstruction
from experiments.reconstruction.reconstructor import Reconstructor, chosen, make_loss, pad
from experiments.reconstruction.shares import measured
from hardem_jax.data.annotations import gold_in_solutions
from hardem_jax.data.scores import SolutionScores, write_scores
from hardem_jax.objectives import MutualInformation
from hardem_jax.tasks.tables.queries import TableQuestions
from tests import commands
from tests.tiny import write_wikisql


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("reconstruction")
    official = write_wikisql(root / "official", tables=4)
    commands.call(wikisql, "prepare", "--folder", official, "--out", root / "built")
    return root


@pytest.fixture(scope="module")
def data(root):
    return TableQuestions.open(root / "built", "train")


def test_scores_are_those_of_every_text_alone(root, data):
    flags = Reconstruction(data=root / "built", width=8, layers=1)
    questions = list(data.questions)
    model = Reconstructor(flags, data, questions)
    found = model.score(model.params, questions, np.random.default_rng(3))
    decoder = nnx.merge(model.graphdef, model.params)
    log_probs = jax.jit(lambda tokens: decoder.log_probs(tokens, target=jnp.array(True)))
    rng, asks = np.random.default_rng(3), model.vocabulary.id("[question]")
    made = [model.write(question, question.queries, rng, "context") for question in questions]
    assert len({text.sum() for one in made for text in one.where}) > 2
    differ = 0
    for question, one in zip(questions[:4], made, strict=False):
        for place, where in enumerate(one.where):
            tokens = one.tokens[place][where]
            values = np.asarray(log_probs(tokens[None])[0])
            ours = {name: scores[question.id][place] for name, scores in found.items()}
            after = values[tokens.tolist().index(asks) + 1 :].sum()
            np.testing.assert_allclose(ours["question"], after, rtol=1e-4)
            context = values[one.explained[place][where]].sum()
            np.testing.assert_allclose(ours["context"], context, rtol=1e-4)
            differ += context > after + 1
    assert differ


def test_all_of_a_small_z_is_trained_on_and_draws_from_a_large_one(data):
    question = next(question for question in data.questions if len(question.queries) > 3)
    rng, count = np.random.default_rng(0), len(question.queries)
    places, log_weights = chosen(question, count, rng)
    assert places.tolist() == list(range(count))
    np.testing.assert_allclose(np.exp(log_weights), 1 / count)
    prior = np.zeros(count, np.float32)
    prior[1:3], prior[3:] = np.log([0.25, 0.75]), -np.inf
    prior[0] = -np.inf
    weighted = dataclasses.replace(question, log_weights=prior)
    np.testing.assert_allclose(np.exp(chosen(weighted, count, rng)[1]), np.exp(prior), rtol=1e-6)
    drawn, log_weights = np.concatenate([chosen(weighted, 2, rng) for _ in range(2000)], axis=1)
    np.testing.assert_allclose(np.exp(log_weights), 0.5)
    share = np.bincount(drawn.astype(int), minlength=count) / len(drawn)
    four_deviations = 4 * (0.25 * 0.75 / len(drawn)) ** 0.5
    assert np.abs(share - np.exp(prior)).max() < four_deviations


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_the_gradient_is_that_of_both_phases(root, data, beta):
    """Phase 1: -sum p(z) log q; EM: -log sum p(z) q, with no dropout, by their formulas."""
    flags = Reconstruction(data=root / "built", width=8, layers=1, draws=4)
    questions = [question for question in data.questions if len(question.queries) > 2][:3]
    assert len(questions) == 3
    model = Reconstructor(flags, data, questions)
    rng = np.random.default_rng(0)
    rows = []
    for count, question in zip((2, 3, 3), questions, strict=True):
        made = model.write(question, question.queries[:count], rng, "question")
        prior = rng.dirichlet(np.ones(count))
        rows.append((made, np.log(prior)))
    batch = pad(rows, 4, 4)
    assert batch["solutions_where"].sum(-1).tolist() == [len(prior) for _, prior in rows] + [0]

    def expected(params):
        decoder, total = nnx.merge(model.graphdef, params), 0.0
        for made, log_prior in rows:
            log_q = decoder.sequence_log_prob(made.tokens, target=made.explained, where=made.where)
            prior = jnp.exp(jnp.asarray(log_prior, jnp.float32))
            row = jnp.sum(prior * log_q) if beta == 0 else jnp.log(jnp.sum(prior * jnp.exp(log_q)))
            total -= row / len(rows)
        return total

    loss = make_loss(model.graphdef, MutualInformation(inverse_temperature=beta), dropout=False)
    key = jax.random.key(0)
    of_step = {"step": 0, "key": key, "dropout_key": key}
    got = jax.jit(jax.grad(lambda params: loss(params, batch, **of_step)[0]))(model.params)
    wanted = jax.jit(jax.grad(expected))(model.params)
    pairs = list(zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True))
    assert max(float(jnp.abs(b).max()) for _, b in pairs) > 1e-3
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


def test_shares_of_the_annotated_query():
    scores = {"a": np.log([0.2, 0.6, 0.2]), "b": np.zeros(1), "c": np.zeros(4)}
    annotated = {
        "a": np.array([False, True, False]),
        "b": np.array([True]),
        "c": np.zeros(4, bool),  # not in Z
    }
    found = measured(scores, annotated)
    assert found["questions"] == 1
    shares = [found[name] for name in ("drawn", "weight", "largest")]
    np.testing.assert_allclose(shares, [1 / 3, 0.6, 1.0])
    np.testing.assert_allclose(found["drawn, all"], (1 / 3 + 1 + 0) / 3)
    np.testing.assert_allclose(found["largest, all"], 2 / 3)
    assert measured(scores, {}) == {"questions": 0}


@pytest.mark.parametrize(
    "wrong, line",
    [
        (["--gold-split", "dve"], "dve"),
        (["--report", "none/report.json"], "none/report.json: cannot be written"),
        (["--report", "report.md"], "report.md: expected a name for the JSON file"),
    ],
)
@pytest.mark.parametrize("command", ["train", "measure"])
def test_what_is_wrong_shows_before_the_work(root, capsys, monkeypatch, command, wrong, line):
    def work(*_):
        raise AssertionError("began to work")

    monkeypatch.setattr("experiments.reconstruction.reconstructor.Reconstructor", work)
    monkeypatch.setattr(SolutionScores, "read", work)
    argv = [command, "--data", str(root / "built"), "--gold", str(root / "official"), *wrong]
    with pytest.raises(SystemExit) as stopped:
        reconstruction.main([*argv, *(["--scores", "a.npz"] if command == "measure" else [])])
    assert stopped.value.code == 2 and line in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_scores_every_query_of_a_build(root, data, tmp_path, capsys):
    files = {name: tmp_path / name for name in ("scores.npz", "again.npz", "report.json")}
    flags = [
        *("train", "--data", root / "built", "--gold", root / "official"),
        *("--width", 8, "--layers", 1, "--epochs", 1, "--em-epochs", 1, "--draws", 2),
        *("--min-count", 1, "--batch-size", 4),
    ]
    for name in ("scores.npz", "again.npz"):
        argv = [*flags, "--out", files[name], "--report", files["report.json"]]
        reconstruction.main(list(map(str, argv)))
    assert "given posterior" in capsys.readouterr().out
    scores, again = (
        SolutionScores.read(files[name], content=data.meta["content"])
        for name in ("scores.npz", "again.npz")
    )
    different = 0
    for question in data.questions:
        own = scores.of(question.id, len(question.queries))
        np.testing.assert_array_equal(own, again.of(question.id, len(question.queries)))
        different += len(set(own.tolist())) > 1
    assert different
    rows = json.loads(files["report.json"].read_text())["rows"]
    assert [(row["name"], row["explain"]) for row in rows] == [
        (name, explain) for name in ("given posterior", "EM") for explain in ("question", "context")
    ]
    assert len({row["weight"] for row in rows}) > 1 and len({row["drawn"] for row in rows}) == 1
    argv = [
        *flags,
        "--prior",
        files["scores.npz"],
        "--max-solutions",
        1,
        "--out",
        files["again.npz"],
    ]
    reconstruction.main(list(map(str, argv)))
    again = SolutionScores.read(files["again.npz"], content=data.meta["content"])
    assert all(not again.of(q.id, len(q.queries)).any() for q in data.questions)


def test_measuring_files_of_scores(root, data, tmp_path, capsys):
    """Scores that know the annotated query of every other question, beside those that know all."""
    split = data.with_golds(root / "official", "train")
    several = [q for q in data.questions if len(q.queries) > 1]
    knows = {q.id: np.zeros(len(q.queries)) for q in data.questions}
    places = {q.id: gold_in_solutions(q, split.golds[q.id]) for q in several}
    for question in several:
        knows[question.id][places[question.id]] = 5.0
    half = {id: values if n % 2 else -values for n, (id, values) in enumerate(knows.items())}
    for name, scores in ("all", knows), ("half", half):
        write_scores(tmp_path / f"{name}.npz", scores, content=data.meta["content"])
    files = [str(tmp_path / f"{name}.npz") for name in ("all", "half")]
    report = tmp_path / "report.json"
    built = ["measure", "--data", str(root / "built"), "--gold", str(root / "official")]
    reconstruction.main([*built, "--scores", *files, "--report", str(report)])
    found = json.loads(report.read_text())["by seed"]
    right = [float(n % 2) for n, q in enumerate(data.questions) if len(q.queries) > 1]
    assert 0 < np.mean(right) < 1
    np.testing.assert_allclose(found["largest score"], [100, 100 * np.mean(right)])
    first = 100 * np.mean([place == 0 for place in places.values()])
    np.testing.assert_allclose(found["first of Z"], first)
    drawn = 100 * np.mean([1 / len(q.queries) for q in several])
    np.testing.assert_allclose(found["drawn"], drawn)
    assert "questions with several queries, 2 seeds" in capsys.readouterr().out


def test_what_cannot_be_trained_on_is_said_first(root, tmp_path, capsys):
    flags = ["train", "--data", str(root / "built")]
    for more, message in (
        (["--folds", "99"], "--folds: expected at most the 12 questions"),
        (["--out", str(tmp_path / "none" / "a.npz")], "folder does not exist"),
    ):
        with pytest.raises(SystemExit):
            reconstruction.main([*flags, *more])
        assert message in capsys.readouterr().err
