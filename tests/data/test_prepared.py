"""Prepared splits: complete or absent, and everything counted."""

import dataclasses
import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from hardem_jax.data.examples import Document, ExclusionCounts, ReadingExample
from hardem_jax.data.prepared import (
    Concatenated,
    PreparedSplit,
    _num_distinct_solutions,
    prepare_split,
)
from hardem_jax.data.records import file_digest
from hardem_jax.data.tokenizer import Wordpieces
from hardem_jax.data.windows import WindowConfig, make_windows
from hardem_jax.errors import InputError

CONFIG = WindowConfig(max_tokens=10, stride=2, max_question_tokens=2, max_windows=None)


@pytest.fixture(scope="module")
def tokenizer():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "who"]
    model = models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return Wordpieces(tokenizer)


def example(number, text, alias="b"):
    return ReadingExample(f"q{number}", "who", (Document("d", text),), (alias,), (alias,))


EXAMPLES = [
    example(0, "c b c c c c c c b"),  # mentions in two of several windows
    example(1, "c c"),  # no mention
    example(2, "   "),  # no word
    example(3, "b"),
]


def prepare(folder, tokenizer, examples=EXAMPLES, keep=False, config=CONFIG):
    exclusions = ExclusionCounts()
    meta = prepare_split(
        examples,
        folder,
        tokenizer=tokenizer,
        config=config,
        metric="squad",
        sources={"file": "digest"},
        exclusions=exclusions,
        keep_without_mention=keep,
    )
    return meta, exclusions


def test_training_leaves_out_and_counts_what_it_cannot_use(tmp_path, tokenizer):
    meta, exclusions = prepare(tmp_path / "train", tokenizer)
    assert exclusions.as_dict() == meta["excluded"] == {
        "answer not in any window": 1,
        "no words in any document": 1,
    }  # fmt: skip
    split = PreparedSplit(tmp_path / "train")
    assert list(split.questions) == ["q0", "q3"]
    assert split.questions["q0"].num_solutions == 2
    assert meta["counts"]["windows with a mention"] == len(split.positives)
    assert meta["counts"]["windows without"] == len(split.negatives)
    assert all(len(w.solutions) for w in split.positives)
    assert not any(len(w.solutions) for w in split.negatives)


def test_questions_left_out_are_counted_and_named(tmp_path, tokenizer):
    def reader(exclusions):
        exclusions.add("no answer given", "q9")
        yield from [*EXAMPLES, EXAMPLES[0]]

    exclusions = ExclusionCounts()
    meta = prepare_split(
        reader(exclusions), tmp_path / "dev", tokenizer=tokenizer, config=CONFIG, metric="squad",
        sources={}, exclusions=exclusions, keep_without_mention=True,
    )  # fmt: skip
    split = PreparedSplit(tmp_path / "dev")
    assert split.left_out == {"q9": "no answer given", "q2": "no words in any document"}
    # The repeated question is counted, and is not named: it is among the questions.
    assert meta["counts"]["examples read"] == len(split.questions) + 3 == 6
    assert meta["counts"]["left out"] == 3


def test_evaluation_keeps_questions_without_a_mention(tmp_path, tokenizer):
    prepare(tmp_path / "dev", tokenizer, keep=True)
    assert list(PreparedSplit(tmp_path / "dev").questions) == ["q0", "q1", "q3"]


def test_a_mention_in_overlapping_windows_counts_once(tokenizer):
    windows = make_windows(example(0, "c c c b c c c c"), tokenizer, CONFIG)
    assert sum(len(w.solutions) for w in windows) > 1
    assert _num_distinct_solutions(windows) == 1


def test_a_split_is_complete_or_absent(tmp_path, tokenizer):
    def breaks_off():
        yield EXAMPLES[0]
        raise InputError("file.json: truncated")

    with pytest.raises(InputError, match="truncated"):
        prepare(tmp_path / "train", tokenizer, examples=breaks_off())
    assert not (tmp_path / "train").exists()
    with pytest.raises(InputError, match="expected a prepared split"):
        PreparedSplit(tmp_path / "train")
    prepare(tmp_path / "train", tokenizer)  # the rest of the broken attempt does not disturb
    assert not (tmp_path / "train.partial").exists()


def test_a_folder_that_is_something_else_is_not_overwritten(tmp_path, tokenizer):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(InputError, match="not a prepared split"):
        prepare(tmp_path / "thesis", tokenizer)
    assert (tmp_path / "thesis" / "chapter1.txt").exists()


def test_preparing_again_replaces_and_gives_the_same_bytes(tmp_path, tokenizer):
    prepare(tmp_path / "a", tokenizer)
    before = {f.name: f.read_bytes() for f in (tmp_path / "a").iterdir() if f.suffix != ""}
    prepare(tmp_path / "a", tokenizer)
    after = {f.name: f.read_bytes() for f in (tmp_path / "a").iterdir() if f.suffix != ""}
    assert before.keys() == after.keys()
    assert all(before[name] == after[name] for name in before if "array_record" not in name)


@pytest.mark.parametrize(
    ("content", "culprit"), [("{", "expected JSON"), (json.dumps({"format": 0}), "format 2")]
)
def test_foreign_meta_files_are_named(tmp_path, content, culprit):
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(InputError, match=culprit):
        PreparedSplit(tmp_path)


def test_sources_concatenate(tmp_path, tokenizer):
    prepare(tmp_path / "a", tokenizer)
    prepare(tmp_path / "b", tokenizer, keep=True)
    splits = [PreparedSplit(tmp_path / name) for name in "ab"]
    both = Concatenated([split.negatives for split in splits])
    expected = [w for split in splits for w in split.negatives]
    assert len(both) == len(expected) > len(splits[0].negatives)
    for i, window in enumerate(expected):
        np.testing.assert_array_equal(both[i].token_ids, window.token_ids)
        assert both.sizes[i].tolist() == [window.num_tokens, len(window.solutions)]


def test_digest_names_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        file_digest(tmp_path / "nowhere")


def test_of_two_questions_with_one_id_the_first_is_used(tmp_path, tokenizer):
    again = dataclasses.replace(example(0, "c b"), question="who who")
    _, exclusions = prepare(
        tmp_path / "dev", tokenizer, [EXAMPLES[0], again, EXAMPLES[3]], keep=True
    )
    assert exclusions.as_dict() == {"question id seen before": 1}
    split = PreparedSplit(tmp_path / "dev")
    assert [question.question for question in split.questions.values()] == ["who", "who"]
    assert set(split.places[:, 0]) == {0, 1}  # places number what is there
