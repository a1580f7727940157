"""NQ-open reader, and TriviaQA's questions without evidence."""

import json

import pytest

from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.examples import OpenQuestion
from hardem_jax.documents.mentions import AliasMatcher, enumerate_spans
from hardem_jax.documents.metrics import squad, triviaqa
from hardem_jax.errors import InputError
from hardem_jax.spans.readers.nq_open import read_nq_open, split_answers
from hardem_jax.spans.readers.triviaqa import read_triviaqa, read_triviaqa_questions
from hardem_jax.words import split_words


@pytest.fixture
def read(tmp_path):
    def run(*records, name="NQ-open.dev.jsonl", **options):
        file = tmp_path / name
        file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
        skips = ExclusionCounts()
        return list(read_nq_open(file, skips=skips, **options)), skips

    return run


def test_ids_are_lines(read):
    questions, _ = read(
        {"question": "who", "answer": ["Ada"]}, "", {"question": "x", "answer": ["y"]}
    )
    assert questions == [
        OpenQuestion("NQ-open.dev#1", "who", ("Ada",)),
        OpenQuestion("NQ-open.dev#3", "x", ("y",)),
    ]


def test_an_id_of_the_file_is_kept(read):
    records = [{"id": id, "question": "who", "answer": ["Ada"]} for id in ("a", 7, None, "a")]
    questions, skips = read(*records)
    assert [question.id for question in questions] == ["a", "7", "NQ-open.dev#3", "a"]
    assert skips.warnings_as_dict() == {"question id occurs again": 1}


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
        ("who\t[Ada]", "line 1: expected a list of answers, found"),
        ("who\t[3]", "line 1: expected each element of 'answer' to be a string"),
    ],
)
def test_other_tables_of_questions_are_refused(read, line, message):
    with pytest.raises(InputError, match=message):
        read(line, name="dev.tsv")


def test_an_answer_that_is_no_list_is_warned_of(read):
    questions, skips = read({"question": "who", "answer": "Homer"})
    assert [question.answers for question in questions] == [("Homer",)]
    assert skips.warnings_as_dict() == {"list of answers written as one string": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: expected a JSON object, found broken JSON"),
        ('{"question": "who"}', "line 1: expected 'question' and 'answer', found no 'answer'"),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(read, line, message):
    with pytest.raises(InputError, match=message):
        read(line)


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
        ("[]", ("",)),
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


def triviaqa_answers(tmp_path, **answer):
    data = {"Data": [{"Question": "Which jockey?", "QuestionId": "q1", "Answer": answer}]}
    (tmp_path / "qa.json").write_text(json.dumps(data))
    [question] = read_triviaqa_questions(tmp_path / "qa.json", skips=ExclusionCounts())
    return question.answers


def test_open_answers_are_the_aliases_as_written(tmp_path):
    aliases = {"Aliases": ["Jonjo O'Neill", "Jonjo"], "NormalizedAliases": ["jonjo o neill"]}
    found = triviaqa_answers(tmp_path, **aliases, HumanAnswers=["J. O'Neill"])
    assert found == ("Jonjo O'Neill", "Jonjo", "J. O'Neill")
    assert squad.exact_match("Jonjo O'Neill", found) == 1
    del aliases["Aliases"]
    assert triviaqa_answers(tmp_path, **aliases) == ("jonjo o neill",)


def test_right_mentions_of_real_open_questions_match_exactly(shared_dir):
    folder = shared_dir / "data" / "triviaqa"
    file, skips = folder / "qa" / "wikipedia-dev.json", ExclusionCounts()
    answers = {q.id: q.answers for q in read_triviaqa_questions(file, skips=skips)}
    scores = []
    for example in read_triviaqa(file, folder / "evidence", skips=skips):
        matcher = AliasMatcher(answers[example.id])
        for document in example.documents:
            for start, end in enumerate_spans(split_words(document.text), matcher):
                scores.append(squad.exact_match(document.text[start:end], answers[example.id]))
    assert len(scores) == 928 and all(scores)


def test_triviaqa_without_evidence(tmp_path):
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


def test_triviaqa_questions_are_those_with_evidence(shared_dir):
    folder = shared_dir / "data" / "triviaqa"
    file, skips = folder / "qa" / "wikipedia-dev.json", ExclusionCounts()
    with_evidence = list(read_triviaqa(file, folder / "evidence", skips=skips))
    without = list(read_triviaqa_questions(file, skips=skips))
    assert with_evidence
    assert [(q.id, q.question) for q in without] == [(e.id, e.question) for e in with_evidence]
    for question, example in zip(without, with_evidence, strict=True):
        forms = {triviaqa.normalize_answer(answer) for answer in question.answers}
        assert forms == {triviaqa.normalize_answer(gold) for gold in example.golds}
