"""Prepared questions: what is written is what is read, and everything is counted."""

import dataclasses
import json

import numpy as np
import pytest

from hardem_jax.data.examples import NumericExample
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.equations import (
    NO_SOLUTION,
    PreparedQuestions,
    numeric_question,
    prepare_questions,
)
from hardem_jax.data.readers.drop import read_drop
from hardem_jax.errors import InputError
from hardem_jax.solutions.equations.enumeration import (
    COUNT,
    MINUS,
    NONE,
    PASSAGE,
    PLUS,
    QUESTION,
    SPECIAL,
    SPECIAL_NUMBERS,
    EquationRules,
    enumerate_equations,
    execute_equation,
)
from hardem_jax.solutions.equations.numbers import NumberConfig
from tests.damages import DAMAGES

S = len(SPECIAL_NUMBERS)
PASSAGE_TEXT = "Longwell threw 41 yards, Favre 38 and Ryan 40."
GOLD = {"number": "3", "date": {"day": "", "month": "", "year": ""}, "spans": []}


def example(id="q1", question="How many more than 8?", answer=3.0, **changes):
    fields = dict(passage_id="p", passage=PASSAGE_TEXT, golds=(GOLD,))
    return NumericExample(id=id, question=question, answer=answer, **(fields | changes))


EXAMPLES = [
    example("q1"),
    example("q2", "Who?", 31415.0, true_equation=(S, PLUS, S + 1, PLUS)),  # no such sum
    example("q3", "And 8?", 3.0, true_equation=(S, PLUS, S + 1, MINUS)),
    example("q4", "None?", 2.0, passage="No number at all.", passage_id="p2", golds=(GOLD, GOLD)),
    example("q5", "Or 41?", 79.0),
]
UNSOLVED = ["q2", "q4"]


def prepare(folder, *, keep, examples=EXAMPLES, **options):
    exclusions = ExclusionCounts()
    meta = prepare_questions(
        examples,
        folder,
        numbers=NumberConfig(),
        rules=EquationRules(),
        sources={"dev.json": "digest"},
        exclusions=exclusions,
        keep_without_solution=keep,
        **options,
    )
    return meta, exclusions


def assert_same(found, expected):
    for field in dataclasses.fields(expected):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, field.name
        else:
            assert ours == (list(theirs) if field.name == "golds" else theirs), field.name


def test_what_is_written_is_what_is_read(tmp_path):
    rules, numbers = EquationRules(percent="term", max_count=9), NumberConfig(words="all")
    prepare_questions(
        EXAMPLES,
        tmp_path / "dev",
        numbers=numbers,
        rules=rules,
        sources={},
        exclusions=ExclusionCounts(),
        keep_without_solution=True,
    )
    split = PreparedQuestions(tmp_path / "dev")
    assert (split.rules, split.numbers) == (rules, numbers)
    assert len(split.questions) == len(EXAMPLES)
    for found, original in zip(split.questions, EXAMPLES, strict=True):
        expected = numeric_question(original, numbers, rules)
        assert_same(found, expected)
        values = execute_equation(found.equations, found.table, rules)
        np.testing.assert_allclose(values, original.answer, atol=0.5 * 10.0**-rules.digits)
        sizes = split.questions.sizes[EXAMPLES.index(original)].tolist()
        assert sizes == [len(expected.spans), len(expected.equations)]
    assert any(split.questions[0].equations[:, 1] == COUNT)


def test_numbers_and_their_places():
    question = numeric_question(example(), NumberConfig(), EquationRules())
    assert question.values.tolist() == [*SPECIAL_NUMBERS, 41, 38, 40, 8]
    assert question.kinds.tolist() == [SPECIAL] * S + [PASSAGE] * 3 + [QUESTION]
    texts = [PASSAGE_TEXT] * 3 + ["How many more than 8?"]
    words = [text[a:b] for text, (a, b) in zip(texts, question.spans, strict=True)]
    assert words == ["41", "38", "40", "8"]
    expected = enumerate_equations(question.table, 3.0, EquationRules())
    np.testing.assert_array_equal(question.equations, expected)


