"""Finding a tokenizer: formats, and how what is none is refused."""

import json
import warnings

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, processors

from hardem_jax.data.tokenizer import PairTemplate, Tokenizer, load_tokenizer
from hardem_jax.errors import InputError
from tests.tiny import roberta_tokenizer

# Blanks of every kind, characters of one to four bytes, combining marks, special tokens.
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(["Ada", "lives", "Rome", "1,000", "x3", "东京", "😀", "e\u0301", "Zürich"]),
        st.sampled_from([" ", "  ", "\n", " \t ", "\u00a0", "\u2003", "\u3000", ".", "'s", "-"]),
        st.characters(codec="utf-8"),
    ),
    max_size=20,
).map("".join)
BYTE_LEVEL = {}
for _prefix in False, True:
    BYTE_LEVEL[f"RobertaProcessing, prefix {_prefix}"] = roberta_tokenizer(add_prefix_space=_prefix)
    # As in ModernBERT: the post-processor leaves blanks in the offsets.
    _tokenizer = roberta_tokenizer(add_prefix_space=_prefix)
    _tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    BYTE_LEVEL[f"TemplateProcessing, prefix {_prefix}"] = _tokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "rome", "##s", "Rome"]


def test_a_vocabulary_is_enough(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode(["Romes [SEP]"])[0].ids.tolist() == [4, 5, 3]
    assert (tokenizer.template, tokenizer.pad_id) == (PairTemplate((2,), (3,), (3,)), 0)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert load_tokenizer(tmp_path).encode(["Rome"])[0].ids.tolist() == [6]


@pytest.mark.parametrize("prefix", [False, True])
def test_a_byte_level_vocabulary_with_its_merges_is_enough(tmp_path, prefix):
    complete = roberta_tokenizer(add_prefix_space=prefix)
    complete.model.save(str(tmp_path))
    settings = {"add_prefix_space": prefix, "tokenizer_class": "RobertaTokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer, expected = load_tokenizer(tmp_path), Tokenizer(complete)
    text = " Ada lives in Zürich,  東京 😀<pad> or Rome"
    ours, theirs = tokenizer.encode([text])[0], expected.encode([text])[0]
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert ours.offsets.tolist() == theirs.offsets.tolist()
    assert tokenizer.template == expected.template == PairTemplate((0,), (2, 2), (2,))
    assert (tokenizer.pad_id, tokenizer.unknown_id) == (1, 3)
    hub = pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tmp_path)
    assert ours.ids.tolist() == hub(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "tokenizer.json: expected a tokenizer, found"),
        ("vocab.txt", "rome\n", r"vocab.txt: expected a BERT vocabulary, found no \[UNK\] in it"),
        ("vocab.txt", "[UNK]\n[PAD]", r"vocab.txt: .*found no \[CLS\] in it"),
        ("x", "", r"expected a tokenizer \(tokenizer.json, vocab.txt, merges.txt\), found none of"),
    ],
)
def test_what_is_no_tokenizer_is_named(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        load_tokenizer(tmp_path)


# --- byte-level BPE and templates ----------------------------------------------------------------


def post_processors():
    special = [("<s>", 0), ("</s>", 2)]
    template = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=special
    )
    bert = processors.TemplateProcessing(
        single="</s> $A <s>", pair="</s> $A <s> $B:1 <s>:1", special_tokens=special
    )
    last = processors.TemplateProcessing(
        single="$A </s> <s>", pair="$A </s> $B </s> <s>", special_tokens=special
    )
    return {
        "roberta": (processors.RobertaProcessing(("</s>", 2), ("<s>", 0)), ((0,), (2, 2), (2,))),
        "bert": (processors.BertProcessing(("</s>", 2), ("<s>", 0)), ((0,), (2,), (2,))),
        "template": (processors.Sequence([processors.ByteLevel(), template]), ((0,), (2, 2), (2,))),
        "typed": (bert, ((2,), (0,), (0,))),
        "last": (last, ((), (2,), (2, 0))),
    }


@pytest.mark.parametrize("name", post_processors())
def test_the_template_is_that_of_the_post_processor(name):
    tokenizer = roberta_tokenizer()
    tokenizer.post_processor, expected = post_processors()[name]
    pieces = Tokenizer(tokenizer)
    assert pieces.template == PairTemplate(*expected)
    assert (pieces.pad_id, pieces.unknown_id) == (1, 3)
    first, second = (found.ids for found in pieces.encode(["Who lives?", "Ada  lives in Rome."]))
    official = tokenizer.encode("Who lives?", "Ada  lives in Rome.")
    joined = pieces.template.join(first, second)
    assert joined.tolist() == official.ids and joined.dtype == np.int32
    assert pieces.template.second_start(len(first)) == official.sequence_ids.index(1)
    assert len(joined) == len(first) + len(second) + pieces.template.num_special_tokens


