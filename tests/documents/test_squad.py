"""Reader for SQuAD's layout: what is kept, what is counted, what is an error, and offsets."""

import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.rows import Columns
from hardem_jax.documents.squad import read_squad_layout, read_squad_rows
from hardem_jax.errors import InputError

CONTEXT = "Rømer met Ole in Rome. Rome fell."


def answer(text, start=None):
    start = CONTEXT.index(text) if start is None else start
    return {"text": text, "answer_start": start}


ROME = answer("Rome")


def question(id="q1", answers=(ROME,), **changes):
    record = {"id": id, "question": "Where?", "answers": answers} | changes
    return {key: value for key, value in record.items() if value is not ...}


def paragraph(*questions, context=CONTEXT):
    return {"context": context, "qas": questions}


@pytest.fixture
def read(tmp_path):
    """Writes questions on one paragraph, or articles, and reads them back."""

    def run(*questions, articles=None, **options):
        if articles is None:
            articles = [{"title": "Italy", "paragraphs": [paragraph(*questions)]}]
        file = tmp_path / "dev.json"
        file.write_text(json.dumps({"version": "1.1", "data": articles}))
        skips = ExclusionCounts()
        return list(read_squad_layout(file, skips=skips, **options)), skips

    return run


def test_reads_an_example(read):
    answers = [answer("Rome", 23), answer("Rome", 17), answer("in Rome")]
    (example,), skips = read(question(answers=answers))
    assert (example.id, example.question) == ("q1", "Where?")
    (document,) = example.documents
    assert (document.id, document.text) == ("Italy#0", CONTEXT)
    assert example.golds == ("Rome", "Rome", "in Rome")
    assert example.aliases == ("Rome", "in Rome")
    assert example.true_mention == (0, 23, 27)  # the first annotated, not the first in the text
    assert example.mentions is None
    assert skips.total == 0 and skips.warnings_as_dict() == {}


def test_document_ids_are_unique_over_paragraphs_and_articles(read):
    articles = [
        {"title": "A", "paragraphs": [paragraph(question("1"), question("2"))] * 2},
        {"paragraphs": [paragraph(question("3"))]},
        {"title": "A", "paragraphs": [paragraph(question("4"))]},
    ]
    examples, _ = read(articles=articles)
    ids = [example.documents[0].id for example in examples]
    assert ids == ["A#0", "A#0", "A#1", "A#1", "article 1#0", "A#2"]


@pytest.mark.parametrize("context", [" ", ..., None])
def test_every_question_on_an_empty_paragraph_is_counted(read, context):
    empty = paragraph(question("a"), question("b"), context=context)
    if context is ...:
        del empty["context"]
    examples, skips = read(articles=[{"paragraphs": [empty, paragraph(question("c"))]}])
    assert [example.id for example in examples] == ["c"]
    assert skips.as_dict() == {"empty document": 2}
    assert skips.ids("empty document") == ("a", "b")


@pytest.mark.parametrize("found", [{}, {"answer_start": None}])
def test_an_answer_without_its_place_is_no_defect(read, found):
    (example,), skips = read(question(answers=[{"text": "Rome"} | found]))
    assert example.golds == ("Rome",) and example.true_mention is None
    assert skips.total == 0 and skips.warnings_as_dict() == {}


@pytest.mark.parametrize(
    "start", [16, 18, 24, CONTEXT.rindex("Rome") - len(CONTEXT), len(CONTEXT), 10**9]
)
def test_a_misplaced_annotation_is_warned_of_and_the_example_kept(read, start):
    bad = {"text": "Rome", "answer_start": start}
    (example,), skips = read(question(answers=[bad, answer("Rome")]))
    assert example.true_mention is None
    assert example.golds == ("Rome", "Rome")
    assert skips.total == 0
    assert skips.warnings_as_dict() == {"annotated offset does not hold the answer": 1}


