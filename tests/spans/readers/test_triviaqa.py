"""TriviaQA reader, and the streaming it shares with the SQuAD-layout reader."""

import gzip
import json
import unicodedata

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import Document, OpenQuestion
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.triviaqa import read_triviaqa, read_triviaqa_questions


def page(name):
    return {"DocSource": "Search", "Filename": name, "Title": name}


def question(id="q1", **changes):
    record = {
        "Question": "Which city is old?",
        "QuestionId": id,
        "EntityPages": [page("Rome.txt")],
        "SearchResults": [],
        "Answer": {"Value": "Rome", "Aliases": ["Rome"], "NormalizedAliases": ["rome", "roma"]},
    }
    return {key: value for key, value in (record | changes).items() if value is not ...}


@pytest.fixture
def evidence(tmp_path):
    files = {
        "wikipedia/Rome.txt": "Rome is ålder.\r\nRoma!",
        "wikipedia/Italy.txt": "Italy has Rome.",
        "wikipedia/blank.txt": " \n",
        "web/33/33_1.txt": "A page on Rome.",
        "secret.txt": "not evidence",
    }
    for name, text in files.items():
        file = tmp_path / "evidence" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    return tmp_path / "evidence"


@pytest.fixture
def read(tmp_path, evidence):
    """Writes questions (or raw bytes) to a file and reads them back: (examples, skips)."""

    def run(*records, raw=None, **options):
        # As in the release, Domain comes after the data.
        raw = raw or json.dumps({"Data": records, "Domain": "Wikipedia", "Version": 1.0}).encode()
        file = tmp_path / "qa.json"
        file.write_bytes(raw)
        skips = ExclusionCounts()
        return list(read_triviaqa(file, evidence, skips=skips, **options)), skips

    return run


def test_reads_an_example(read):
    answer = {"NormalizedAliases": ["rome", "roma", "rome"], "HumanAnswers": ["The City-State"]}
    (example,), skips = read(
        question(
            EntityPages=[page("Rome.txt"), page("Italy.txt"), page("Rome.txt")],
            SearchResults=[page("33/33_1.txt")],
            Answer=answer,
        )
    )
    assert example.id == "q1"
    assert example.question == "Which city is old?"
    assert [document.id for document in example.documents] == [
        "wikipedia/Rome.txt",  # named twice, read once
        "wikipedia/Italy.txt",
        "web/33/33_1.txt",
    ]
    assert example.documents[0].text == "Rome is ålder.\r\nRoma!"  # line ends kept: offsets hold
    assert example.golds == ("rome", "roma", "rome", "The City-State")
    assert example.aliases == ("rome", "roma", "The City-State")
    assert example.true_mention is None and example.mentions is None
    assert skips.total == 0 and str(skips) == "0 examples left out"


@pytest.mark.parametrize(
    ("bad", "reason", "shown"),
    [
        (page("Nowhere.txt"), "evidence file missing", "q1: wikipedia/Nowhere.txt"),
        ({"Title": "no name"}, "evidence file missing", "q1: wikipedia/"),
        (page("x" * 300), "evidence file missing", "q1: wikipedia/" + "x" * 300),
        (page("blank.txt"), "empty document", "q1: wikipedia/blank.txt"),
    ],
)
def test_a_missing_document_leaves_the_others(read, bad, reason, shown):
    (example,), skips = read(question(EntityPages=[bad, page("Italy.txt")]))
    assert [document.id for document in example.documents] == ["wikipedia/Italy.txt"]
    assert skips.total == 0
    assert skips.warnings_as_dict() == {reason: 1}
    assert skips.ids(reason) == (shown,)


@pytest.mark.parametrize("listed", ["NFC", "NFD"])
@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
def test_accents_of_a_file_name_may_be_composed_or_not(read, evidence, listed, on_disk):
    stored, name = (unicodedata.normalize(form, "Beyoncé.txt") for form in (on_disk, listed))
    (evidence / "wikipedia" / stored).write_text("Rome, she sang.")
    (example,), skips = read(question(EntityPages=[page(name)]))
    assert [(x.id, x.text) for x in example.documents] == [(f"wikipedia/{name}", "Rome, she sang.")]
    assert not skips.warnings_as_dict()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../secret.txt", "'Filename' inside .*'../secret.txt'"),
        ("a/../../secret.txt", "expected a 'Filename' inside"),
        ("/etc/hostname", "expected a 'Filename' inside"),
    ],
)
def test_names_that_lead_out_of_the_evidence_are_errors(read, name, message):
    with pytest.raises(InputError, match=f"qa.json: item .*{message}"):
        read(question(EntityPages=[page(name)]))


