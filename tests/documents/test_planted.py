"""The planted corpus: its true solutions are in Z, and nothing gives them away."""

import hashlib

import numpy as np
import pytest

from hardem_jax.documents.mentions import AliasMatcher, enumerate_spans
from hardem_jax.documents.planted import (
    OTHER_VERBS,
    SPURIOUS_VERBS,
    PlantedConfig,
    planted_examples,
    planted_tokenizer,
)
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.errors import InputError
from hardem_jax.words import split_words

CONFIG = PlantedConfig(num_train=600, num_dev=100)


@pytest.fixture(scope="module")
def train():
    return list(planted_examples(CONFIG, "train"))


def test_the_true_mention_is_one_of_z_and_answers_the_question(train):
    for example in train[:100]:
        text = example.documents[0].text
        _, start, end = example.true_mention
        spans = enumerate_spans(split_words(text), AliasMatcher(example.aliases)).tolist()
        assert [start, end] in spans
        verb = example.question.removeprefix("Who ").removesuffix("?")
        assert text[start:].splitlines()[0] == f"{example.golds[0]} {verb}"
        assert text.count(f" {verb}\n") == 1


def test_every_word_is_a_piece_of_the_tokenizer(train):
    tokenizer, config = planted_tokenizer(), WindowConfig(64, 32, 8)
    for example in [*train[:100], *planted_examples(CONFIG, "dev")]:
        [window] = make_windows(example, tokenizer, config)
        assert 1 not in window.token_ids  # [UNK]
        assert window.true_solution >= 0


def generated(split="train", **knobs):
    """Examples, each with its Z as character spans and the lines of its document."""
    config = PlantedConfig(**{"num_train": 1000, "num_dev": 1000, "decoys": 2} | knobs)
    for example in planted_examples(config, split):
        text = example.documents[0].text
        if example.mentions is None:
            found = enumerate_spans(split_words(text), AliasMatcher(example.aliases)).tolist()
        else:
            found = [list(mention[1:]) for mention in example.mentions]
        yield example, found, [line.split() for line in text.splitlines()]


def assert_share(hits, expected):
    """Four standard deviations of a binomial share; exactly, where it is 0 or 1."""
    spread = 4 * np.sqrt(expected * (1 - expected) / len(hits))
    assert len(hits) == 1000 and abs(np.mean(hits) - expected) <= spread


@pytest.mark.parametrize(
    ("config", "digest"),
    [
        (PlantedConfig(num_train=200, num_dev=20), "e69e4161b20380f5"),
        (PlantedConfig(200, 20, num_people=2, max_passing=4, seed=3), "327ce74ee62bc5af"),
    ],
)
def test_without_knobs_the_corpus_is_what_it_was_before_there_were_any(config, digest):
    examples = [e for split in ("train", "dev") for e in planted_examples(config, split)]
    # The digests are of a time before this field.
    text = "".join(map(repr, examples)).replace(", all_required=False", "").encode()
    assert hashlib.sha256(text).hexdigest()[:16] == digest


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_spurious_mention_is_as_frequent_as_asked_for(split, share):
    hits, alone = [], []
    for example, _, lines in generated(split, spurious=share):
        spurious = SPURIOUS_VERBS[example.question.removeprefix("Who ").removesuffix("?")]
        holders = [name for name, verb in lines if verb == spurious]
        hits.append(example.golds[0] in holders)
        alone.append(holders == [example.golds[0]])
    assert_share(hits, share + (1 - share) * (1 - (1 - 1 / len(OTHER_VERBS)) ** 2))
    # Once among the eight entries of all people, and with the answer.
    once = 2 / len(OTHER_VERBS) * (1 - 1 / len(OTHER_VERBS)) ** 7
    assert_share(alone, share + (1 - share) * once)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_true_mention_is_missing_as_often_as_asked_for(share):
    hits = []
    for example, found, _ in generated(missing=share):
        true = list(example.true_mention[1:])
        hits.append(true not in found)
        text = example.documents[0].text
        everywhere = enumerate_spans(split_words(text), AliasMatcher(example.golds)).tolist()
        assert [span for span in everywhere if span in found or span == true] == everywhere
        assert len(found) == 3 - hits[-1]
    assert_share(hits, share)
    assert all(len(found) == 3 for _, found, _ in generated("dev", missing=share))


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("share", [0.0, 0.7, 1.0, None])
def test_the_true_mention_is_first_as_often_as_asked_for(split, share):
    ranks = [
        found.index(list(example.true_mention[1:]))
        for example, found, _ in generated(split, first=share)
    ]
    assert_share([rank == 0 for rank in ranks], 1 / 3 if share is None else share)
    later = [rank for rank in ranks if rank]
    if later:
        assert abs(np.mean(np.array(later) == 1) - 0.5) < 4 * 0.5 / np.sqrt(len(later))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_answer_is_of_another_question_as_often_as_asked_for(share):
    hits = []
    for example, found, lines in generated(noise=share):
        verb = example.question.removeprefix("Who ").removesuffix("?")
        [true] = [name for name, other in lines if other == verb]
        _, start, end = example.true_mention
        assert example.documents[0].text[start:end] == true
        assert example.aliases == example.golds and len(found) == 3
        hits.append(example.golds[0] != true)
        assert ([start, end] in found) != hits[-1]
    assert_share(hits, share)
    assert all(example.golds[0] == text_of(example) for example, *_ in generated("dev", noise=1.0))


def text_of(example):
    """What the true mention reads."""
    _, start, end = example.true_mention
    return example.documents[0].text[start:end]


def test_a_larger_share_adds_questions_to_those_of_a_smaller_one():
    few, many, none = (
        [example for example, *_ in generated(num_train=300, noise=share)]
        for share in (0.2, 0.4, 0.0)
    )
    assert [e.documents for e in few] == [e.documents for e in many] == [e.documents for e in none]
    changed = [
        {e.id for e, plain in zip(part, none, strict=True) if e.golds != plain.golds}
        for part in (few, many)
    ]
    assert changed[0] < changed[1]


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        (dict(num_people=1), "num_people"), (dict(num_verbs=6), "num_verbs"),
        (dict(spurious=0.5), "spurious"), (dict(missing=0.5), "missing"),
        (dict(decoys=0, first=0.0), "first"), (dict(decoys=1, noise=0.6, missing=0.5), "missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(wrong, culprit):
    with pytest.raises(InputError, match=f"^{culprit}: expected"):
        PlantedConfig(**wrong)