@pytest.mark.parametrize(
    ("post_processor", "vocabulary", "culprit"),
    [
        (processors.ByteLevel(), ["<s>", "<pad>", "</s>", "<unk>"], r"found no \[CLS\] in it"),
        (None, ["[CLS]", "[PAD]", "[UNK]"], r"found no \[SEP\] in it"),
        (None, ["[CLS]", "[SEP]", "[UNK]"], r"found no \[PAD\] or <pad> in it"),
        (None, ["[CLS]", "[SEP]", "[PAD]"], r"found no \[UNK\] or <unk> in it"),
    ],
)
def test_a_tokenizer_without_special_tokens_is_refused(post_processor, vocabulary, culprit):
    tokenizer = tokenizers.Tokenizer(models.BPE(dict(zip(vocabulary, range(9), strict=False)), []))
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    with pytest.raises(InputError, match=culprit):
        Tokenizer(tokenizer)


@pytest.mark.parametrize("kind", BYTE_LEVEL)
@settings(deadline=None)  # on a busy machine any text may take longer
@given(text=TEXTS, data=st.data())
def test_the_text_of_any_span_is_what_its_tokens_say(kind, text, data):
    pieces = Tokenizer(BYTE_LEVEL[kind]).encode([text])[0]
    starts, ends = pieces.offsets.T
    assert (np.diff(starts) >= 0).all() and (np.diff(ends) >= 0).all()
    assert ((starts >= 0) & (starts <= ends) & (ends <= len(text))).all()
    real = np.flatnonzero(starts < ends)
    # No blank at an end, and nothing but blanks between tokens.
    assert all(text[s:e] == text[s:e].strip() for s, e in pieces.offsets)
    covered = {i for s, e in pieces.offsets.tolist() for i in range(s, e)}
    assert all(i in covered or char.isspace() for i, char in enumerate(text))
    if not len(real):
        return
    first = data.draw(st.sampled_from(real.tolist()))
    last = data.draw(st.sampled_from(real[real >= first].tolist()))
    # Characters of several bytes may lie in several tokens: all of them, or decoding shows none.
    while first and ends[first - 1] > starts[first]:
        first -= 1
    while last + 1 < len(ends) and starts[last + 1] < ends[last]:
        last += 1
    said = BYTE_LEVEL[kind].decode(pieces.ids[first : last + 1].tolist(), skip_special_tokens=False)
    assert text[starts[first] : ends[last]] == said.strip()


def written_for_transformers(tokenizer, folder, *, token_types=True):
    """The tokenizer that AutoTokenizer makes of what is saved, beside the config of a BERT."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers deprecates parts of itself at import
        transformers = pytest.importorskip("transformers")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    tokenizer.save_pretrained(folder, max_tokens=64, token_types=token_types)
    return transformers.AutoTokenizer.from_pretrained(folder)


def pair_of(tokenizer, first, second):
    """The ids of two texts as a model is trained on them."""
    texts = (encoding.ids for encoding in tokenizer.encode([first, second]))
    return tokenizer.template.join(*texts).tolist()


@pytest.mark.parametrize("lower", [True, False])
def test_transformers_reads_the_same_vocabulary_and_casing(tmp_path, lower):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    tokenizer = load_tokenizer(tmp_path)
    folder = tmp_path / "saved"
    folder.mkdir()
    theirs = written_for_transformers(tokenizer, folder)
    assert theirs.get_vocab() == {piece: number for number, piece in enumerate(PIECES)}
    pair = theirs("Rome", "Romes rome")
    assert pair.input_ids == pair_of(tokenizer, "Rome", "Romes rome")
    assert pair.input_ids[1] == (4 if lower else 6)
    assert pair.token_type_ids == [0] * 3 + [1] * (len(pair.input_ids) - 3)
    names = ("pad", "unk", "cls", "sep")
    assert [getattr(theirs, f"{name}_token_id") for name in names] == [0, 1, 2, 3]
    assert theirs.mask_token is None and theirs.model_max_length == 64
    assert theirs.decode([4, 5]) == "romes"
    assert json.loads((folder / "tokenizer_config.json").read_text())["do_lower_case"] is lower
    assert pair_of(load_tokenizer(folder), "Rome", "rome") == pair_of(tokenizer, "Rome", "rome")