GOOD = json.dumps({"Data": [question("a"), question("é")]}, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\n", "after 0 items of 'Data': .*premature EOF"),
        (b"hello", "expected JSON, found broken or truncated text"),
        (b"[1]", "expected an object with a list under 'Data', found a list"),
        (b'{"data": [], "version": 1}', "under 'Data', found the keys 'data', 'version'"),
        (b'{"Data": {"a": 1}}', "list under 'Data', found an object under it"),
        (GOOD[:-2], "after 2 items of 'Data': .*premature EOF"),
        (GOOD + b"]", "after 2 items of 'Data'.*trailing garbage"),
        (GOOD.replace("é".encode(), b"\xe9"), "after 1 items of 'Data': .* invalid bytes in UTF8"),
        (GOOD.replace("é".encode(), b"\xed\xa0\x80"), "after 1 items of 'Data': .*not UTF-8"),
    ],
)
def test_broken_question_files(read, raw, message):
    with pytest.raises(InputError, match=message) as caught:
        read(raw=raw)
    assert "qa.json: " in str(caught.value) and "\n" not in str(caught.value)


def test_broken_files_and_folders(tmp_path, evidence):
    def error(qa_file, evidence_dir=evidence):
        with pytest.raises(InputError) as caught:
            next(read_triviaqa(qa_file, evidence_dir, skips=ExclusionCounts()))
        return str(caught.value)

    qa = tmp_path / "qa.json"
    qa.write_bytes(GOOD)
    assert error(tmp_path) == f"{tmp_path}: expected a file, found a folder"
    assert "expected a folder with wikipedia/ or web/, found neither" in error(qa, tmp_path)
    assert "found no such folder" in error(qa, tmp_path / "nowhere")

    bad = evidence / "wikipedia/Rome.txt"
    bad.write_bytes(b"caf\xe9 in Rome")
    assert error(qa) == f"{bad}: byte 3: expected UTF-8 text, found 0xe9"
    bad.write_bytes(b"Rome\xc3")
    assert error(qa) == f"{bad}: byte 4: expected UTF-8 text, found 0xc3 as the last byte"


def test_gzip_is_transparent_and_its_damage_an_error(tmp_path, evidence):
    file = tmp_path / "qa.json.gz"
    file.write_bytes(gzip.compress(GOOD))
    read = list(read_triviaqa(file, evidence, skips=ExclusionCounts()))
    assert [example.id for example in read] == ["a", "é"]
    for damaged in gzip.compress(GOOD)[:-12], GOOD:
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="qa.json.gz: cannot be read"):
            list(read_triviaqa(file, evidence, skips=ExclusionCounts()))


@pytest.mark.parametrize(("split", "count", "pages"), [("train", 1004, 2873), ("dev", 212, 591)])
def test_real_files(shared_dir, split, count, pages):
    folder = shared_dir / "data/triviaqa"
    skips = ExclusionCounts()
    file = folder / f"qa/wikipedia-{split}.json"
    examples = list(read_triviaqa(file, folder / "evidence", skips=skips))
    assert len(examples) == len({example.id for example in examples}) == count
    assert sum(len(example.documents) for example in examples) == pages
    assert skips.total == 0 and skips.warnings_as_dict() == {}
    assert all(example.aliases and example.golds for example in examples)


def web_file(*records):
    return json.dumps({"Data": records, "Domain": "Web", "VerifiedEval": False}).encode()


def official_web_keys(raw):
    """Key -> answer as the official evaluator has them outside the Wikipedia domain."""
    keys = {}
    for datum in json.loads(raw)["Data"]:
        for page in datum.get("EntityPages", []) + datum.get("SearchResults", []):
            keys["{}--{}".format(datum["QuestionId"], page["Filename"])] = datum["Answer"]
    return keys


def test_each_document_of_a_web_question_is_an_example(read):
    raw = web_file(
        question("q1", SearchResults=[page("33/33_1.txt"), page("Nowhere.txt")]),
        question("q2", EntityPages=[page("Rome.txt"), page("blank.txt"), page("Rome.txt")]),
        question("q3", EntityPages=[], SearchResults=[]),
        question("q4", Question=" "),
    )
    examples, skips = read(raw=raw)
    assert [(example.id, example.documents) for example in examples] == [
        ("q1--Rome.txt", (Document("wikipedia/Rome.txt", "Rome is ålder.\r\nRoma!"),)),
        ("q1--33/33_1.txt", (Document("web/33/33_1.txt", "A page on Rome."),)),
        ("q2--Rome.txt", (Document("wikipedia/Rome.txt", "Rome is ålder.\r\nRoma!"),)),
    ]
    assert all(example.golds == ("rome", "roma") for example in examples)
    # Every key of the official evaluator is an example or is counted as left out; a question
    # without pages has no key.
    left_out = {reason: skips.ids(reason) for reason in skips.as_dict()}
    assert left_out == {
        "evidence file missing": ("q1--Nowhere.txt",),
        "empty document": ("q2--blank.txt",),
        "empty question": ("q4--Rome.txt",),
    }
    assert skips.total == 3 and skips.warnings_as_dict() == {}
    keys = {example.id for example in examples}.union(*left_out.values())
    assert keys == set(official_web_keys(raw))


