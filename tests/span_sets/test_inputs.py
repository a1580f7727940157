"""Sets of mentions as they reach the reader: whole words, and Z that reads the answer."""

import dataclasses
import itertools

import numpy as np
import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.records import RecordSource, RecordWriter
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.mentions import MAX_COUNT, alias_forms, count_taggings
from hardem_jax.documents.squad import read_squad_layout
from hardem_jax.documents.windows import WINDOWS, WindowConfig, make_windows
from hardem_jax.errors import InputError
from hardem_jax.span_sets.inputs import (
    marked_tokens,
    pad_taggings,
    taggings_of,
    tokens_of,
    words_of,
)
from tests.documents.test_inputs import tokenizer as tokenizer  # noqa: PLC0414, a fixture
from tests.tiny import roberta_tokenizer

WIDE = WindowConfig(max_tokens=512)


@pytest.fixture(scope="module")
def roberta():
    return Tokenizer(roberta_tokenizer())


def example(text, *texts):
    return ReadingExample("q", "Who?", (Document("d", text),), texts, texts, all_required=True)


def texts_of(window):
    assert window.texts is not None
    return window.texts.tolist()


def forms(texts):
    return {alias_forms(text) for text in texts}


def test_every_tagging_of_quoref_reads_the_answer(shared_dir, tokenizer):
    file = shared_dir / "data" / "quoref" / "quoref-dev-v0.1.json"
    several = 0
    examples = read_squad_layout(
        file, skips=ExclusionCounts(), answers_are="all required", keep_several=True
    )
    for own in itertools.islice(examples, 80):
        own = dataclasses.replace(own, all_required=True)
        for window in make_windows(own, tokenizer, WIDE):
            words = words_of(window)
            mentions, chosen = taggings_of(window, words, max_mentions=64, max_taggings=50)
            assert bool(len(chosen)) == bool(window.num_solutions)
            assert window.num_solutions >= len(chosen)
            texts = [window.span_text(*tokens_of(window, words, *m)) for m in mentions]
            for row in chosen:
                assert forms(itertools.compress(texts, row)) == forms(own.aliases)
            several += len(chosen) > 0 and len(forms(own.aliases)) > 1
    assert several > 3


def test_a_window_without_all_texts_has_no_z(roberta):
    text = "Ada ran. " + "He ran far. " * 30 + "Bo ran. Ada met Bo."
    config = WindowConfig(max_tokens=40, stride=20, max_question_tokens=8, max_windows=None)
    windows = make_windows(example(text, "Ada", "Bo"), roberta, config)
    assert [window.num_solutions for window in windows][0] == 0  # Ada alone
    last = windows[-1]
    assert sorted(texts_of(last)) == [0, 1, 1] and last.num_solutions == 3
    # The other way round: either is enough.
    either = dataclasses.replace(example(text, "Ada", "Bo"), all_required=False)
    assert make_windows(either, roberta, config)[0].num_solutions == 1


@pytest.mark.parametrize(
    ("text", "texts", "expected"),
    [
        ("C or C++", ["C", "C++"], [["C", "C"]]),
        ("5 or -5, not 5", ["5", "-5"], [["5", "5"]] * 3 + [["5", "5", "5"]]),
        ("from € to £", ["€", "£"], [["€", "£"]]),
        ("100 or £100", ["£100", "100"], [["100", "£100"]]),
        ("C", ["C", "C++"], []),
    ],
)
def test_texts_with_the_same_words_are_all_required(roberta, text, texts, expected):
    [window] = make_windows(example(text, *texts), roberta, WIDE)
    found = marked_tokens(window, max_mentions=9, max_taggings=9)
    assert [[window.span_text(*span) for span in spans] for spans in found] == expected
    assert len(set(map(tuple, found))) == len(found) and (window.num_solutions > 0) == bool(found)


def test_windows_survive_the_disk_and_others_are_as_they_were(roberta, tmp_path):
    required = example("Ada met Bo and Ada.", "Ada", "Bo")
    windows = [
        make_windows(own, roberta, WIDE)[0]
        for own in (required, dataclasses.replace(required, all_required=False))
    ]
    writer = RecordWriter(tmp_path / "w", WINDOWS)
    for window in windows:
        writer.write(window)
    writer.close()
    both = RecordSource(tmp_path / "w", WINDOWS)
    assert texts_of(both[0]) == [0, 1, 0] and both[1].texts is None
    assert both.sizes[:, 1].tolist() == [3, 3]
    assert b"texts" in WINDOWS.encode(windows[0])
    assert b"texts" not in WINDOWS.encode(windows[1])  # splits of earlier versions are the same


def test_choices_are_refused(roberta):
    with pytest.raises(InputError, match="choices: expected none"):
        make_windows(
            example("Ada.", "Ada"), roberta, dataclasses.replace(WIDE, choices=("yes", "no"))
        )


def test_mentions_beyond_the_limit_leave_every_text(roberta):
    [window] = make_windows(example("Ada Ada Ada Ada Bo", "Ada", "Bo"), roberta, WIDE)
    for limit, kept in ((5, 5), (4, 4), (2, 2)):
        mentions, chosen = taggings_of(
            window, words_of(window), max_mentions=limit, max_taggings=99
        )
        assert len(mentions) <= kept and len(chosen) == 2 ** (len(mentions) - 1) - 1
        assert mentions[-1].tolist() == [4, 4]
    _, chosen = taggings_of(window, words_of(window), max_mentions=1, max_taggings=99)
    assert len(chosen) == 0


def test_a_batch_holds_words_mentions_and_taggings(roberta):
    windows = make_windows(example("Ada met Bo. Ada ran", "Ada", "Bo"), roberta, WIDE)
    batch = pad_taggings(
        [windows[0], None], 24, num_taggings=4, max_mentions=5, pad_id=roberta.pad_id
    )
    shown = [
        windows[0].span_text(*tokens_of(windows[0], batch["words"][0, :6], n, n)) for n in range(6)
    ]
    assert shown == ["Ada", "met", "Bo", ".", "Ada", "ran"]
    assert batch["words_where"].sum(axis=1).tolist() == [6, 0]
    assert batch["mentions"][0].tolist() == [[0, 0], [4, 4], [2, 2], [0, 0], [0, 0]]
    assert batch["solutions"][0].astype(int).tolist() == [
        [1, 0, 1, 0, 0],
        [0, 1, 1, 0, 0],
        [1, 1, 1, 0, 0],
        [0] * 5,
    ]
    assert batch["solutions_where"].sum(axis=1).tolist() == [3, 0]


def test_a_window_has_its_texts_also_where_no_tagging_is_listed(roberta):
    """Or a selector would learn that the answer is not there."""
    overlapping = make_windows(example("New York won", "New York", "York"), roberta, WIDE)
    absent = make_windows(example("Ada ran", "Ada", "Bo"), roberta, WIDE)
    windows = [overlapping[0], absent[0], None]
    batch = pad_taggings(windows, 24, num_taggings=4, max_mentions=5, pad_id=roberta.pad_id)
    assert batch["solutions_where"].sum() == 0
    assert batch["holds"].tolist() == [True, False, False]


def test_counts_stop_before_they_overflow():
    assert count_taggings(np.zeros(400, int)) == MAX_COUNT
    assert count_taggings(np.zeros(0, int)) == 0
