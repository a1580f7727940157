"""Prepared splits: complete or absent, and everything counted."""

import dataclasses
import shutil

import numpy as np
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.tokenizer import Tokenizer
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.prepared import (
    CUT,
    FILTERED,
    NOT_IN_DOCUMENTS,
    NOT_IN_TOKENS,
    Concatenated,
    PreparedSplit,
    _num_distinct_solutions,
    prepare_split,
)
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.errors import InputError
from tests.damages import DAMAGES

CONFIG = WindowConfig(max_tokens=10, stride=2, max_question_tokens=2, max_windows=None)


@pytest.fixture(scope="module")
def tokenizer():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c", "who"]
    model = models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer(tokenizer)


def example(number, text, alias="b"):
    return ReadingExample(f"q{number}", "who", (Document("d", text),), (alias,), (alias,))


EXAMPLES = [
    example(0, "c b c c c c c c b"),  # mentions in two of several windows
    example(1, "c c"),  # no mention
    example(2, "   "),  # no word
    example(3, "b"),
]


def prepare(folder, tokenizer, examples=EXAMPLES, keep=False, config=CONFIG, **options):
    exclusions = ExclusionCounts()
    options |= {"tokenizer": tokenizer, "config": config, "keep_without_mention": keep}
    options |= {"metric": "squad", "sources": {"file": "digest"}}
    meta = prepare_split(examples, folder, exclusions=exclusions, **options)
    return meta, exclusions


def test_training_leaves_out_and_counts_what_it_cannot_use(tmp_path, tokenizer):
    meta, exclusions = prepare(tmp_path / "train", tokenizer)
    assert exclusions.as_dict() == meta["excluded"] == {
        "answer not in the documents": 1,
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


def test_why_an_answer_is_not_found(tmp_path, tokenizer):
    config = dataclasses.replace(CONFIG, max_windows=1)
    long = " ".join(["b"] * 9)
    meta, exclusions = prepare(
        tmp_path / "train",
        tokenizer,
        [
            EXAMPLES[3],
            example(4, "c c c"),
            # Only the windows at the end have the answer; all are as unlike the question.
            example(5, "c c c c c c c c c c c c b"),
            example(6, f"c {long} c", alias=long),
            example(7, "c b_c"),  # a single token
            required(8, "b a", "c b c"),
            required(9, "a", "b c"),
        ],
        config=config,
    )
    reasons = [NOT_IN_DOCUMENTS, FILTERED, CUT, NOT_IN_TOKENS, NOT_IN_TOKENS, NOT_IN_DOCUMENTS]
    assert [reason for _, reason in exclusions.left_out] == reasons
    assert exclusions.ids(NOT_IN_DOCUMENTS) == ("q4: 'b'", "q9: 'who'")
    assert meta["counts"]["examples read"] == 7


def required(number, *texts):
    documents = tuple(Document("d", text) for text in texts)
    aliases = ("a", "c") if number == 8 else ("a", "who", "d")
    return ReadingExample(f"q{number}", "who", documents, aliases, aliases, all_required=True)


def test_a_file_that_gives_no_mention_has_none_that_was_cut(tmp_path, tokenizer):
    given = [
        dataclasses.replace(example(4, "c b c"), mentions=()),
        dataclasses.replace(example(5, f"c {' '.join('b' * 9)} c"), mentions=((0, 2, 19),)),
    ]
    _, exclusions = prepare(tmp_path / "train", tokenizer, [EXAMPLES[3], *given])
    assert exclusions.left_out == [("q4", NOT_IN_DOCUMENTS), ("q5", CUT)]


@pytest.mark.parametrize("keep", [False, True])
def test_a_split_without_a_question_is_not_written(tmp_path, tokenizer, keep):
    folder = tmp_path / "split"
    prepare(folder, tokenizer)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    use = "evaluate" if keep else "train"
    with pytest.raises(InputError, match=f"split: nothing to {use} on, no question can be used"):
        prepare(folder, tokenizer, [EXAMPLES[2]], keep=keep, replace=True)
    with pytest.raises(InputError, match=f"split: nothing to {use} on, the files hold no question"):
        prepare(folder, tokenizer, [], keep=keep, replace=True)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["split"]


def test_half_a_character_is_named(tmp_path, tokenizer):
    with pytest.raises(InputError, match="^document 'd': expected UTF-8 text, found 'a .ud800'$"):
        prepare(tmp_path / "split", tokenizer, [example(1, "a \ud800 b")])


@pytest.mark.parametrize("keep", [False, True])
def test_files_do_not_depend_on_the_number_of_processes(tmp_path, tokenizer, keep):
    many = [example(n, f"c c a c c c c c {'b' if n % 3 else 'c'} c") for n in range(40)]
    many += [EXAMPLES[2], example(7, "again"), example(2, "b")]
    for processes in (1, 2):
        prepare(tmp_path / str(processes), tokenizer, many, keep=keep, processes=processes)
    files = [{f.name: f.read_bytes() for f in (tmp_path / n).iterdir()} for n in "12"]
    assert files[0] == files[1] and len(files[0]) == 10


def test_every_damaged_file_is_named(tmp_path, tokenizer):
    prepare(tmp_path / "whole", tokenizer)
    for name in sorted(file.name for file in (tmp_path / "whole").iterdir()):
        for kind, damage in DAMAGES.items():
            folder = tmp_path / f"{name}-{kind}"
            shutil.copytree(tmp_path / "whole", folder)
            damage(folder / name)
            with pytest.raises(InputError) as refused:
                PreparedSplit(folder)
            message = str(refused.value)
            assert message.startswith(str(folder / name)) and "\n" not in message, (name, kind)


def test_a_mention_in_overlapping_windows_counts_once(tokenizer):
    windows = make_windows(example(0, "c c c b c c c c"), tokenizer, CONFIG)
    assert sum(len(w.solutions) for w in windows) > 1
    assert _num_distinct_solutions(windows) == 1


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
