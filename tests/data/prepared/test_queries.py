"""Prepared questions on tables: what is written is what is read, and everything is counted."""

import dataclasses
import json

import numpy as np
import pytest

from hardem_jax.data.examples import TableQuestion
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.prepared.queries import (
    FEWER_CONDITIONS,
    NO_SOLUTION,
    NOT_ENUMERABLE,
    PreparedQueries,
    prepare_queries,
    query_question,
)
from hardem_jax.data.readers.table_jsonl import read_table_questions
from hardem_jax.data.readers.wikisql import read_wikisql, write_answers
from hardem_jax.errors import InputError
from hardem_jax.metrics.wikitablequestions import Denotation
from hardem_jax.solutions.sql.enumeration import (
    ROW_WIDTH,
    OfficialEngine,
    Query,
    SqlRules,
    Table,
    enumerate_sql,
    split_words,
)
from tests.damages import DAMAGES

RULES = SqlRules()
ROWS = (("ann", 7, "o'hara"), ("bo", 9.5, None), ("cy", None, "'; drop table t; --"))
TABLE = Table("1-1", ("player", "no.", ""), ("text", "real", "text"), ROWS)
CITIES = Table("csv/2.csv", ("city", "city"), ("text", "text"), (("bonn", "1.0"), ("rome", "2")))
EMPTY = Table("1-3", ("a",), ("text",), ())


def ask(id, question, *answer, table=TABLE, **changes):
    return TableQuestion(id, question, table, answer, **changes)


QUESTIONS = [
    ask("q1", "Who has 7?", "ann"),
    ask(
        "q2", "Which city is not Bonn?", "Rome", table=CITIES, match="denotation", values=("Rome",)
    ),
    ask("q3", "Who has 12?", "dee"),
    ask("q4", "Whose number is 9.5, and who is Cy?", 9.5),
    ask("q5", "Is there '; DROP TABLE t; -- ?", None, table=TABLE),
    ask("q6", "None?", 1, table=EMPTY),
]
UNSOLVED = ["q3", "q6"]


def prepare(folder, *, keep=True, questions=QUESTIONS, rules=RULES, **options):
    exclusions = ExclusionCounts()
    meta = prepare_queries(
        questions,
        folder,
        rules=rules,
        sources={"dev.jsonl": "digest"},
        exclusions=exclusions,
        keep_without_solution=keep,
        **({"denotation": Denotation} | options),
    )
    return meta, exclusions


def assert_same(found, expected):
    for field in dataclasses.fields(expected):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, field.name
        else:
            assert ours == (list(theirs) if isinstance(theirs, tuple) else theirs), field.name


def test_what_is_written_is_what_is_read(tmp_path):
    rules = SqlRules(numbers="exact", max_conditions=2, cap=100)
    meta, _ = prepare(tmp_path / "dev", rules=rules, reader={"split": "dev"})
    split = PreparedQueries(tmp_path / "dev")
    assert split.rules == rules and split.meta == meta and meta["reader"] == {"split": "dev"}
    assert len(split.questions) == len(QUESTIONS)
    for number, original in enumerate(QUESTIONS):
        expected = query_question(original, rules, Denotation)
        found = split.questions[number]
        assert_same(found, expected)
        assert [type(cell) for cell in found.answer] == [type(cell) for cell in original.answer]
        assert (found.queries.dtype, found.words.dtype) == (np.int16, np.int32)
        sizes = [len(found.words), len(found.queries)]
        assert split.questions.sizes[number].tolist() == sizes


def test_tables_are_there_once_in_the_order_of_their_use(tmp_path):
    meta, _ = prepare(tmp_path / "dev")
    tables = PreparedQueries(tmp_path / "dev").tables
    assert list(tables) == ["1-1", "csv/2.csv", "1-3"] and len(tables) == meta["counts"]["tables"]
    for table in (TABLE, CITIES, EMPTY):
        assert tables[table.id] == table
        kinds = [[type(cell) for cell in row] for row in tables[table.id].rows]
        assert kinds == [[type(cell) for cell in row] for row in table.rows]
        assert tables[table.id] is tables[table.id]  # what is made of a table is kept by identity
    with pytest.raises(KeyError):
        tables["1-2"]


def test_only_tables_of_questions_that_are_kept_are_written(tmp_path):
    prepare(tmp_path / "train", keep=False)
    assert list(PreparedQueries(tmp_path / "train").tables) == ["1-1", "csv/2.csv"]


def test_z_is_found_from_table_question_and_answer():
    for original in QUESTIONS:
        found = query_question(original, RULES, Denotation)
        match = Denotation(original.answer, original.values).matches if found.values else None
        expected = enumerate_sql(original.table, original.question, original.answer, match=match)
        np.testing.assert_array_equal(found.queries, expected.queries)
        np.testing.assert_array_equal(found.words, split_words(original.question))
        assert found.num_queries == expected.size == len(found.queries)
        assert (not len(found.queries)) == (found.id in UNSOLVED)
        with OfficialEngine() as engine:
            for row in found.queries:
                query = Query.from_row(row, found.question, found.words)
                result = engine.execute(original.table, query)
                assert match(result) if match else result == list(original.answer)


