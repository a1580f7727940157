"""Reader for DROP's layout: what is kept, what is counted, what is an error, and the cut."""

import json

import pytest

from hardem_jax.data.exclusions import NO_ANSWER, REPEATED_ID, ExclusionCounts
from hardem_jax.equations.metrics import exact_match
from hardem_jax.equations.readers import (
    CUT,
    OUTSIDE_DROP_NUM,
    parse_number,
    read_drop,
    read_number_rows,
)
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.errors import InputError

PASSAGE = "Longwell threw a 41-yard and a 38-yard field goal."
BLANK = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": []}


def answer(**changes):
    return BLANK | changes


def question(id="q1", number="3", **changes):
    record = {"query_id": id, "question": "By how many yards?", "answer": answer(number=number)}
    return {key: value for key, value in (record | changes).items() if value is not ...}


@pytest.fixture
def read(tmp_path):
    """Writes questions on one passage, whole entries, or raw bytes, and reads them back."""

    def run(*questions, passage=PASSAGE, entries=None, raw=None, **options):
        if entries is None:
            entries = {"nfl_1": {"passage": passage, "qa_pairs": questions}}
        file = tmp_path / "dev.json"
        file.write_bytes(json.dumps(entries, ensure_ascii=False).encode() if raw is None else raw)
        skips = ExclusionCounts()
        return list(read_drop(file, skips=skips, **options)), skips

    return run


def test_reads_an_example(read):
    others = [answer(number="4"), answer(spans=["three"]), BLANK]
    (example,), skips = read(question(validated_answers=others))
    assert (example.id, example.passage_id, example.passage) == ("q1", "nfl_1", PASSAGE)
    assert (example.question, example.answer) == ("By how many yards?", 3.0)
    assert type(example.answer) is float
    assert example.golds == (answer(number="3"), *others)
    assert skips.total == 0 and skips.warnings_as_dict() == {}


NUMBERS = [("53000", 53000), ("83,000", 83000), ("-0.09", -0.09), (" 12.50 ", 12.5), (".5", 0.5)]
NUMBERS += [("5.", 5), ("1e3", 1000), ("0", 0), (7, 7), (2.5, 2.5), (0, 0)]
NUMBERS += [("9" * 300, float("9" * 300)), ("\u22125", -5), ("१२", 12), ("๒๕๖๓", 2563)]
NUMBERS += [("١٢", 12), ("-١٬٢٣٤٫٥", -1234.5), ("１２", 12), ("－１，２３４．５", -1234.5)]


@pytest.mark.parametrize(("number", "value"), NUMBERS)
def test_answers_that_are_numbers(read, number, value):
    (example,), skips = read(question(number=number))
    assert example.answer == value and skips.total == 0
    assert example.golds[0]["number"] == str(number).strip()


@pytest.mark.parametrize("passage", [" ", None])
def test_every_question_on_an_empty_passage_is_counted(read, passage):
    examples, skips = read(question("a"), question("b"), passage=passage)
    assert examples == [] and skips.as_dict() == {"empty document": 2}


def test_a_passage_without_numbers_is_warned_of(read):
    examples, skips = read(question("a"), question("b"), passage="Longwell kicked twice.")
    assert len(examples) == 2 and skips.total == 0
    assert skips.warnings_as_dict() == {"passage without numbers": 2}
    _, skips = read(question(), passage="His second kick.", numbers=NumberConfig(ordinals=True))
    assert skips.warnings_as_dict() == {}


def test_passages_are_cut(read):
    (example,), skips = read(question(), max_words=4)
    assert example.passage == "Longwell threw a 41-yard"
    assert skips.warnings_as_dict() == {"passage cut to its first words": 1}
    for max_words in (9, None):
        (example,), skips = read(question(), max_words=max_words)
        assert example.passage == PASSAGE and skips.warnings_as_dict() == {}
    long = "7 " * 400
    assert read(question(), passage=long)[0][0].passage == long
    assert read(question(), passage=long + "8")[0][0].passage == long.strip()