@pytest.mark.parametrize(
    ("rules", "num_special", "num_text"),
    [
        (EquationRules(), S, 4),
        (EquationRules(special_numbers=False), 0, 4),
        (EquationRules(question_numbers=False), S, 3),
    ],
)
def test_the_table_holds_only_numbers_that_take_part(rules, num_special, num_text):
    question = numeric_question(example(), NumberConfig(), rules)
    assert (question.kinds == SPECIAL).sum() == num_special
    assert len(question.values) == num_special + num_text == len(question.kinds)
    assert len(question.spans) == num_text


def test_questions_on_one_passage_have_its_numbers_each_with_its_own_z(tmp_path):
    prepare(tmp_path / "dev", keep=True)
    questions = list(PreparedQuestions(tmp_path / "dev").questions)
    first, third, fifth = questions[0], questions[2], questions[4]
    for question in (first, third, fifth):
        np.testing.assert_array_equal(question.spans[:3], first.spans[:3])
        np.testing.assert_array_equal(question.values[: S + 3], first.values[: S + 3])
    # The same passage under another reading of numbers is not answered from memory.
    without_words = NumberConfig(words="none")
    text = "Two of 41."
    both = [numeric_question(example(passage=text), n, EquationRules())
            for n in (NumberConfig(), without_words)]  # fmt: skip
    assert [q.values[S:].tolist() for q in both] == [[2, 41, 8], [41, 8]]
    assert [S, PLUS, S + 1, PLUS] in fifth.equations.tolist()  # 41 + 38
    assert [S + 1, PLUS, S + 3, PLUS] in fifth.equations.tolist()  # 38 + 41 of the question


def test_training_leaves_out_and_counts_what_has_no_solution(tmp_path):
    meta, exclusions = prepare(tmp_path / "train", keep=False, reader={"max_words": 7})
    assert exclusions.as_dict() == meta["excluded"] == {NO_SOLUTION: len(UNSOLVED)}
    assert list(exclusions.ids(NO_SOLUTION)) == UNSOLVED
    split = PreparedQuestions(tmp_path / "train")
    assert [q.id for q in split.questions] == ["q1", "q3", "q5"]
    sizes = [len(q.equations) for q in split.questions]
    assert meta["counts"] == {
        "examples read": len(EXAMPLES),
        "left out": len(UNSOLVED),
        "questions": len(sizes),
        "questions with a solution": len(sizes),
    }
    assert meta["solutions per question"]["mean"] == round(float(np.mean(sizes)), 2)
    assert split.meta == meta and meta["reader"] == {"max_words": 7}


def test_evaluation_keeps_what_has_no_solution(tmp_path):
    meta, exclusions = prepare(tmp_path / "dev", keep=True)
    assert exclusions.total == 0
    split = PreparedQuestions(tmp_path / "dev")
    assert [q.id for q in split.questions] == [e.id for e in EXAMPLES]
    assert meta["counts"]["questions with a solution"] == len(EXAMPLES) - len(UNSOLVED)
    unsolved = [q for q in split.questions if q.id in UNSOLVED]
    assert all(q.equations.shape == (0, 4) and q.true_equation == -1 for q in unsolved)


