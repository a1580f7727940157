"""The planted corpus: its true solutions are in Z, and nothing gives them away."""

import numpy as np
import pytest

from hardem_jax.data.planted.spans import PlantedConfig, planted_examples, planted_tokenizer
from hardem_jax.data.prepared.windows import WindowConfig, make_windows
from hardem_jax.errors import InputError
from hardem_jax.solutions.spans import AliasMatcher, enumerate_spans, split_words

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


def test_the_true_mention_is_equally_likely_to_be_any_of_z(train):
    ranks = {2: [], 3: []}
    for example in train:
        spans = enumerate_spans(
            split_words(example.documents[0].text), AliasMatcher(example.aliases)
        )
        if len(spans) in ranks:
            ranks[len(spans)].append(spans.tolist().index(list(example.true_mention[1:])))
    for size, found in ranks.items():
        counts = np.bincount(found, minlength=size)
        # Four standard deviations of a binomial share.
        spread = 4 * np.sqrt(len(found) * (1 / size) * (1 - 1 / size))
        assert len(found) > 100 and np.all(np.abs(counts - len(found) / size) < spread)


def test_counting_names_is_no_help(train):
    for example in train[:100]:
        names = [line.split()[0] for line in example.documents[0].text.splitlines()]
        _, counts = np.unique(names, return_counts=True)
        assert len(counts) == CONFIG.num_people and len(set(counts)) == 1


def test_names_of_the_splits_are_different(train):
    answers = {example.golds[0] for example in train}
    assert answers.isdisjoint(e.golds[0] for e in planted_examples(CONFIG, "dev"))


def test_the_corpus_is_a_function_of_its_configuration(train):
    assert list(planted_examples(CONFIG, "train")) == train
    other = PlantedConfig(num_train=600, num_dev=100, seed=1)
    assert list(planted_examples(other, "train")) != train


def test_every_word_is_a_piece_of_the_tokenizer(train):
    tokenizer, config = planted_tokenizer(), WindowConfig(64, 32, 8)
    for example in [*train[:100], *planted_examples(CONFIG, "dev")]:
        [window] = make_windows(example, tokenizer, config)
        assert 1 not in window.token_ids  # [UNK]
        assert window.true_solution >= 0


@pytest.mark.parametrize(
    "wrong", [dict(num_people=1), dict(num_verbs=6), dict(num_verbs=9), dict(max_passing=3)]
)
def test_sizes_that_cannot_be_are_named(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        PlantedConfig(**wrong)