@pytest.mark.parametrize("text", ["", "+", "e5", "1e", ",000", "1,000,00", "0x10", "1 000", *"½²"])
def test_what_is_no_number(text):
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"nfl_1": {"passage": "x"}}, "expected a list under 'qa_pairs', found the keys 'passage'"),
        ({"nfl_1": {}}, "nfl_1: expected a list under 'qa_pairs', found no keys"),
        ([{"passage": "x"}], "expected an object, found a list"),
        (3, "expected an object, found a number"),
    ],
)
def test_another_layout_is_an_error(read, entries, message):
    with pytest.raises(InputError, match=f"dev.json: .*{message}"):
        read(entries=entries)


@pytest.mark.parametrize("number", ["1e999", "9" * 400])
def test_a_json_number_too_large_is_never_an_answer(read, number):
    qa = json.dumps(question()).replace('"number": "3"', f'"number": {number}')
    raw = f'{{"nfl_1": {{"passage": "{PASSAGE}", "qa_pairs": [{qa}]}}}}'.encode()
    with pytest.raises(InputError, match="after 0 entries.*overflow"):
        read(raw=raw)


@pytest.mark.parametrize(
    ("split", "count", "distinct", "spans", "cut"),
    [("train", 4170, 3791, 2546, 158), ("dev", 742, 686, 422, 5)],
)
def test_real_drop(shared_dir, split, count, distinct, spans, cut):
    skips = ExclusionCounts()
    file = shared_dir / f"data/drop/drop_dataset_{split}.json"
    examples = list(read_drop(file, skips=skips))
    assert len(examples) == count and len({example.id for example in examples}) == distinct
    assert skips.as_dict() == {"answer is a text span": spans}
    assert skips.warnings_as_dict() == {
        "passage cut to its first words": cut,
        "question id occurs again": count - distinct,
    }
    assert all(len(example.passage.split()) <= 400 for example in examples)
    whole = json.loads(file.read_text(encoding="utf-8"))
    numeric = [
        (entry["passage"], pair)
        for entry in whole.values()
        for pair in entry["qa_pairs"]
        if pair["answer"]["number"]
    ]
    for example, (passage, pair) in zip(examples, numeric, strict=True):
        assert example.id == pair["query_id"] and passage.startswith(example.passage)
        assert example.golds == (pair["answer"], *pair["validated_answers"])
        assert example.answer == float(pair["answer"]["number"].replace(",", ""))


def test_of_own_rows_with_one_id_the_first_is_used(tmp_path):
    rows = [("a", 41), ("a", 38), ("n", None)]
    lines = [{"id": id, "text": "41 or 38", "question": "How?", "answer": x} for id, x in rows]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    [found] = read_number_rows(tmp_path / "own.jsonl", skips=(skips := ExclusionCounts()))
    assert (found.answer, skips.left_out) == (41, [("a", REPEATED_ID), ("n", NO_ANSWER)])
    assert not skips.repetitions and NO_ANSWER not in OUTSIDE_DROP_NUM  # so it scores 0


@pytest.mark.parametrize(
    ("written", "answered", "digits"),
    [
        ("1,234.50", "1234.5", 5), ("−5", "-5", 5), ("1，234", "1234", 5), ("41", "41", 0),
        ("3.1415926", "3.14159", 5), ("3.1415926", "3.14", 2), ("ten", "ten", 5),
    ],
)  # fmt: skip
def test_golds_of_own_rows_are_written_as_answers_are(tmp_path, written, answered, digits):
    row = {"text": "7 " * 500, "question": "How?", "answer": [1, written]}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    skips = ExclusionCounts()
    [found] = read_number_rows(tmp_path / "own.jsonl", skips=skips, digits=digits)
    assert [gold["number"] for gold in found.golds] == ["1", answered]
    assert exact_match(answered, found.golds) == 1.0  # the official metric
    assert found.passage == row["text"] and not skips.ids(CUT)  # whole
