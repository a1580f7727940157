"""The reader of NarrativeQA's files, what it refuses, and Z in several processes."""

import csv

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.narrativeqa import (
    QUESTIONS,
    SUMMARIES,
    add_rouge_mentions,
    read_narrativeqa,
)
from hardem_jax.spans.solutions import RougeRules

QUESTION_COLUMNS = ["document_id", "set", "question", "answer1", "answer2"]
QUESTION_COLUMNS += ["question_tokenized", "answer1_tokenized", "answer2_tokenized"]
SUMMARY_COLUMNS = ["document_id", "set", "summary", "summary_tokenized"]
SUMMARY = "Mark , a loner , runs a radio .\nNora finds him ."


def question(document="d1", split="train", text="Who is Mark ?", first="A loner", second="He"):
    return [document, split, text, first, second, text, first, second]


def write(folder, questions, summaries):
    (folder / SUMMARIES).parent.mkdir(parents=True, exist_ok=True)
    for name, header, rows in (
        (QUESTIONS, QUESTION_COLUMNS, questions),
        (SUMMARIES, SUMMARY_COLUMNS, summaries),
    ):
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    return folder


@pytest.fixture
def folder(tmp_path):
    questions = [question(), question("d2", "valid"), question(text="Who finds him ?"), question()]
    summaries = [["d1", "train", "raw", SUMMARY], ["d2", "valid", "raw", 'She said "é" .']]
    return write(tmp_path, questions, summaries)


def read(folder, split="train", **options):
    return list(read_narrativeqa(folder, split, skips=ExclusionCounts(), **options))


def test_examples_are_tokenised_lower_cased_and_numbered(folder):
    examples = read(folder)
    assert [example.id for example in examples] == ["d1:0", "d1:1", "d1:2"]
    first = examples[0]
    assert first.question == "who is mark ?" and first.golds == ("a loner", "he")
    assert first.documents[0].text == SUMMARY.lower()  # with the line break in its field
    assert first.aliases == () and first.mentions is None
    assert read(folder, lower=False)[1].question == "Who finds him ?"
    assert read(folder, lower=False)[0].documents[0].text == SUMMARY
    assert read(folder, lower=False)[0].golds == ("a loner", "he")
    [other] = read(folder, "valid")
    assert other.id == "d2:0" and other.documents[0].text == 'she said "é" .'


def test_what_is_left_out_is_counted(tmp_path):
    questions = [question(text=" "), question(first="", second=" "), question(first="")]
    summaries = [["d1", "train", "", "x"], ["d2", "train", "", ""]]
    write(tmp_path, [*questions, question("d2")], summaries)
    skips = ExclusionCounts()
    [kept] = read_narrativeqa(tmp_path, "train", skips=skips)
    assert kept.id == "d1:2" and kept.golds == ("he",)
    assert skips.as_dict() == {"empty question": 1, "no answer given": 1, "empty document": 1}
    assert skips.ids("no answer given") == ("d1:1",)


@pytest.mark.parametrize(
    ("name", "old", "new", "culprit"),
    [
        (QUESTIONS, b"answer2_tokenized", b"answer3", r"qaps.csv: .*none named answer2_tokenized"),
        (SUMMARIES, b"summary_tokenized", b"text", r"summaries.csv: .*none named summary_token"),
        (QUESTIONS, b"d1,train", b"d7,train", r"qaps.csv: line 2: .*found 'd7'"),
        (QUESTIONS, b"d1,train", b" ,train", r"qaps.csv: line 2: .*empty field"),
        (QUESTIONS, b"d2,valid", b"d2,dev", r"qaps.csv: line 3: .*train, valid, test, found 'dev'"),
        (QUESTIONS, b"d2,valid", b"d2,valid,1", r"qaps.csv: line 3: expected 8 fields, found 9"),
        (QUESTIONS, b"d2,valid", b'd2,"va"lid', r"qaps.csv: line 3: expected comma-separated"),
        (QUESTIONS, b"A loner", b"\xe9", r"qaps.csv: line 2: byte \d+: expected UTF-8.* 0xe9"),
        # The field of the second line goes on to the third.
        (SUMMARIES, b"d2", b"d1", r"summaries.csv: line 4: .* found a second one for 'd1'"),
        (SUMMARIES, "é".encode(), b"\xc3", r"summaries.csv: line 4: byte \d+: expected UTF-8"),
        (SUMMARIES, b'him ."', b"him .", r"summaries.csv: line \d: expected comma-separated"),
    ],
)
def test_broken_files_are_named_with_their_line(folder, name, old, new, culprit):
    data = (folder / name).read_bytes()
    assert old in data
    (folder / name).write_bytes(data.replace(old, new))
    with pytest.raises(InputError, match=culprit):
        read(folder)


def test_missing_files_and_questions_are_named(folder):
    with pytest.raises(InputError, match="'dev'"):
        read(folder, "dev")
    with pytest.raises(InputError, match=r"qaps.csv: expected questions with 'test'"):
        read(folder, "test")
    (folder / QUESTIONS).write_bytes(b"")
    with pytest.raises(InputError, match=r"qaps.csv: expected the columns"):
        read(folder)
    (folder / SUMMARIES).unlink()
    with pytest.raises(InputError, match=r"summaries.csv: expected a file"):
        read(folder)


def spans(example):
    return [example.documents[i].text[start:end] for i, start, end in example.mentions]


def test_mentions_are_the_nearest_spans(folder):
    found = list(add_rouge_mentions(read(folder)))
    assert [spans(example) for example in found] == [["a loner"]] * 3
    [none] = add_rouge_mentions(read(folder, "valid"))
    assert none.mentions == ()
    more = next(iter(add_rouge_mentions(read(folder), RougeRules(keep=2))))
    assert spans(more) == [", a loner", "a loner", "a loner ,"]


def test_several_processes_give_the_same(folder):
    examples = read(folder) + read(folder, "valid") + read(folder)[:1]
    serial = list(add_rouge_mentions(examples))
    assert list(add_rouge_mentions(examples, processes=2)) == serial
    assert [example.id for example in serial] == [example.id for example in examples]


def test_real_files(shared_dir):
    folder = shared_dir / "data/narrativeqa"
    skips = ExclusionCounts()
    sizes = {s: len(list(read_narrativeqa(folder, s, skips=skips))) for s in ("train", "valid")}
    assert sizes == {"train": 7328, "valid": 3461} and skips.total == 0
