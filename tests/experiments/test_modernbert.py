"""A reader on ModernBERT by its commands, from data to an export, in PyTorch and in jax alone."""

import json
import warnings

import jax
import numpy as np
import pytest

from experiments import squad_layout
from hardem_jax.data.inputs.windows import whole_words
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.models.checkpoints.span_reader import load_reader
from tests.commands import call, evaluation
from tests.tiny import write_modernbert, write_squad_layout

BATCHES = ["--num-devices", 1, "--batches.batch-size", 4, "--batches.buckets", 40]
LOOP = ["--loop.num-steps", 2, "--loop.eval-every", 2, "--loop.log-every", 1, "--loop.no-progress"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_modernbert(tmp_path_factory.mktemp("modernbert") / "encoder")


def test_special_tokens_and_places_of_words(folder):
    tokenizer = load_tokenizer(folder)
    raw = json.loads((folder / "tokenizer.json").read_text())
    ids = {token["content"]: token["id"] for token in raw["added_tokens"]}
    template = tokenizer.template
    assert (template.before, template.between) == ((ids["[CLS]"],), (ids["[SEP]"],))
    assert template.after == (ids["[SEP]"],)
    assert (tokenizer.pad_id, tokenizer.unknown_id) == (ids["[PAD]"], ids["[UNK]"])
    text = "Ada  lives in Malmö   (東京)."
    (encoding,) = tokenizer.encode([text])
    pieces = [text[start:end] for start, end in encoding.offsets]
    assert any(piece == "" for piece in pieces), "no token of blanks only"
    assert all(piece == piece.strip() for piece in pieces)
    assert "Ada" in pieces and "in" in pieces  # the second without its blank
    first, last = whole_words([text], [encoding.offsets])
    starts = [start for start, _ in encoding.offsets[first].tolist() if not text[start].isspace()]
    ends = [end for _, end in encoding.offsets[last].tolist()]
    for word in ("Ada", "lives", "in", "Malmö", "(", "東京", "."):
        assert text.index(word) in starts and text.index(word) + len(word) in ends, word
    # Behind two blanks, which are a token of their own, the word is several tokens.
    inside = range(text.index("lives") + 1, text.index("lives") + 5)
    assert any(start in inside for start, _ in encoding.offsets.tolist())
    assert not any(start in inside for start in starts)


@pytest.mark.slow
def test_a_reader_is_prepared_trained_evaluated_and_exported(folder, tmp_path, capsys):
    file = write_squad_layout(tmp_path / "squad.json", questions=8)
    windows = ["--windows.max-tokens", 40, "--windows.stride", 16]
    windows += ["--windows.max-question-tokens", 12]
    for split in "train", "dev":
        call(
            squad_layout,
            *("prepare", "--file", file, "--tokenizer", folder, "--split", split),
            *("--out", tmp_path / split, *windows),
        )
    call(
        squad_layout,
        *("train", "--data", tmp_path / "train", "--dev", tmp_path / "dev"),
        *("--out", tmp_path / "run", "--model.encoder", folder, *BATCHES),
        *("--batches.packed-tokens", 40, *LOOP, "objective:hard-em"),
    )
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["encoder"]["model_type"] == "modernbert"
    capsys.readouterr()
    call(
        squad_layout,
        *("evaluate", "--run-dir", tmp_path / "run", "--data", tmp_path / "dev"),
        *("--num-devices", 1, "--predictions", tmp_path / "answers.json"),
    )
    assert evaluation(capsys.readouterr().out)["counts"]["questions"] == 8
    context = {
        asked["id"]: paragraph["context"]
        for paragraph in json.loads(file.read_text())["data"][0]["paragraphs"]
        for asked in paragraph["qas"]
    }
    for question, answer in json.loads((tmp_path / "answers.json").read_text()).items():
        assert answer and answer == answer.strip() and answer in context[question]
    out = tmp_path / "exported"
    call(squad_layout, "export", "--run-dir", tmp_path / "run", "--out", out, "--program")
    reader, tokenizer = load_reader(out), load_tokenizer(out)
    ids = tokenizer.template.join(*(x.ids for x in tokenizer.encode(["Who?", "Ada saw Bo."])))
    where = np.ones((1, len(ids)), bool)
    batch = {"token_ids": ids[None], "token_type_ids": 0 * ids[None], "where": where}
    batch["context"] = where & (np.arange(len(ids)) > 3)
    reading = reader(batch)
    program = jax.export.deserialize(bytearray((out / "reader.jaxprogram").read_bytes()))
    found = program.call(batch)
    np.testing.assert_allclose(found["start"], reading.spans.start, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["selector_logits"], reading.selector_logits, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they deprecate parts of themselves at import
        torch = pytest.importorskip("torch")
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer
    theirs = AutoModelForQuestionAnswering.from_pretrained(out).eval()
    inputs = AutoTokenizer.from_pretrained(out)("Who?", "Ada saw Bo.", return_tensors="pt")
    assert inputs["input_ids"][0].tolist() == ids.tolist()
    assert "token_type_ids" not in inputs
    with torch.no_grad():
        logits = theirs(**inputs).start_logits.numpy()
    scores = reading.spans.start + reading.spans.log_partitions[:, :1]
    np.testing.assert_allclose(logits[batch["context"]], scores[batch["context"]], atol=1e-5)
