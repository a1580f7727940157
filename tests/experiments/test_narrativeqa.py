"""NarrativeQA from its official layout to a score and an answer, on a tiny stand-in."""

import json
import re

import pytest

from experiments import narrativeqa
from hardem_jax.spans.readers.narrativeqa import QUESTIONS, SUMMARIES
from tests.commands import WINDOWS, call, evaluation, meta_of, output_of
from tests.data.builders.inputs import write_narrativeqa
from tests.tiny import write_checkpoint

NUM_DOCUMENTS = 8


def prepare_flags(root, out, *more):
    folder = ("--folder", root / "official", "--tokenizer", root / "bert")
    return ("prepare", *folder, "--out", out, *WINDOWS, *more)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The files, a checkpoint and prepared splits."""
    root = tmp_path_factory.mktemp("narrativeqa")
    write_checkpoint(root / "bert")
    write_narrativeqa(root / "official", documents=NUM_DOCUMENTS)
    call(narrativeqa, *prepare_flags(root, root / "train"))
    call(narrativeqa, *prepare_flags(root, root / "dev", "--split", "valid"))
    return root


def run_flags(root, command, out, *more):
    return [
        *(command, "--data", root / "train", "--dev", root / "dev", "--out", root / out),
        *("--model.encoder", root / "bert", "--model.num-layers", 1, "--num-devices", 1),
        *("--batches.batch-size", 4, "--batches.buckets", 32),
        *("--loop.num-steps", 2, "--loop.eval-every", 1),
        *("--loop.log-every", 1, "--loop.no-progress", *more),
    ]


def test_prepared_splits_tell_what_they_hold(root, capsys):
    train, dev = meta_of(root / "train"), meta_of(root / "dev")
    assert train["metric"] == "rouge" and train["counts"]["questions"] == NUM_DOCUMENTS
    assert train["excluded"] == {"answer not in the documents": NUM_DOCUMENTS}
    # The person is named three times, each time exactly as in the answer.
    assert train["solutions per question"] == {"mean": 3.0, "median": 3.0, "max": 3}
    assert dev["counts"]["questions"] == 2 * NUM_DOCUMENTS and dev["excluded"] == {}
    assert dev["counts"]["questions with a mention"] == NUM_DOCUMENTS
    assert train["sources"]["folder"] == dev["sources"]["folder"]
    assert set(train["sources"]["folder"]) == {QUESTIONS, SUMMARIES}


def test_rules_decide_what_is_in_z(root, tmp_path, capsys):
    # Next to the name alone come two words with it, F 2/3: before it, or behind it.
    call(narrativeqa, *prepare_flags(root, tmp_path / "noisy", "--rules.keep", 4))
    noisy = meta_of(tmp_path / "noisy")
    assert noisy["solutions per question"]["mean"] == 3 + 5
    call(narrativeqa, *prepare_flags(root, tmp_path / "five", "--rules.keep", 5, "--rules.no-ties"))
    assert meta_of(tmp_path / "five")["solutions per question"]["max"] == 5
    assert noisy["sources"] != meta_of(root / "train")["sources"]


@pytest.mark.slow
def test_a_run_is_scored_by_rouge_and_predicts(root, capsys, tmp_path):
    call(narrativeqa, *run_flags(root, "train", "run"))
    assert re.search(r"best rouge_l [\d.]{1,5} at step \d", capsys.readouterr().out)
    predictions = tmp_path / "predictions.json"
    command = ("evaluate", "--num-devices", 1, "--run-dir", root / "run", "--data", root / "dev")
    printed = output_of(narrativeqa, capsys, *command, "--predictions", predictions)
    assert "rouge_l |Z|=0" in printed
    scores = evaluation(printed)["scores"]
    assert {"rouge_l", "rouge_l_0_3_2", "lcs_f1", "em", "rouge_l |Z|=3-4"} <= set(scores)
    assert "f1" not in scores and "questions" not in scores
    answers = json.loads(predictions.read_text())
    assert len(answers) == 2 * NUM_DOCUMENTS
    assert all(text == text.lower() for text in answers.values())
