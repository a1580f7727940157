"""Watched questions: what is recorded at an evaluation is what the model says."""

import dataclasses
import json

import numpy as np
import pytest
from flax import nnx

from experiments import triviaqa, wikisql
from hardem_jax.cli.watching import draw_watched, recorded_views, watched
from hardem_jax.data.batching.padding import fitting
from hardem_jax.documents.questions import ReadingQuestions
from hardem_jax.errors import InputError
from hardem_jax.queries.solutions.types import Query
from hardem_jax.queries.task import QueryQuestions, QueryTask
from hardem_jax.spans.task import SpanTask
from hardem_jax.task.base import Questions
from hardem_jax.task.trained import Trained
from tests.commands import call, fails
from tests.show.html_pages import Page, view
from tests.tiny import write_checkpoint, write_triviaqa, write_wikisql

LOOP = ("--loop.num-steps", 2, "--loop.eval-every", 1, "--loop.no-progress", "--num-devices", 1)


@dataclasses.dataclass(frozen=True)
class Asked:
    id: str


def test_an_unknown_question_is_named():
    data = Questions(questions=[Asked("a"), Asked("b")], left_out={"c": "why"})
    chosen = watched(data, ["b"])
    assert chosen.questions == [Asked("b")] and not chosen.left_out
    with pytest.raises(InputError, match=r"--watched: expected ids of questions \(a, b, ...\)"):
        watched(data, ["b", "c"])


def test_records_are_read_in_the_order_of_steps_and_drawn(tmp_path, capsys):
    for step, chance in ((900, 0.1), (1000, 0.7)):
        (tmp_path / "run" / "watched").mkdir(parents=True, exist_ok=True)
        record = [dataclasses.asdict(view([chance, 0.2], 0))]
        (tmp_path / "run" / "watched" / f"{step}.json").write_text(json.dumps(record))
    found = recorded_views(tmp_path / "run")
    assert {step: one.probabilities[0] for step, one in found["q"].items()} == {900: 0.1, 1000: 0.7}
    assert list(found["q"]) == [900, 1000]
    draw_watched({"MML": tmp_path / "run", "none": tmp_path / "other"}, ["q", "r"], tmp_path)
    assert [file.name for file in tmp_path.glob("*.html")] == ["watched-q.html"]
    assert capsys.readouterr().out.startswith("--watched r: recorded by none of the runs")
    page = Page((tmp_path / "watched-q.html").read_text(encoding="utf-8"))
    assert page.texts("th", "chance") == ["900", "1,000"] and page.texts("title") == ["Who?"]
    assert page.texts("td", "predicted") == ["0.100", "0.700"]


def test_every_question_has_a_picture_of_its_own(tmp_path):
    ids = ["東", "西", "a/1", "a 1", "a-1", "x" * 300]
    (tmp_path / "watched").mkdir()
    records = [dataclasses.asdict(dataclasses.replace(view([0.1], 0), id=id)) for id in ids]
    (tmp_path / "watched" / "1.json").write_text(json.dumps(records))
    draw_watched({"MML": tmp_path}, ids, tmp_path)
    assert len(list(tmp_path.glob("watched-*.html"))) == len(ids)
    assert (tmp_path / "watched-a-1.html").is_file()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("watched")
    bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root)
    call(
        *(triviaqa, "prepare", "--qa-file", qa_file, "--evidence", root / "evidence"),
        *("--tokenizer", bert, "--out", root / "data", "--windows.max-tokens", 20),
        *("--windows.stride", 4, "--windows.max-question-tokens", 8),
    )
    return root / "data"