def test_what_several_answers_mean_is_an_argument(read):
    records = (
        question("one"),
        question("two", [answer("Ole"), answer("Rømer")]),
        question("same", [answer("Rome", 17), answer("Rome", 23)]),  # one string answers it
    )
    examples, skips = read(*records, answers_are="all required")
    assert [(e.id, e.aliases, e.true_mention) for e in examples] == [
        ("one", ("Rome",), (0, 17, 21)),
        ("same", ("Rome",), (0, 17, 21)),
    ]
    assert skips.as_dict() == {"several answer spans required": 1}
    assert skips.ids("several answer spans required") == ("two",)

    examples, skips = read(*records, answers_are="all required", keep_several=True)
    assert [e.golds for e in examples] == [("Rome",), ("Ole", "Rømer"), ("Rome", "Rome")]
    assert skips.total == 0

    examples, skips = read(*records, answers_are="alternatives")
    assert [e.golds for e in examples] == [("Rome",), ("Ole", "Rømer"), ("Rome", "Rome")]
    assert skips.total == 0


def test_choices_need_no_place_and_unknown_keeps_impossible_questions(read):
    plausible = {"plausible_answers": [answer("Rome")]}
    records = [
        question("a", [{"text": "no", "answer_start": -1}]),
        question("b", [], is_impossible=True, **plausible),
        question("c", [{"text": "unknown"}]),
        question("d"),
        question("e", [{"text": "unknown", "answer_start": -1}], is_impossible=False),
    ]
    examples, skips = read(*records, choices=("Yes", "No", "unknown"))
    assert [(e.id, e.aliases, e.golds, e.true_mention) for e in examples] == [
        ("a", ("no",), ("no",), None),
        ("b", ("unknown",), ("",), None),
        ("c", ("unknown",), ("",), None),
        ("d", ("Rome",), ("Rome",), (0, 17, 21)),
        ("e", ("unknown",), ("unknown",), None),
    ]
    assert skips.total == 0 and skips.warnings_as_dict() == {}
    examples, skips = read(*records, choices=("yes", "no"))
    assert [e.id for e in examples] == ["a", "c", "d", "e"]
    assert skips.as_dict() == {"marked impossible to answer": 1}


def test_rows_without_answers_are_impossible_if_that_is_a_choice(tmp_path):
    rows = [
        {"id": "a", "context": CONTEXT, "question": "Where?", "answers": found}
        for found in (
            {"text": [], "answer_start": []},
            {"text": [" "], "answer_start": [-1]},
            {"text": ["Rome"], "answer_start": [17]},
        )
    ]
    rows[0]["is_impossible"] = None  # a column that only some rows have
    rows.append({"id": "m", "text": CONTEXT, "question": "Who?", "answers": ["Rome"]})
    rows[-1]["is_impossible"] = True
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows))
    marked = {"marked impossible to answer": 1}
    for choices, golds in ((("unknown",), [("",), ("",), ("Rome",), ("",)]), ((), [("Rome",)])):
        skips = ExclusionCounts()
        found = read_squad_rows(file, skips=skips, choices=choices)
        assert [example.golds for example in found] == golds
        assert skips.as_dict() == ({} if choices else {"no answer given": 2} | marked)


@pytest.mark.parametrize(
    ("articles", "message"),
    [
        ([{"title": "T"}], "item 0 of 'data': expected a list under 'paragraphs', found the keys"),
        ([{}], "expected a list under 'paragraphs', found no keys"),
        ([{"paragraphs": None}], "expected a list under 'paragraphs', found no keys"),
        ([{"paragraphs": [{"context": "x"}]}], "paragraph 0: expected a list under 'qas'"),
    ],
)
def test_another_layout_is_an_error(read, articles, message):
    with pytest.raises(InputError, match=message):
        read(articles=articles)


def test_another_meaning_of_several_answers_is_refused(read):
    with pytest.raises(InputError, match="answers_are: expected one of .*, found 'all_required'"):
        read(articles=[], answers_are="all_required")


def test_real_squad(shared_dir):
    skips = ExclusionCounts()
    examples = list(read_squad_layout(shared_dir / "data/squad/dev-v1.1.json", skips=skips))
    assert len(examples) == len({example.id for example in examples}) == 1172
    assert skips.total == 0 and skips.warnings_as_dict() == {}
    for example in examples:
        document, start, end = example.true_mention
        assert example.documents[document].text[start:end] == example.golds[0]


