"""Questions of NQ-open and DPR."""

import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import OpenQuestion
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.open_questions import read_nq_open, split_answers


@pytest.fixture
def read(tmp_path):
    def run(*records, name="NQ-open.dev.jsonl", **options):
        file = tmp_path / name
        file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
        skips = ExclusionCounts()
        return list(read_nq_open(file, skips=skips, **options)), skips

    return run


def test_ids_are_lines(read):
    lines = {"question": "who", "answer": ["Ada"]}, "", {"question": "x", "answer": ["y"]}
    questions, _ = read(*lines)
    assert questions == [
        OpenQuestion("NQ-open.dev#1", "who", ("Ada",)),
        OpenQuestion("NQ-open.dev#3", "x", ("y",)),
    ]


@pytest.mark.parametrize("name", ["nq-dev.qa.csv", "nq-dev.qa.tsv"])
def test_questions_as_dpr_has_them(read, name):
    questions, skips = read(
        "who wrote it\t['Ada', 'A. L.']\r",
        "",
        'who said "no\t"[""Bo\'s"", \'Cy\']"',  # as csv.writer quotes lists with an apostrophe
        "what\t[]",
        name=name,
    )
    assert questions == [
        OpenQuestion("nq-dev.qa#1", "who wrote it", ("Ada", "A. L.")),
        OpenQuestion("nq-dev.qa#3", 'who said "no', ("Bo's", "Cy")),
    ]
    assert skips.as_dict() == {"no answer given": 1}


def test_topics_of_pyserini_have_no_answers(read):
    topics = ("7\twho wrote it", "9\twhat")
    with pytest.raises(InputError, match="topics.tsv: line 1: .*'who wrote it'; topics.*--no-ans"):
        read(*topics, name="topics.tsv")
    questions, _ = read(*topics, name="topics.tsv", require_answers=False)
    assert questions == [OpenQuestion("7", "who wrote it", ()), OpenQuestion("9", "what", ())]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("who,['Ada']", "line 1: expected a question and its answers, .* tab, found 1 fields"),
        ("1\twho\t['Ada']", "line 1: .* found 3 fields"),
        ("who\t['Ada'", "line 1: expected a list of answers, found"),
    ],
)
def test_other_tables_of_questions_are_refused(read, line, message):
    with pytest.raises(InputError, match=message):
        read(line, name="dev.tsv")


def test_a_list_that_is_a_string_is_warned_of_and_one_answer_is_not(read):
    asked = ({"question": "who", "answer": answer} for answer in ("Homer", "['Homer']"))
    questions, skips = read(*asked)
    assert [question.answers for question in questions] == [("Homer",)] * 2
    assert skips.warnings_as_dict() == {"list of answers written as one string": 1}


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Homer", ("Homer",)),
        ("[Lord 's]", ("Lord 's",)),
        ("['Brian', Sarah 's brother , Brian]", ("Brian", "Sarah 's brother , Brian")),
        ("[`` Psychomachia , '']", ("`` Psychomachia , ''",)),
        ("[Landry 's , Inc ., Landry 's , Inc.]", ("Landry 's , Inc .", "Landry 's , Inc.")),
        ("[T'Pau, British T'Pau, 'Pau']", ("T'Pau", "British T'Pau", "Pau")),
        ("['Cannes , France', Lord 's]", ("Cannes , France", "Lord 's")),
        ("['a, b, c', 'd', Lord 's]", ("a, b, c", "d", "Lord 's")),
        ("['Twas Night, 'pub']", ("'Twas Night", "pub")),
        ("[plain]", ("plain",)),
        ('["Homer", "Lord \'s, a"]', ("Homer", "Lord 's, a")),  # JSON
        ("[1, 2.5]", ("1", "2.5")),
        ("['a', \"Lord 's\"]", ("a", "Lord 's")),  # as Python writes it
        ("[]", ()),
    ],
)
def test_lists_written_as_strings_are_taken_apart(text, items):
    assert split_answers(text) == items


def test_real_questions(shared_dir):
    skips = ExclusionCounts()
    folder = shared_dir / "data" / "nq_open"
    sizes = [
        len(list(read_nq_open(folder / f"NQ-open.{split}.jsonl", skips=skips)))
        for split in ("train", "dev")
    ]
    assert sizes == [2486, 566] and skips.total == 0
