"""Reader for the layout of the released open-domain data, with the Z that it gives."""

import gzip
import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.qa_hard_em import read_qa_hard_em

PARAGRAPHS = [
    "The Univ. is in Seattle , Washington .".split(),
    "Founded in 1861 as AT & T of São Paulo".split(),
]


def mention(text, first, last):
    return {"text": text, "word_start": first, "word_end": last}


def question(id="q1", **changes):
    record = {
        "id": id,
        "question": "Where is it?",
        "context": PARAGRAPHS,
        "answers": [[mention("Seattle", 4, 4), mention("Seattle, Washington", 4, 6)], []],
        "final_answers": ["Seattle", "Seattle, WA"],
    }
    return {key: value for key, value in (record | changes).items() if value is not ...}


def on_second(*mentions):
    return question(answers=[[], list(mentions)])


@pytest.fixture
def read(tmp_path):
    """Writes records (or raw bytes) as lines and reads them back: (examples, skips)."""

    def run(*records, raw=None, **options):
        file = tmp_path / "train0.json"
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        file.write_bytes("".join(lines).encode() if raw is None else raw)
        skips = ExclusionCounts()
        return list(read_qa_hard_em(file, skips=skips, **options)), skips

    return run


def texts(example):
    return [example.documents[d].text[start:end] for d, start, end in example.mentions]


def test_reads_an_example(read):
    (example,), skips = read(question())
    assert (example.id, example.question) == ("q1", "Where is it?")
    assert [document.id for document in example.documents] == ["q1#0", "q1#1"]
    assert [document.text for document in example.documents] == [" ".join(p) for p in PARAGRAPHS]
    assert example.golds == ("Seattle", "Seattle, WA")
    assert example.aliases == ("Seattle", "Seattle, WA", "Seattle, Washington")
    start = len("The Univ. is in ")
    assert example.mentions == (
        (0, start, start + len("Seattle")),
        (0, start, start + len("Seattle , Washington")),
    )
    assert texts(example) == ["Seattle", "Seattle , Washington"]
    assert example.true_mention is None
    assert skips.total == 0 and skips.warnings_as_dict() == {}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (mention("founded", 0, 0), "Founded"),  # the first word, case
        (mention("PAULO", 9, 9), "Paulo"),  # the last word
        (mention("Sao Paulo", 8, 9), "São Paulo"),  # accents
        (mention("AT&T", 4, 6), "AT & T"),  # spacing
        (mention("AT and T", 4, 6), "AT & T"),
        (mention("&", 5, 5), "&"),
    ],
)
def test_mentions_hold_their_text_by_letters_and_digits(read, given, found):
    (example,), _ = read(on_second(given))
    assert texts(example) == [found]
    assert example.mentions[0][0] == 1


def test_mentions_stay_as_given_in_order_and_number(read):
    given = [mention("1861", 2, 2), mention("Founded", 0, 0), mention("1861", 2, 2)]
    (example,), _ = read(on_second(*given))
    assert texts(example) == ["1861", "Founded", "1861"]


def test_an_empty_paragraph_is_left_out_and_mentions_follow(read):
    record = question(
        context=[[], *PARAGRAPHS, ["", " "]],
        answers=[[], [mention("Seattle", 4, 4)], [mention("1861", 2, 2)], []],
    )
    (example,), skips = read(record)
    assert [document.id for document in example.documents] == ["q1#1", "q1#2"]
    assert [place[0] for place in example.mentions] == [0, 1]
    assert texts(example) == ["Seattle", "1861"]
    assert skips.total == 0 and skips.warnings_as_dict() == {"empty document": 2}
    assert skips.ids("empty document") == ("q1: paragraph 0", "q1: paragraph 3")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"answers": [[], []], "final_answers": []}, "no answer given"),
        ({"answers": ..., "final_answers": ...}, "no answer given"),
        ({"context": [[]], "answers": [[]]}, "no document left"),
    ],
)
def test_a_poor_example_is_counted_and_the_others_are_read(read, changes, reason):
    examples, skips = read(question("a"), question("bad", **changes), question("b"))
    assert [example.id for example in examples] == ["a", "b"]
    assert skips.as_dict() == {reason: 1} and skips.ids(reason) == ("bad",)


def test_an_empty_z_is_not_an_unknown_z(read):
    (example,), skips = read(question(answers=...))
    assert example.mentions == () and example.aliases == ("Seattle", "Seattle, WA")
    assert skips.total == 0


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (on_second(mention("1861", 3, 3)), "'1861' at words 3 to 3, found 'as'$"),
        (
            on_second(mention("1861", 2, 3)),
            r"at words 2 to 3, found '1861 as' \(word_end must be inclusive\)",
        ),
        (question(answers=[[mention("$", 7, 7)], []]), r"'\$' at words 7 to 7, found '\.'"),
        (on_second(mention("&", 4, 4)), "'&' at words 4 to 4, found 'AT'"),
        (on_second(mention("Paulo", 9, 10)), "word_end < 10 words for 'Paulo', found 9 and 10"),
        (on_second(mention("1861", 2, 1)), "word_start <= word_end < 10 words.* found 2 and 1"),
        (on_second(mention("Founded", -9, 0)), "0 <= word_start .* found -9 and 0"),
        (
            on_second({"text": "1861", "word_start": 2}),
            "answer with 'word_end', found one",
        ),
        (question(answers=[[]]), "expected 2 lists under 'answers', .* found 1"),
    ],
)
def test_a_wrong_layout_is_an_error_with_its_line(read, record, message):
    with pytest.raises(InputError, match=message) as caught:
        read(question("a"), record)
    assert "train0.json: line 2 (q1)" in str(caught.value) and "\n" not in str(caught.value)


LINE = json.dumps(question("é"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (LINE + b"\n[1]\n", "line 2: expected an object, found a list"),
        (LINE + b"\n" + LINE[:-9], "line 2: expected a JSON object, found broken JSON: .*column"),
        (
            b"\n\nid,question\n",
            "line 3: expected a JSON object, found broken JSON: Expecting value",
        ),
        (b'{"id": %s}' % (b"9" * 5000), "line 1: expected a JSON object, cannot be parsed"),
        (
            LINE + b"\n" + LINE.replace("é".encode(), b"\xe9"),
            f"line 2: byte {len(LINE) + 1 + LINE.index('é'.encode())}: .* found 0xe9",
        ),
        (b'{"id": "a", "question": "\\ud800"}', "'question' to be .* half a surrogate pair"),
    ],
)
def test_broken_files(read, raw, message):
    with pytest.raises(InputError, match=message) as caught:
        read(raw=raw)
    assert "train0.json: line " in str(caught.value) and "\n" not in str(caught.value)


def test_blank_lines_and_an_empty_file(read):
    assert [example.id for example in read(raw=b"\n" + LINE + b"\n\n \n")[0]] == ["é"]
    assert read(raw=b"")[0] == []


def test_lines_are_read_as_asked_for(tmp_path):
    file = tmp_path / "train0.json"
    file.write_bytes(LINE + b"\n" + LINE + b"\n{")
    examples = read_qa_hard_em(file, skips=ExclusionCounts())
    assert [next(examples).id, next(examples).id] == ["é", "é"]
    with pytest.raises(InputError, match="line 3"):
        next(examples)

    file = tmp_path / "train0.json.gz"
    file.write_bytes(gzip.compress((LINE + b"\n") * 1000)[:-12])
    examples = read_qa_hard_em(file, skips=ExclusionCounts())
    assert next(examples).id == "é"
    with pytest.raises(InputError, match="train0.json.gz: cannot be read"):
        list(examples)
