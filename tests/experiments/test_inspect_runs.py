"""The inspector on runs, on splits without answers and on builds of documents."""

import json
import shutil

import pytest

from experiments import build, triviaqa
from hardem_jax.checksums import write_checksums
from hardem_jax.cli.watching import recorded_views
from hardem_jax.data.files import write_json
from tests.commands import call
from tests.inspector import block, refused, written
from tests.tiny import write_checkpoint, write_triviaqa

LOOP = ("--loop.num-steps", 2, "--loop.eval-every", 1, "--loop.no-progress", "--num-devices", 1)
CUT = ("--windows.max-tokens", 20, "--windows.stride", 4, "--windows.max-question-tokens", 8)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two runs of `compare` on relative paths, their split, and a build of the same documents."""
    root = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root)
        read = ("--qa-file", qa_file, "--evidence", root / "evidence", "--tokenizer", bert, *CUT)
        call(triviaqa, "prepare", *read, "--out", "data")
        secret = json.loads(qa_file.read_text())
        for item in secret["Data"]:
            del item["Answer"]
        qa_file.with_name("secret.json").write_text(json.dumps(secret))
        read = ("--qa-file", qa_file.with_name("secret.json"), *read[2:])
        call(triviaqa, "prepare", *read, "--out", "test", "--split", "test")
        options = ("--splits", "train", "data-set:triviaqa")
        call(build, "build", "--folder", root, "--out", "built", *options)
        call(
            *(triviaqa, "compare", "--data", "data", "--dev", "data", "--out", "runs"),
            *("--model.encoder", bert, "--model.num-layers", 1, "--batches.batch-size", 4),
            *("--batches.buckets", 32, *LOOP, "--seeds", 0, "--shown", 0, "--watched", "q1"),
            *("--objectives", "mml", "hard-em"),
        )
    return root


def test_documents_of_a_build_are_shown(tmp_path, show):
    write_triviaqa(tmp_path, questions=3)
    options = ("--splits", "train", "data-set:triviaqa")
    call(build, "build", "--folder", tmp_path, "--out", tmp_path / "built", *options)
    html = written(tmp_path / "built", tmp_path, "--split", "train")
    assert block(html, "about")["title"] == "hardem_triviaqa train"
    tab = show(html)
    [answer] = set(tab.locator("#question mark").all_inner_texts())
    assert answer != answer.lower() and answer == block(html, "all")[0][2]  # as it is written
    labels = [text.lower() for text in tab.locator("#question .label").all_inner_texts()]
    names = ["wikipedia/0.txt", "wikipedia/0-other.txt"]
    assert labels == [f"document {n + 1}: {name}" for n, name in enumerate(names)] + ["3 solutions"]
    places = tab.locator(".list .place").all_inner_texts()
    text = tab.locator(".text").first.inner_text()
    spans = [[int(n) for n in place.removeprefix(f"{names[0]}, ").split("-")] for place in places]
    assert [text[a:b] for a, b in spans] == [answer] * 3


@pytest.mark.slow
def test_runs_and_comparisons(compared, tmp_path, capsys, show):
    runs, data, watched = compared / "runs", compared / "data", "q1"
    html = written(runs, tmp_path)
    about, rows = block(html, "about"), block(html, "all")
    assert [run["name"] for run in about["runs"]] == ["Hard EM", "MML"]
    for number, folder in enumerate(("hard-em-0", "mml-0")):
        scores = json.loads((runs / folder / "by_question.json").read_text())["scores"]
        steps = [step for step, which in about["runs"][number]["moments"] if "last" in which]
        last = [block(html, f"q{i}")["runs"][number][str(steps[0])] for i in range(len(rows))]
        assert [100.0 * one["correct"] for one in last] == scores["em"]
        history = recorded_views(runs / folder)[watched]
        question = block(html, "q1")
        assert [*question["runs"][number]] == [str(step) for step in history]
        for step, view in history.items():
            own = question["runs"][number][str(step)]
            assert own["p"] == pytest.approx(view.probabilities, rel=1e-2)
            assert own["prediction"] == view.prediction
        for i in range(len(rows)):
            for said in block(html, f"q{i}")["runs"][number].values():
                if said["z"] >= 0:  # on one scale with Z
                    assert said["chance"] == pytest.approx(said["p"][said["z"]], rel=1e-2)
    assert show(html, "#q=1").locator("output").inner_text().endswith("of 2")
    one = written(runs / "mml-0", tmp_path, "--force", "--checkpoint", "last")
    assert [run["name"] for run in block(one, "about")["runs"]] == ["MML"]
    both = written(
        *(runs / "mml-0", tmp_path, "--force"),
        *("--against", runs / "hard-em-0", "--data", data, "--count", 5),
    )
    assert len(block(both, "all")) == 5 and len(block(both, "about")["runs"]) == 2
    other = shutil.copytree(data, tmp_path / "other")  # the same ids, other questions
    questions = other / "questions.jsonl"
    questions.write_text(questions.read_text().replace('"question": "', '"question": "Not '))
    write_checksums(other, [file for file in other.iterdir() if file.name != "checksums.json"])
    options = (tmp_path, "--force", "--data", other, "--checkpoint", "last")
    assert len(block(written(runs / "mml-0", *options), "q1")["runs"][0]) == 1 < len(history)
    new = tmp_path / "x.html"
    line = refused(capsys, runs, "--out", new, "--against", data)
    assert "expected a run or a comparison" in line
    refused(capsys, runs / "mml-0", "--out", new, "--split", "dev")
    line = refused(capsys, runs / "mml-0" / "best", "--out", new)
    assert "expected a run, found the checkpoint best of one" in line
    shutil.copytree(runs / "mml-0", tmp_path / "runs" / "mml-0")
    assert "found a folder of runs" in refused(capsys, tmp_path / "runs", "--out", new)
    assert not new.exists()
    config = tmp_path / "runs" / "mml-0" / "config.json"
    content = json.loads(config.read_text())
    content["flags"]["target"] = 3  # of a module's own `train`
    write_json(config, content)
    write_checksums(config.parent, [config])
    [run] = block(written(config.parent, tmp_path, "--force", "--data", data), "about")["runs"]
    assert run["name"] == "MML"


@pytest.mark.slow
def test_runs_read_what_has_no_answers(compared, tmp_path, capsys, show):
    run = compared / "runs" / "mml-0"
    test = written(run, tmp_path, "--data", compared / "test")
    known = written(run, tmp_path, "--force")
    assert not block(test, "about")["answers"] and block(known, "about")["answers"]
    for number, row in enumerate(block(test, "all")):
        assert row[2:] == ["", 0, [None]]
        ours, theirs = (
            {
                step: one["prediction"]
                for step, one in block(html, f"q{number}")["runs"][0].items()
                if "answer" in block(known, f"q{number}")["runs"][0][step]
            }
            for html in (test, known)
        )
        assert ours == theirs and all(ours.values())
    tab = show(test)
    last = [*block(test, "q0")["runs"][0].values()][-1]["prediction"]
    assert "".join(tab.locator(".text .said").all_inner_texts()) == last
    said = tab.locator("#question").inner_text()
    assert "Answer unknown" in said and "Z is unknown" in said and "Z|" not in said
    assert "right" not in said and "not in Z" not in said and "most likely" in said


@pytest.mark.slow
def test_runs_read_the_documents_of_a_build(compared, tmp_path, capsys):
    run, built = compared / "runs" / "mml-0", compared / "built"
    cut = written(run, tmp_path, "--data", built, "--split", "train")
    known = written(run, tmp_path, "--force")
    assert block(cut, "about")["title"] == "hardem_triviaqa train"
    assert [r[:4] for r in block(cut, "all")] == [r[:4] for r in block(known, "all")]
    for number in range(len(block(cut, "all"))):
        ours, theirs = (block(html, f"q{number}")["runs"] for html in (cut, known))
        assert ours == theirs
    new = tmp_path / "new.html"
    assert "split" in refused(capsys, run, "--data", built, "--out", new)  # it has no "dev"