@pytest.mark.slow
def test_mentions(prepared, capsys):
    root, data = prepared.parent, ReadingQuestions.open(prepared)
    ids = [question.id for question in data.questions[:2]]
    flags = [
        *("train", "--data", prepared, "--dev", prepared, "--model.encoder", root / "bert"),
        *("--model.num-layers", 1, "--batches.batch-size", 4, "--batches.buckets", 32, *LOOP),
    ]
    call(triviaqa, *flags, "--out", root / "run", "--watched", *ids, "objective:mml")
    views = recorded_views(root / "run")
    assert {id: list(steps) for id, steps in views.items()} == {id: [1, 2] for id in ids}
    # The last parameters, asked in another batch.
    trained = Trained(SpanTask, root / "run", "last", batch_size=3)
    _, answers = trained.evaluate(data)
    pad, best = trained.model.pad(data.windows, 8), {}
    for window in data.windows:
        batch = pad([window], 32)
        found = nnx.merge(trained.model.graphdef, trained.params)(batch)
        log_probs = found.spans.log_prob(batch["solutions"])[0]
        for z, (first, last) in enumerate(window.solutions):
            start = window.text_start + window.offsets[first - window.context_start, 0]
            key = (window.document, int(start), window.span_text(first, last))
            chances = best.setdefault(window.example_id, {})
            chances[key] = max(chances.get(key, 0.0), float(np.exp(log_probs[z])))
    windows = [window for window in data.windows if window.example_id in ids]
    mentions = sum(len(best[id]) for id in ids)
    assert mentions < sum(len(window.solutions) for window in windows)  # some are in two of them
    for id in ids:
        last = views[id][2]
        np.testing.assert_allclose(last.probabilities, list(best[id].values()), rtol=1e-4)
        for text, (_, _, mention) in zip(last.solutions, best[id], strict=True):
            assert f"[{mention}]" in text
        assert last.prediction == answers[id].text
        # In its window, as the probabilities of Z are, without that of the window.
        likely = [
            float(np.exp(log_prob))
            for index, reading in trained.reader.read(trained.params, data.windows)
            if data.windows[index].example_id == id
            for span, log_prob in zip(reading.spans, reading.log_probs, strict=True)
            if span == answers[id].span
        ]
        assert last.probability == pytest.approx(max(likely), rel=1e-4)
        assert last.probability > answers[id].probability
    line = fails(triviaqa, capsys, *flags, "--out", root / "new", "--watched", "x", "objective:mml")
    assert "--watched" in line and ids[0] in line


@pytest.mark.slow
def test_queries_in_a_comparison(tmp_path):
    room = 2
    bert, official = write_checkpoint(tmp_path / "bert"), write_wikisql(tmp_path / "official")
    call(wikisql, "prepare", "--folder", official, "--out", tmp_path / "built")
    call(
        *(wikisql, "compare", "--data", tmp_path / "built", "--dev", tmp_path / "built"),
        *("--dev-split", "train", "--gold", official, "--gold-split", "train"),
        *("--batches.batch-size", 4, "--batches.buckets", 32, "--model.encoder", bert),
        *("--batches.max-solutions", room),
        *("--model.num-layers", 1, "--model.num-target-layers", 1, "--model.num-lstm-layers", 1),
        *("--model.hidden-size", 8, "--model.max-tokens", 32, "--model.max-header-tokens", 3),
        *LOOP,
        *("--out", tmp_path / "runs", "--seeds", 0, "--objectives", "mml", "--shown", 0),
        *("--watched", "train-3", "train-1"),
    )
    assert {file.name for file in (tmp_path / "runs").glob("watched-*")} == {
        "watched-train-3.html", "watched-train-1.html",
    }  # fmt: skip
    views = recorded_views(tmp_path / "runs" / "mml-0")
    trained = Trained(QueryTask, tmp_path / "runs" / "mml-0", "last", batch_size=5)
    data = QueryQuestions.open(tmp_path / "built", "train").with_golds(official, "train")
    readings = dict(trained.reader.read(trained.params, trained.model.inputs(data)))
    assert max(len(data.questions[index].queries) for index in (1, 3)) > 2
    for index in (1, 3):
        question, last = data.questions[index], views[f"train-{index}"][2]
        np.testing.assert_allclose(last.probabilities, np.exp(readings[index].solutions), rtol=1e-4)
        header, count = data.tables[question.table_id].header, len(question.queries)
        rows = question.queries[fitting(question.id, count, room)]
        assert last.solutions == [
            Query.from_row(row, question.question, question.words).text(header) for row in rows
        ]
        gold = (data.golds or {})[question.id].text(header).lower()
        if last.true >= 0:
            assert last.solutions[last.true].lower() == gold
        else:
            assert gold not in map(str.lower, last.solutions)
        assert last.predicted < 0 or last.solutions[last.predicted] == last.prediction
        assert last.question == question.question