def test_denotations_need_their_matcher(tmp_path):
    with pytest.raises(ValueError, match="q2: answer matched by denotation, expected"):
        query_question(QUESTIONS[1], RULES)
    with pytest.raises(ValueError, match="q2"):
        prepare(tmp_path / "dev", denotation=None)
    assert not (tmp_path / "dev").exists()


def test_the_values_of_an_answer_take_part():
    # As text, "two" is none of the cells; its value is.
    asked = ask("q", "How many?", "two", table=CITIES, match="denotation", values=("2.0",))
    assert query_question(asked, RULES, Denotation).num_queries > 0
    asked = dataclasses.replace(asked, values=None)
    assert query_question(asked, RULES, Denotation).num_queries == 0


def test_training_leaves_out_and_counts_what_has_no_solution(tmp_path):
    meta, exclusions = prepare(tmp_path / "train", keep=False)
    assert exclusions.as_dict() == meta["excluded"] == {NO_SOLUTION: len(UNSOLVED)}
    assert list(exclusions.ids(NO_SOLUTION)) == UNSOLVED
    split = PreparedQueries(tmp_path / "train")
    assert [q.id for q in split.questions] == [q.id for q in QUESTIONS if q.id not in UNSOLVED]
    sizes = [len(q.queries) for q in split.questions]
    assert meta["counts"] == {
        "questions read": len(QUESTIONS),
        "left out": len(UNSOLVED),
        "questions": len(sizes),
        "questions with a solution": len(sizes),
        "questions cut by the cap": 0,
        "solutions cut by the cap": 0,
        "tables": 2,
    }
    assert meta["solutions per question"] == {
        "mean": round(float(np.mean(sizes)), 2),
        "median": float(np.median(sizes)),
        "max": max(sizes),
    }
    assert meta["sources"] == {"dev.jsonl": "digest"} and meta["warnings"] == {}


def test_evaluation_keeps_what_has_no_solution(tmp_path):
    meta, exclusions = prepare(tmp_path / "dev", keep=True)
    assert exclusions.total == 0
    split = PreparedQueries(tmp_path / "dev")
    assert [q.id for q in split.questions] == [q.id for q in QUESTIONS]
    assert meta["counts"]["questions with a solution"] == len(QUESTIONS) - len(UNSOLVED)
    unsolved = [q for q in split.questions if q.id in UNSOLVED]
    assert all(q.queries.shape == (0, ROW_WIDTH) and q.num_queries == 0 for q in unsolved)


def test_what_the_cap_cuts_is_counted(tmp_path):
    whole, _ = prepare(tmp_path / "whole")
    meta, _ = prepare(tmp_path / "cut", rules=SqlRules(cap=2))
    full = [len(q.queries) for q in PreparedQueries(tmp_path / "whole").questions]
    cut = list(PreparedQueries(tmp_path / "cut").questions)
    assert [q.num_queries for q in cut] == full
    assert [len(q.queries) for q in cut] == [min(size, 2) for size in full]
    assert meta["counts"]["questions cut by the cap"] == sum(size > 2 for size in full) > 0
    assert meta["counts"]["solutions cut by the cap"] == sum(max(size - 2, 0) for size in full)
    assert meta["solutions per question"] == whole["solutions per question"]


def test_questions_with_too_many_combinations_are_told_of(tmp_path):
    meta, exclusions = prepare(tmp_path / "dev", rules=SqlRules(max_combinations=1))
    assert meta["warnings"] == exclusions.warnings_as_dict()
    told = [q.id for q in PreparedQueries(tmp_path / "dev").questions if q.max_conditions < 3]
    assert told and meta["warnings"] == {FEWER_CONDITIONS: len(told)}
    assert set(exclusions.ids(FEWER_CONDITIONS)) <= set(told)


def test_what_z_cannot_hold_is_counted_and_the_rest_goes_on(tmp_path):
    huge = Table("1-9", ("n",), ("real",), ((2**63,),))
    broken = [
        ask("cell", "Which?", 1, table=huge),
        ask("answer", "Which?", 2**64),
        ask("words", "? " * 40_000, "ann"),
    ]
    meta, exclusions = prepare(tmp_path / "dev", questions=[*broken, QUESTIONS[0]])
    assert meta["excluded"] == {NOT_ENUMERABLE: len(broken)}
    told = exclusions.ids(NOT_ENUMERABLE)
    assert [line.split(":")[0] for line in told] == ["cell", "answer", "words"]
    assert all("expected" in line for line in told)
    split = PreparedQueries(tmp_path / "dev")
    assert [q.id for q in split.questions] == ["q1"] and list(split.tables) == ["1-1"]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_integers_are_kept(tmp_path, sign):
    largest = 2**63 - 1 if sign > 0 else -(2**63)
    table = Table("1-1", ("n",), ("real",), ((largest,),))
    prepare(tmp_path / "dev", questions=[ask("q", "Which?", largest, table=table)])
    split = PreparedQueries(tmp_path / "dev")
    assert split.questions[0].answer == [largest] and split.tables["1-1"] == table


