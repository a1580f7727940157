"""The splits of builds that training reads: what is built is what is read, everything counted."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from hardem_jax.data.builders.base import SolutionBuilder, quiet
from hardem_jax.data.built import open_build
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.equations.builds import DropNum
from hardem_jax.equations.models import NumericQuestions, NumericSplit
from hardem_jax.equations.readers import read_drop
from hardem_jax.equations.records import NO_EQUATION, numeric_question
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.solutions.rules import COUNT, EquationRules
from hardem_jax.errors import InputError
from hardem_jax.programs.builds import TablePrograms
from hardem_jax.programs.task import ProgramSplit
from hardem_jax.queries.builds import TableQuestions, WikiSQL
from hardem_jax.queries.records import NO_QUERY, query_question
from hardem_jax.queries.solutions.enumeration import ROW_WIDTH, SqlRules
from hardem_jax.queries.task import QuerySplit
from tests.queries.test_records import QUESTIONS as SOLVED
from tests.queries.test_records import UNSOLVED, ask
from tests.tiny import drop_answer, write_table_questions, write_wikisql

quiet()


def assert_same(found, expected):
    for field in dataclasses.fields(expected):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, field.name
        else:
            assert ours == (list(theirs) if isinstance(theirs, tuple) else theirs), field.name


def build(data_set, folder, out, **more):
    """Builds the files in a folder; returns the folder of the build."""
    builder = SolutionBuilder(data_set, folder=folder, data_dir=out, **more)
    builder.download_and_prepare()
    return Path(builder.data_dir)


# Numbers.
PASSAGE = "Longwell threw 41 yards, Favre 38 and Ryan 40."
ASKED = {
    "q1": ("How many more than 8?", "3"),
    "q2": ("Who?", "31415"),  # no such sum
    "q3": ("And 8?", "3"),
    "q4": ("What?", "a few"),
    "q5": ("Or 41?", "79"),
}


@pytest.fixture(scope="module")
def drop(tmp_path_factory):
    """DROP files whose question q3 occurs three times, and q4 twice."""
    folder = tmp_path_factory.mktemp("drop")
    pairs = [
        {"query_id": id, "question": ASKED[id][0], "answer": drop_answer(ASKED[id][1])}
        for id in (*ASKED, "q3", "q4", "q3")
    ]
    content = {"p": {"passage": PASSAGE, "qa_pairs": pairs}}
    for split in ("train", "dev"):
        (folder / f"drop_dataset_{split}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def numeric(drop, tmp_path_factory):
    return build(DropNum(), drop, tmp_path_factory.mktemp("built"), shard_size=2)


def test_numeric_questions_are_read_as_they_were_found(drop, tmp_path):
    numbers, rules = NumberConfig(words="all"), EquationRules(percent="term", max_count=9)
    split = NumericSplit(build(DropNum(None, numbers, rules), drop, tmp_path), "dev")
    assert (split.rules, split.numbers, split.meta["max_words"]) == (rules, numbers, None)
    examples = {e.id: e for e in read_drop(drop / "drop_dataset_dev.json", skips=ExclusionCounts())}
    for question, (id, example) in zip(split.questions, examples.items(), strict=True):
        assert question.id == id
        assert_same(question, numeric_question(example, numbers, rules))
    assert any(split.questions[0].equations[:, 1] == COUNT)


def test_training_leaves_out_and_counts_what_has_no_solution(numeric):
    split = NumericSplit(numeric, "train")
    assert [question.id for question in split.questions] == ["q1", "q3", "q5"]
    assert split.left_out == {"q2": NO_EQUATION, "q4": "answer is not a number"}
    assert split.meta["excluded"][NO_EQUATION] == 1
    sizes = [len(question.equations) for question in split.questions]
    assert dict(split.meta["counts"]) == {
        "questions read": 8,
        "left out": 5,
        "questions": 3,
        "questions with a solution": 3,
    }
    assert split.meta["solutions per question"]["mean"] == round(float(np.mean(sizes)), 2)


def test_evaluation_keeps_what_has_no_solution(numeric):
    split = NumericSplit(numeric, "dev")
    assert [question.id for question in split.questions] == ["q1", "q2", "q3", "q5"]
    assert split.left_out == {"q4": "answer is not a number"}
    assert dict(split.meta["counts"])["questions with a solution"] == 3
    unsolved = split.questions[1]
    assert unsolved.equations.shape == (0, 4) and unsolved.true_equation == -1


def test_repeated_questions_are_here_once_and_counted(numeric):
    for name in ("train", "dev"):
        found = NumericSplit(numeric, name).repeated
        assert found.keys() == {"q3", "q4"} and len(found["q3"]) == 2
        assert all(golds[0]["number"] for golds in found["q3"])
        assert found["q4"] == [()]  # left out, but the official evaluator counts it twice
        data = NumericQuestions.open(numeric, name)
        assert sorted(data.scored_ids()).count("q4") == 2
        assert len(data.scored_ids()) == 8 and data.count == 8 - len(data.left_out) - 1


# Tables.
QUESTIONS = [*SOLVED, *UNSOLVED, ask("largest", "Which?", 2**63 - 1, -(2**63))]


def tables(folder, questions, *, rules=None, name="dev", **more):
    """The split of these questions."""
    (folder / "files").mkdir(exist_ok=True)
    write_table_questions(folder / "files" / f"{name}.jsonl", questions)
    data_set = TableQuestions(rules=rules or SqlRules(aggregates_on_text=True))
    more |= {"splits": [name]}
    return QuerySplit(build(data_set, folder / "files", folder / "built", **more), name)


def test_questions_on_tables_are_read_as_they_were_found(tmp_path):
    rules = SqlRules(aggregates_on_text=True, numbers="exact", max_conditions=2, cap=100)
    split = tables(tmp_path, QUESTIONS, rules=rules)
    assert split.rules == rules
    for found, original in zip(split.questions, QUESTIONS, strict=True):
        assert_same(found, query_question(original, rules))
        assert [type(cell) for cell in found.answer] == [type(cell) for cell in original.answer]
    unsolved = [question for question in split.questions if not question.num_queries]
    assert [question.id for question in unsolved] == [*(asked.id for asked in UNSOLVED), "largest"]
    assert all(question.queries.shape == (0, ROW_WIDTH) for question in unsolved)


def test_a_drawn_solution_comes_first_and_the_others_keep_their_order(tmp_path, numeric):
    drawn = [NumericSplit(numeric, "dev", drawn=seed) for seed in range(20)]
    moved = 0
    for index, question in enumerate(NumericSplit(numeric, "dev").questions):
        if not len(question.equations):
            continue
        original = question.equations.tolist()
        firsts = set()
        for split in drawn:
            found = split.questions[index]
            first, *rest = found.equations.tolist()
            assert rest == [row for row in original if row != first] and first in original
            if question.true_equation >= 0:
                true = question.equations[question.true_equation]
                np.testing.assert_array_equal(found.equations[found.true_equation], true)
            firsts.add(tuple(first))
        moved += len(firsts) > 1
        assert len(firsts) >= min(2, len(original))
    assert moved
    files = tables(tmp_path, QUESTIONS)
    again = [QuerySplit(files.folder, "dev", drawn=3).questions[0].queries for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert sorted(again[0].tolist()) == sorted(files.questions[0].queries.tolist())


def test_what_the_cap_cuts_is_counted(tmp_path):
    whole = tables(tmp_path, QUESTIONS)
    cut = tables(tmp_path, QUESTIONS, rules=SqlRules(aggregates_on_text=True, cap=2))
    full = [question.num_queries for question in whole.questions]
    assert [question.num_queries for question in cut.questions] == full
    assert [len(q.queries) for q in cut.questions] == [min(size, 2) for size in full]
    counts = dict(cut.meta["counts"])
    assert counts["questions cut by the cap"] == sum(size > 2 for size in full) > 0
    assert counts["solutions cut by the cap"] == sum(max(size - 2, 0) for size in full)
    assert cut.meta["solutions per question"] == whole.meta["solutions per question"]


@pytest.mark.parametrize("kind", [TableQuestions, TablePrograms])
def test_questions_in_csv_are_built_as_those_in_json_lines(tmp_path, kind):
    rows = [("Who has 7?", "ann"), ("How many?", "3"), ("Who has over 8?", "bo|cy")]
    (tmp_path / "tables").mkdir()
    table = tmp_path / "tables" / "mine.csv"
    table.write_text("Player,No.\nAnn,7\nBo,9\nCy,10\n")
    lines = ["question\ttable\tanswer", *(f"{q}\tmine.csv\t{a}" for q, a in rows)]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    records = [{"question": q, "table": "mine.csv", "answer": a.split("|")} for q, a in rows]
    records = [json.dumps({"id": f"train-{n}", **record}) for n, record in enumerate(records)]
    (tmp_path / "train.jsonl").write_text("\n".join(records))
    read = QuerySplit if kind is TableQuestions else ProgramSplit

    def make(layout):
        return read(build(kind(layout=layout), tmp_path, tmp_path / "b"), "train")

    splits = [make(layout) for layout in ("csv", "jsonl")]
    for one, other in zip(*(split.questions for split in splits), strict=True):
        assert_same(one, other)
    assert [question.id for question in splits[0].questions] == ["train-0", "train-1", "train-2"]
    assert splits[0].tables["mine.csv"] == splits[1].tables["mine.csv"]
    table.write_text(table.read_text() + "Di,11\n")
    assert make("csv").folder != splits[0].folder  # tables belong to the sources
    (tmp_path / "train.tsv").unlink()
    with pytest.raises(InputError, match="expected train.csv, tables, from .* found no such files"):
        make("csv")


def test_a_missing_cell_of_an_answer_takes_its_value_along(tmp_path):
    table = {
        "id": "t",
        "header": ["Who", "When"],
        "types": ["text", "text"],
        "rows": [["Ann", "May"]],
    }
    asked = {"table_id": "t", "question": "When?", "answer": [None, "May"]}
    lines = [{"table": table}, asked | {"values": ["", "xx-05-xx"]}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    [found] = TablePrograms().read(tmp_path, "train", ExclusionCounts())
    assert (found.answer, found.values) == (("May",), ("xx-05-xx",))


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same(tmp_path):
    many = [dataclasses.replace(q, id=f"{q.id}-{n}") for n in range(9) for q in QUESTIONS]
    write_table_questions(tmp_path / "train.jsonl", many)
    options = {"shard_size": 5}
    contents = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        folder = build(TableQuestions(), tmp_path, out, processes=processes, **options)
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert contents[0] == contents[1] and len(contents[0]) > 13
    with pytest.raises(InputError, match="--processes: expected at least 1, found 0"):
        build(TableQuestions(), tmp_path, tmp_path / "0", processes=0, **options)


def test_full_supervision_takes_the_questions_that_have_a_query(tmp_path):
    official = write_wikisql(tmp_path / "official", tables=2)
    lines = [json.loads(line) for line in (official / "train.jsonl").read_text().splitlines()]
    lines[3]["sql"]["conds"] = [[1, 0, "nowhere"]]  # no row, and no span of the question
    (official / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    weak = QuerySplit(build(WikiSQL(), official, tmp_path / "weak"), "train")
    assert not {"sql", "query", "gold"} & set(open_build(weak.folder).records("train")[0])
    split = QuerySplit(build(WikiSQL(supervised=True), official, tmp_path / "gold"), "train")
    assert [q.id for q in split.questions] == [f"train-{i}" for i in (0, 1, 2, 4, 5)]
    assert all(len(q.queries) == q.num_queries == 1 for q in split.questions)
    assert split.questions[1].queries[0, :3].tolist() == [0, 3, 1]
    assert split.left_out == weak.left_out == {"train-3": NO_QUERY}
    assert dict(split.tables) == dict(weak.tables) and split.meta["supervised"]
    for ours, theirs in zip(split.questions, weak.questions, strict=True):
        assert_same(dataclasses.replace(ours, queries=theirs.queries, num_queries=1),
                    dataclasses.replace(theirs, num_queries=1))  # fmt: skip