def test_a_web_page_without_a_file_name_has_no_key(read):
    examples, skips = read(raw=web_file(question("q1", SearchResults=[{"Title": "no name"}])))
    assert [example.id for example in examples] == ["q1--Rome.txt"]
    assert skips.total == 0
    assert skips.ids("evidence file missing") == ("q1: web/",)


@pytest.mark.parametrize(
    "kind", [{"Domain": "Wikipedia"}, {"Domain": None, "VerifiedEval": None}, {}]
)
def test_other_files_have_one_example_to_a_question(read, kind):
    content = {"Data": [question("q1", SearchResults=[page("33/33_1.txt")])]} | kind
    examples, _ = read(raw=json.dumps(content).encode())
    assert [example.id for example in examples] == ["q1"]


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("domain", ["Wikipedia", "Web"])
def test_a_verified_file_has_what_people_have_checked(read, domain, verified):
    checked = {"QuestionPartOfVerifiedEval": True}
    right = page("Rome.txt") | {"DocPartOfVerifiedEval": True}
    wrong = page("Italy.txt") | {"DocPartOfVerifiedEval": False}
    records = [
        question("q1", EntityPages=[right, wrong]) | checked,
        question("q2", EntityPages=[right]) | {"QuestionPartOfVerifiedEval": False},
    ]
    content = {"Data": records, "Domain": domain, "VerifiedEval": verified}
    examples, skips = read(raw=json.dumps(content).encode())
    found = {example.id: [x.id for x in example.documents] for example in examples}
    rome, italy = "wikipedia/Rome.txt", "wikipedia/Italy.txt"
    if domain == "Wikipedia":  # its official evaluator keeps all documents of a question
        expected = {"q1": [rome, italy]} | ({} if verified else {"q2": [rome]})
    else:
        expected = {"q1--Rome.txt": [rome]}
        expected |= {} if verified else {"q1--Italy.txt": [italy], "q2--Rome.txt": [rome]}
    assert found == expected and skips.total == 0


QURAN = {
    "Value": "Qur'an",
    "Aliases": ["About holy quran", "Qur'an", "Qur'an"],
    "NormalizedValue": "qur an",
    "NormalizedAliases": ["about holy quran", "qur an", "quran"],
}
# Both with the value first.
FORMS = ("qur an", "about holy quran", "quran")
ALIASES = ("Qur'an", "About holy quran", "Qur'an")


@pytest.mark.parametrize(
    ("changes", "golds", "answers"),
    [
        ({"HumanAnswers": ["the book"]}, (*FORMS, "the book"), (*ALIASES, "the book")),
        (  # a value that is not among the accepted answers is not made one
            {"Value": "Koran", "NormalizedValue": "koran"},
            ("about holy quran", "qur an", "quran"),
            ("About holy quran", "Qur'an", "Qur'an"),
        ),
        ({"Aliases": []}, FORMS, FORMS),
    ],
)
def test_the_value_of_an_answer_is_its_first_gold(read, tmp_path, changes, golds, answers):
    examples, _ = read(question(Answer=QURAN | changes))
    assert [example.golds for example in examples] == [golds]
    asked = read_triviaqa_questions(tmp_path / "qa.json", skips=ExclusionCounts())
    assert [question.answers for question in asked] == [answers]


def test_questions_without_evidence(tmp_path):
    answer = {"NormalizedAliases": ["rome", "roma"], "HumanAnswers": ["Rome"]}
    data = [
        {"Question": "Which city?", "QuestionId": "q1", "Answer": answer},
        {"Question": "Which city?", "QuestionId": "q1", "Answer": answer},
        {"Question": "?", "QuestionId": "q2", "Answer": answer},
        {"Question": "Who?", "QuestionId": "q3"},
        {"Question": "Who?"},
    ]
    (tmp_path / "qa.json").write_text(json.dumps({"Data": data}))
    skips = ExclusionCounts()
    questions = list(read_triviaqa_questions(tmp_path / "qa.json", skips=skips))
    assert questions == [OpenQuestion("q1", "Which city?", ("rome", "roma", "Rome"))] * 2
    assert sum(skips.as_dict().values()) == 3
    assert skips.warnings_as_dict() == {"question id occurs again": 1}