def test_real_quoref(shared_dir):
    file = shared_dir / "data/quoref/quoref-dev-v0.1.json"
    skips = ExclusionCounts()
    examples = list(read_squad_layout(file, skips=skips, answers_are="all required"))
    # 220 questions have two or more distinct texts; one has the same text twice.
    assert skips.as_dict() == {"several answer spans required": 220}
    assert len(examples) == 2418 - 220
    assert skips.warnings_as_dict() == {"annotated offset does not hold the answer": 40}
    assert sum(example.true_mention is None for example in examples) == 40
    for example in examples:
        if example.true_mention is not None:
            document, start, end = example.true_mention
            assert example.documents[document].text[start:end] == example.golds[0]


def rows(tmp_path, *records, **options):
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, records)))
    skips = ExclusionCounts()
    return list(read_squad_rows(tmp_path / "rows.json", skips=skips, **options)), skips


def row(id="q1", texts=("Rome",), starts=(17,), **changes):
    answers = {"text": list(texts), "answer_start": list(starts)}
    found = {"id": id, "title": "Italy", "context": CONTEXT, "question": "Where?"}
    return found | {"answers": answers} | changes


def test_rows_say_what_the_layout_says(read, tmp_path):
    both = row("q2", ("Ole", "Rømer"), (10, 0))
    found, skips = rows(tmp_path, row(), both, row("q3", (), ()))
    expected, _ = read(question("q1"), question("q2", [answer("Ole"), answer("Rømer")]))
    assert [(x.id, x.question, x.golds, x.true_mention) for x in found] == [
        (x.id, x.question, x.golds, x.true_mention) for x in expected
    ]
    assert [x.documents[0].id for x in found] == ["Italy#0", "Italy#1"]
    assert skips.as_dict() == {"no answer given": 1}
    nan = {"title": float("nan"), "is_impossible": float("nan")}
    named = {name.replace("id", "nr"): value for name, value in row(12.0, **nan).items()}
    [own], _ = rows(tmp_path, named, columns=Columns(id="nr", question="question"))
    assert (own.id, own.golds, own.true_mention) == ("12", found[0].golds, found[0].true_mention)
    _, skips = rows(tmp_path, row(), both, answers_are="all required")
    assert skips.as_dict() == {"several answer spans required": 1}


@pytest.mark.parametrize("read_file", [read_squad_layout, read_squad_rows])
def test_rows_may_lie_under_data(tmp_path, read_file):
    """As the example scripts of transformers read them."""
    records = [row(), row("q2", ("Ole", "Rømer"), (10.0, 0.0)), row("q3", (), ())]
    expected, _ = rows(tmp_path, *records)
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"version": "1.1", "data": records}))
    skips = ExclusionCounts()
    assert list(read_file(file, skips=skips)) == expected and len(expected) == 2
    assert skips.as_dict() == {"no answer given": 1}


def test_rows_need_a_start_for_each_text_or_none(tmp_path):
    (example,), skips = rows(tmp_path, row(answers={"text": ["Rome"]}))
    assert example.true_mention is None and skips.warnings_as_dict() == {}
    with pytest.raises(InputError, match="line 1: expected 1 under 'answer_start', found 2"):
        rows(tmp_path, row(starts=(17, 23)))


def test_a_file_of_the_official_layout_is_no_file_of_rows(tmp_path):
    official = {"version": "1.1", "data": [{"title": "Italy", "paragraphs": []}]}
    found = "found 'title', 'paragraphs'$"
    with pytest.raises(InputError, match=f"item 0 of .data.: expected a column.*{found}"):
        rows(tmp_path, official)
    without = {key: value for key, value in row().items() if key != "context"}
    with pytest.raises(InputError, match="line 2: expected a column 'text' or .*'title'"):
        rows(tmp_path, row(), without)


def test_rows_without_an_id_are_called_after_the_file(tmp_path):
    nameless = {name: value for name, value in row().items() if name != "id"}
    own = {**nameless, "text": nameless["context"]}
    found, _ = rows(tmp_path, nameless, row(id=None), own, row(id=" "), own | {"id": " "})
    assert [example.id for example in found] == [f"rows-{n}" for n in range(5)]
