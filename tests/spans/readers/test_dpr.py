"""Questions with ranked passages: both layouts, in and out."""

import gzip
import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import Document, OpenQuestion, Passage
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.dpr import read_contexts, write_contexts


def passage(id, text="Rome is old.", **changes):
    return {"id": id, "title": "Rome", "text": text, "score": "9.5", **changes}


def record(*ctxs, **changes):
    return {"question": "which city is old", "answers": ["Rome"], "ctxs": list(ctxs), **changes}


def save(folder, records, layout):
    file = folder / f"dev.{layout}"
    if layout == "json":
        file.write_text(json.dumps(records, indent=1))
    else:
        file.write_text("\n".join(map(json.dumps, records)))
    return file


@pytest.fixture
def read(tmp_path):
    def run(*records, layout="json", **options):
        skips = ExclusionCounts()
        return list(read_contexts(save(tmp_path, records, layout), skips=skips, **options)), skips

    return run


@pytest.mark.parametrize("layout", ["json", "jsonl"])
def test_reads_an_example(read, layout):
    (example,), skips = read(
        record(passage(7), passage("x", "No."), answers=["Rome", "Roma", "Rome"]), layout=layout
    )
    assert example.id == "dev#1"
    assert example.documents == (Document("7", "Rome is old."), Document("x", "No."))
    assert example.aliases == ("Rome", "Roma")
    assert example.golds == ("Rome", "Roma", "Rome")
    assert skips.total == 0 and not skips.warnings_as_dict()


def test_a_list_in_a_file_called_jsonl_is_a_list(tmp_path):
    file = tmp_path / "dev.jsonl"
    file.write_text("\n [" + json.dumps(record(passage("7"))) + "]")
    assert len(list(read_contexts(file, skips=ExclusionCounts()))) == 1


def test_a_title_can_be_part_of_the_text(read):
    (example,), _ = read(record(passage("7"), passage("8", title="")), prepend_title=True)
    assert [x.text for x in example.documents] == ["Rome\nRome is old.", "Rome is old."]


def test_questions_and_passages_without_an_id_get_one(read):
    nameless = {"text": "Rome is old."}
    examples, _ = read(record(nameless, id="q7"), record(nameless))
    assert [e.id for e in examples] == ["q7", "dev#2"]
    assert [e.documents[0].id for e in examples] == ["q7#1", "dev#2#1"]


def test_defects_are_counted(read):
    examples, skips = read(record(passage("1"), passage("1"), id="q"), record(passage("1"), id="q"))
    assert [example.id for example in examples] == ["q", "q"]
    assert [document.text for document in examples[0].documents] == ["Rome is old."]
    assert skips.warnings_as_dict() == {"passage listed twice": 1, "question id occurs again": 1}


def test_another_text_of_the_same_id_is_another_passage(read):
    texts = ("No.", "Rome.", "Rome.", "Bern.")
    ctxs = [passage(1, text) for text in texts] + [passage("q#2", "Paris."), {"text": "Oslo."}]
    (example,), skips = read(record(*ctxs, id="q"))
    found = [(document.id, document.text) for document in example.documents]
    assert found[:3] == [("1", "No."), ("q#2", "Rome."), ("q#4", "Bern.")]
    assert found[3:] == [("q#5", "Paris."), ("q#6", "Oslo.")]
    assert skips.warnings_as_dict() == {"passage listed twice": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "dev.json: expected records, found an empty file"),
        ("[{}]", r"item 1 \(dev#1\): expected a string under 'question', found no keys"),
        (
            json.dumps({"0": {"question": "w", "answers": ["a"], "contexts": []}}, indent=4),
            "dev.json: expected questions with passages.*a run of Pyserini; .*join --ranking",
        ),
        ('[{"question": "w", "answers": ["a"]}]', "expected a list under 'ctxs', found the keys"),
        (json.dumps([record({"id": 1})]), "'ctxs' 1: expected a string under 'text'"),
    ],
)
def test_a_broken_file_is_an_error_with_its_place(tmp_path, text, message):
    file = tmp_path / "dev.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_contexts(file, skips=ExclusionCounts()))


QUESTIONS = [
    (
        OpenQuestion("q1", "which ‘city’ is old", ("Rome", "Roma")),
        [Passage("7", "Rome", 'Rome\u2028is "old".\n', 9.5, True), Passage("3", "", "No.")],
    ),
    (OpenQuestion("q2", "who", ("Ada",)), [Passage("8", "Ada", "Ada.", 0.0, False)]),
]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz", "new/a.jsonl.gz"])
def test_what_is_written_can_be_read(tmp_path, name):
    file = tmp_path / name
    assert write_contexts(file, QUESTIONS) == 2
    skips = ExclusionCounts()
    examples = list(read_contexts(file, skips=skips))
    for example, (question, passages) in zip(examples, QUESTIONS, strict=True):
        assert (example.id, example.question) == (question.id, question.question)
        assert example.golds == question.answers
        assert [(d.id, d.text) for d in example.documents] == [(p.id, p.text) for p in passages]
    assert skips.total == 0


def test_the_layout_is_that_of_dpr_and_fid(tmp_path):
    write_contexts(tmp_path / "a.json.gz", QUESTIONS)
    with gzip.open(tmp_path / "a.json.gz", "rt", encoding="utf-8") as file:
        first, _ = json.load(file)
    expected = {"id": "7", "title": "Rome", "text": 'Rome\u2028is "old".\n', "score": 9.5}
    assert first["answers"] == ["Rome", "Roma"]
    other = {"id": "3", "title": "", "text": "No."}
    assert first["ctxs"] == [{**expected, "has_answer": True}, other]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_what_was_left_out_before_is_left_out_for_the_same_reason(tmp_path, name):
    skips = ExclusionCounts()

    def questions():
        skips.add("no answer given", "q0")
        yield from QUESTIONS
        skips.add("no question id", "qa.json: item 3 of 'Data'")

    assert write_contexts(tmp_path / name, questions(), left_out=skips) == 2
    again = ExclusionCounts()
    assert [example.id for example in read_contexts(tmp_path / name, skips=again)] == ["q1", "q2"]
    assert again.left_out == skips.left_out
