"""Encoders out of fine-tuned checkpoints that transformers itself wrote."""

import re

import numpy as np
import pytest

from hardem_jax.encoders.bert import Bert
from hardem_jax.encoders.pretrained import load_encoder
from hardem_jax.encoders.roberta import Roberta
from hardem_jax.errors import InputError

RNG = np.random.default_rng(0)
WHERE = np.arange(9)[None] < np.array([9, 4, 6])[:, None]
IDS = np.where(WHERE, RNG.integers(2, 40, (3, 9)), 1)
TYPES = RNG.integers(0, 2, (3, 9))
SIZES = dict(
    vocab_size=40,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
)
HEADS = {
    "BertForQuestionAnswering": ("qa_outputs",),
    "RobertaForSequenceClassification": ("classifier",),
    "DPRReader": ("qa_outputs", "qa_classifier"),
}


def save_fine_tuned(torch_bert, name, folder, **sizes):
    """A model of this class with random weights far from their small start, saved."""
    torch, transformers = torch_bert
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**SIZES | sizes)).eval()
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.5)
    model.save_pretrained(folder)
    return model


def torch_outputs(torch, model, where=WHERE, **inputs):
    mask = torch.from_numpy(where.astype(np.int64))
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(IDS), attention_mask=mask, **inputs)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_has_to_be_ignored_by_name(torch_bert, tmp_path, name):
    torch, _ = torch_bert
    # Published checkpoints of RoBERTa have one token type.
    sizes = {"type_vocab_size": 1} if name.startswith("Roberta") else {}
    model = save_fine_tuned(torch_bert, name, tmp_path, **sizes)
    heads = HEADS[name]
    with pytest.raises(InputError) as caught:
        load_encoder(tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message and "missing" not in message
    for head in heads:
        assert re.search(rf"not used: (span_predictor\.)?{head}\..*weight", message)
    assert f"ignore={heads!r}, or --model.ignore {' '.join(heads)}" in message
    encoder = load_encoder(tmp_path, ignore=heads)
    assert type(encoder) is (Roberta if "Roberta" in name else Bert)
    inputs = {"token_type_ids": torch.from_numpy(TYPES)} if name.startswith("Bert") else {}
    states = torch_outputs(torch, model, output_hidden_states=True, **inputs).hidden_states
    # RoBERTa and the reader of DPR have one token type, whatever the input says.
    found = encoder(IDS, where=WHERE, token_type_ids=TYPES)
    np.testing.assert_allclose(found[WHERE], states[-1].numpy()[WHERE], rtol=0, atol=1e-5)


def test_only_the_heads_that_are_named_are_ignored(torch_bert, tmp_path):
    save_fine_tuned(torch_bert, "DPRReader", tmp_path)
    with pytest.raises(InputError, match=r"in 2 places.*ignore=\('qa_classifier',\)") as caught:
        load_encoder(tmp_path, ignore=["qa_outputs"])
    assert "not used: span_predictor.qa_outputs" not in str(caught.value)


def test_only_heads_can_be_ignored(folder):
    load_encoder(folder, ignore=["classifier"])
    with pytest.raises(InputError, match="ignore: expected some of qa_outputs, .*found 'encoder'"):
        load_encoder(folder, ignore=["encoder"])
    with pytest.raises(TypeError, match="ignore: .* list of strings, found the string 'cl"):
        load_encoder(folder, ignore="classifier")


@pytest.mark.parametrize(
    ("name", "size", "fault"),
    [
        ("DPRReader", 4, "projection_dim: expected 0, found 4"),
        ("DPRQuestionEncoder", 0, "expected ['DPRReader'], found ['DPRQuestionEncoder']"),
    ],
)
def test_a_projection_and_other_models_of_dpr_are_refused(torch_bert, tmp_path, name, size, fault):
    save_fine_tuned(torch_bert, name, tmp_path, projection_dim=size)
    with pytest.raises(InputError, match=re.escape(fault)):
        load_encoder(tmp_path, ignore=["qa_outputs", "qa_classifier"])