def test_equal_tables_are_one_and_others_with_its_id_refused(tmp_path):
    again = dataclasses.replace(TABLE)
    questions = [QUESTIONS[0], dataclasses.replace(QUESTIONS[3], table=again)]
    prepare(tmp_path / "dev", questions=questions)
    assert len(PreparedQueries(tmp_path / "dev").tables) == 1
    other = dataclasses.replace(TABLE, header=("player", "no.", "name"))
    questions = [QUESTIONS[0], dataclasses.replace(QUESTIONS[3], table=other)]
    with pytest.raises(InputError, match="q4: expected one table '1-1', found a second one"):
        prepare(tmp_path / "new", questions=questions)
    assert not (tmp_path / "new").exists()


def test_any_number_of_processes_writes_the_same(tmp_path):
    many = [
        dataclasses.replace(question, id=f"{question.id}-{n}")
        for n in range(60)
        for question in (*QUESTIONS, ask("big", "Which?", 2**64))
    ]
    metas = [
        prepare(tmp_path / f"{number}", questions=many, keep=False, processes=number)[0]
        for number in (1, 2)
    ]
    assert metas[0] == metas[1] and metas[0]["counts"]["questions read"] == len(many)
    assert metas[0]["excluded"] == {NO_SOLUTION: 60 * len(UNSOLVED), NOT_ENUMERABLE: 60}
    files = sorted(file.name for file in (tmp_path / "1").iterdir())
    assert files == sorted(file.name for file in (tmp_path / "2").iterdir())
    for name in files:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_no_process_cannot_prepare(tmp_path):
    with pytest.raises(InputError, match="processes: expected at least 1, found 0"):
        prepare(tmp_path / "dev", processes=0)


def test_a_reader_that_breaks_off_leaves_nothing_behind(tmp_path):
    def breaks_off():
        yield QUESTIONS[0]
        raise InputError("dev.jsonl: truncated")

    for processes in (None, 2):
        with pytest.raises(InputError, match="truncated"):
            prepare(tmp_path / "dev", questions=breaks_off(), processes=processes)
        assert not (tmp_path / "dev").exists()


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        ("{", "expected JSON"),
        (json.dumps({"format": "equations 1"}), "expected format queries 2, found equations 1"),
    ],
)
def test_another_format_is_refused_in_one_line(tmp_path, content, culprit):
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(InputError, match=culprit) as refused:
        PreparedQueries(tmp_path)
    assert "\n" not in str(refused.value) and str(tmp_path) in str(refused.value)


def test_every_damaged_file_is_named(tmp_path):
    prepare(tmp_path / "dev")
    for file in sorted((tmp_path / "dev").iterdir()):
        content = file.read_bytes()
        for kind, damage in DAMAGES.items():
            damage(file)
            with pytest.raises(InputError) as refused:
                PreparedQueries(tmp_path / "dev")
            assert str(refused.value).startswith(str(file)), (file, kind)
            file.write_bytes(content)


@pytest.mark.parametrize(("keep", "use"), [(False, "train"), (True, "evaluate")])
def test_a_split_without_a_question_is_not_written(tmp_path, keep, use):
    with pytest.raises(InputError, match=f"nothing to {use} on, no question can be used"):
        prepare(tmp_path / "split", questions=[], keep=keep)
    assert not list(tmp_path.iterdir())


def test_real_questions_are_prepared_without_their_queries(tmp_path, shared_dir):
    folder, skips = shared_dir / "data" / "wikisql", ExclusionCounts()
    write_answers(folder, "dev", tmp_path / "dev.jsonl", skips=skips)
    questions = read_table_questions(tmp_path / "dev.jsonl", skips=skips)
    meta, _ = prepare(tmp_path / "dev", questions=questions)
    split = PreparedQueries(tmp_path / "dev")
    examples = {e.id: e for e in read_wikisql(folder, "dev", skips=ExclusionCounts())}
    assert [q.id for q in split.questions] == list(examples)
    assert all(split.tables[q.table_id] == examples[q.id].table for q in split.questions)
    assert meta["counts"]["questions with a solution"] >= 0.97 * len(examples)
    assert "sql" not in {f.name for f in dataclasses.fields(split.questions[0])}


def test_of_two_questions_with_one_id_the_first_is_used(tmp_path):
    questions = [QUESTIONS[0], ask("q1", "Who has 12?", "dee"), QUESTIONS[3]]
    meta, exclusions = prepare(tmp_path / "dev", questions=questions)
    assert exclusions.as_dict() == meta["excluded"] == {"question id seen before": 1}
    found = PreparedQueries(tmp_path / "dev").questions
    assert [found[i].question for i in range(len(found))] == [
        QUESTIONS[0].question,
        QUESTIONS[3].question,
    ]
