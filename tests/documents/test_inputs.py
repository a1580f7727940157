"""Which tokens begin and end whole words: all that Z needs, and no pieces of words."""

import itertools

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.tokenizer import Tokenizer, load_tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.inputs import NO_ANSWER, pad_windows, whole_words
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.spans.readers.triviaqa import read_triviaqa
from tests.tiny import roberta_tokenizer

NASTY = (
    "Café Ca n't foo_bar 1,000.5 x2 ½ naı̈ve e\u0301te\u0301 東京タワー 3.5km -7 U.S. don’t ''A''"
)


@pytest.fixture(scope="module", params=["wordpieces", "byte-level"])
def tokenizer(request):
    if request.param == "wordpieces":
        return load_tokenizer(request.getfixturevalue("minilm_dir"))
    return Tokenizer(roberta_tokenizer())


def check(examples, tokenizer):
    """Returns how many mentions begin and end where whole words do: all of them."""
    total, pieces, tokens = 0, 0, 0
    for window in itertools.chain.from_iterable(
        make_windows(example, tokenizer, WindowConfig()) for example in examples
    ):
        starts, ends = whole_words([window.text], [window.offsets])
        first, last = (window.solutions - window.context_start).T
        assert starts[first].all() and ends[last].all()
        total += len(first)
        pieces += np.count_nonzero(~starts)
        tokens += len(starts)
    assert 0.05 < pieces / tokens < 0.9  # there is something to forbid
    return total


def test_every_mention_of_triviaqa_is_allowed(shared_dir, tokenizer):
    folder = shared_dir / "data" / "triviaqa"
    examples = read_triviaqa(
        folder / "qa" / "wikipedia-dev.json", folder / "evidence", skips=ExclusionCounts()
    )
    assert check(itertools.islice(examples, 40), tokenizer) > 200


@pytest.mark.parametrize("alias", NASTY.replace("''", " ").replace("_", " ").split())
def test_every_mention_in_a_nasty_text_is_allowed(tokenizer, alias):
    example = ReadingExample("q", "?", (Document("d", NASTY),), (alias,), (alias,))
    [window] = make_windows(example, tokenizer, WindowConfig())
    starts, ends = whole_words([window.text], [window.offsets])
    first, last = (window.solutions - window.context_start).T
    assert starts[first].all() and ends[last].all()


@pytest.mark.parametrize(
    ("text", "offsets", "starts", "ends"),
    [
        ("Corbusier", [(0, 3), (3, 6), (6, 9)], [1, 0, 0], [0, 0, 1]),
        ("a b", [(0, 1), (2, 3)], [1, 1], [1, 1]),
        ("1,000", [(0, 1), (1, 2), (2, 5)], [1, 0, 0], [0, 0, 1]),
        ("1, 000", [(0, 1), (1, 2), (3, 6)], [1, 1, 1], [1, 1, 1]),
        # A piece of one word with the beginning, or the end, of another.
        ("foo_bar", [(0, 2), (2, 5), (5, 7)], [1, 1, 0], [0, 1, 1]),
        # The accent is dropped by the tokenizer and belongs to the token before.
        ("cafe\u0301s x", [(0, 4), (5, 6), (7, 8)], [1, 0, 1], [0, 1, 1]),
        # So do other characters that it drops.
        ("abc d", [(1, 3), (4, 5)], [1, 1], [1, 1]),
        ("abc d", [(0, 2), (4, 5)], [1, 1], [1, 1]),
        ("東京", [(0, 1), (1, 2)], [1, 1], [1, 1]),
        ("", [], [], []),
    ],
)
def test_table_of_tokens(text, offsets, starts, ends):
    found = whole_words([text], [np.array(offsets, int).reshape(-1, 2)])
    assert [part.astype(int).tolist() for part in found] == [starts, ends]


def test_blanks_and_padding_begin_and_end_nothing(tokenizer):
    example = ReadingExample("q", "who?", (Document("d", "Hi  Bo."),), ("Bo",), ("Bo",))
    [window] = make_windows(example, tokenizer, WindowConfig())
    batch = pad_windows([window, None], 32, num_solutions=1, pad_id=0)
    for name in ("word_starts", "word_ends"):
        assert batch[name].dtype == bool and batch[name].shape == (2, 32)
        assert not (batch[name] & ~batch["context"]).any() and not batch[name][1].any()
    first, last = window.solutions[0]
    assert batch["word_starts"][0, first] and batch["word_ends"][0, last]


def test_texts_looked_at_together_are_as_alone(tokenizer):
    texts = [NASTY, "x", "Corbusier", NASTY[3:], "1,000"]
    examples = (ReadingExample("q", "?", (Document("d", t),), ("x",), ("x",)) for t in texts)
    windows = [make_windows(example, tokenizer, WindowConfig())[0] for example in examples]
    together = whole_words([w.text for w in windows], [w.offsets for w in windows])
    alone = [whole_words([w.text], [w.offsets]) for w in windows]
    for found, parts in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(found, np.concatenate(parts))
    assert [len(part) for part in whole_words([], [])] == [0, 0]


def test_parts_tell_choices_from_the_document(tokenizer):
    config = WindowConfig(choices=("yes", "没有", "unknown"))  # each letter of 没有 is a word
    example = ReadingExample("q", "Who?", (Document("d", "Ada, no."),), ("Ada",), ("Ada",))
    [window] = make_windows(example, tokenizer, config)
    batch = pad_windows([window, None], 64, num_solutions=1, pad_id=tokenizer.pad_id)
    words = {}
    for position in np.flatnonzero(batch["context"][0]):
        words.setdefault(int(batch["parts"][0, position]), []).append(position)
    texts = {part: window.span_text(own[0], own[-1]) for part, own in words.items()}
    assert texts == {1: "yes", 2: "没有", NO_ANSWER: "unknown", 0: "Ada, no."}
    for part in (1, 2, NO_ANSWER):
        own = batch["parts"][0] == part
        assert batch["word_starts"][0, own].sum() == batch["word_ends"][0, own].sum() == 1
    assert not batch["parts"][1].any()