def test_what_the_reader_counted_stays_counted(tmp_path):
    file = tmp_path / "dev.json"
    pairs = [
        {"query_id": "a", "question": "How many?", "answer": GOLD},
        {"query_id": "b", "question": "How many?", "answer": GOLD | {"number": "a few"}},
        {"query_id": "c", "question": "How many?", "answer": GOLD | {"number": "1e999"}},
    ]
    file.write_text(json.dumps({"p": {"passage": "Nothing " + "1" * 400, "qa_pairs": pairs}}))
    exclusions = ExclusionCounts()
    meta = prepare_questions(
        [*read_drop(file, skips=exclusions), example("z")],
        tmp_path / "train",
        numbers=NumberConfig(),
        rules=EquationRules(),
        sources={},
        exclusions=exclusions,
        keep_without_solution=False,
    )
    assert meta["excluded"] == exclusions.as_dict()
    assert set(meta["excluded"].values()) == {1} and NO_SOLUTION in meta["excluded"]
    assert set(meta["warnings"]) == {
        "passage without numbers",
        "text with numbers too large for float64",
    }
    split = PreparedQuestions(tmp_path / "train")
    assert [question.id for question in split.questions] == ["z"]
    assert list(split.left_out) == ["a", "b", "c"]


def test_the_true_equation_becomes_its_index_in_z():
    question = numeric_question(EXAMPLES[2], NumberConfig(), EquationRules())
    assert len(question.equations) > 1
    assert question.equations[question.true_equation].tolist() == list(EXAMPLES[2].true_equation)
    swapped = example(answer=3.0, true_equation=(S, MINUS, S + 1, PLUS))
    assert numeric_question(swapped, NumberConfig(), EquationRules()).true_equation == -1
    counted = example(answer=3.0, true_equation=(3, COUNT, -1, NONE))
    question = numeric_question(counted, NumberConfig(), EquationRules(max_count=9))
    assert question.true_equation == len(question.equations) - 1
    assert numeric_question(counted, NumberConfig(), EquationRules()).true_equation == -1


def test_a_question_that_is_only_asked_has_no_z():
    question = numeric_question(example(answer=None), NumberConfig(), EquationRules(max_count=9))
    assert question.equations.shape == (0, 4) and len(question.values) == S + 4


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("{", "expected JSON"),
        ("[]", "expected format equations 2, found None"),
        (json.dumps({"format": 1}), "expected format equations 2, found 1; prepare it again"),
        (json.dumps({"format": "equations 0"}), "found equations 0"),
    ],
)
def test_another_format_is_refused_in_one_line(tmp_path, content, culprit):
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(InputError, match=culprit) as refused:
        PreparedQuestions(tmp_path)
    assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)


def test_every_damaged_file_is_named(tmp_path):
    with pytest.raises(InputError, match="expected a prepared split .*, found no complete one"):
        PreparedQuestions(tmp_path / "nowhere")
    prepare(tmp_path / "dev", keep=True)
    for file in sorted((tmp_path / "dev").iterdir()):
        content = file.read_bytes()
        for kind, damage in DAMAGES.items():
            damage(file)
            with pytest.raises(InputError) as refused:
                PreparedQuestions(tmp_path / "dev")
            assert str(refused.value).startswith(str(file)), (file, kind)
            file.write_bytes(content)


def test_a_split_is_complete_or_absent(tmp_path):
    def breaks_off():
        yield EXAMPLES[0]
        raise InputError("dev.json: truncated")

    with pytest.raises(InputError, match="truncated"):
        prepare(tmp_path / "dev", keep=True, examples=breaks_off())
    assert not (tmp_path / "dev").exists()
    prepare(tmp_path / "dev", keep=True)
    prepare(tmp_path / "dev", keep=True, examples=EXAMPLES[:1], replace=True)
    assert len(PreparedQuestions(tmp_path / "dev").questions) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["dev"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/dev: cannot be written"):
        prepare(tmp_path / "file" / "dev", keep=True)


def test_of_two_questions_with_one_id_the_first_is_used(tmp_path):
    examples = [EXAMPLES[0], example("q1", "And 8?"), EXAMPLES[2]]
    meta, exclusions = prepare(tmp_path / "dev", keep=True, examples=examples)
    assert exclusions.as_dict() == meta["excluded"] == {"question id seen before": 1}
    assert meta["counts"]["examples read"] == 3
    found = PreparedQuestions(tmp_path / "dev").questions
    assert [found[i].question for i in range(len(found))] == [
        EXAMPLES[0].question,
        EXAMPLES[2].question,
    ]
