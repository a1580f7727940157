"""Table 1: the sizes of Z in builds and prepared splits, counted anew, next to the paper's."""

import json
import shutil

import numpy as np

from experiments import drop, multi_span, solution_sets, triviaqa, wikisql
from hardem_jax.data.built import open_build
from hardem_jax.equations.records import to_numeric_question
from hardem_jax.queries.records import to_query_question
from tests.commands import WINDOWS, call, output_of
from tests.data.builders import inputs
from tests.tiny import write_checkpoint, write_squad_layout, write_triviaqa


def tabulate(capsys, *folders):
    """The cells of each row, by its first."""
    lines = output_of(solution_sets.SolutionSets, capsys, "--data", *folders).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {name: cells for name, *cells in rows}


def expected(left_out, sizes):
    solved = [size for size in sizes if size]
    counts = left_out, len(sizes), len(solved)
    figures = f"{np.mean(solved):.1f}", f"{np.median(solved):.10g}", str(max(solved))
    return [*map(str, counts), *figures]


def test_rows_are_those_of_the_questions(tmp_path, capsys):
    built, spans, sets = tmp_path / "built", tmp_path / "spans", tmp_path / "sets"
    bert = ("--tokenizer", write_checkpoint(tmp_path / "bert"), *WINDOWS)
    official = inputs.write("drop", tmp_path)
    shutil.copy(official / "drop_dataset_train.json", official / "drop_dataset_dev.json")
    call(drop, "prepare", "--folder", official, "--out", built / "drop")
    official = inputs.write("wikisql", tmp_path)
    call(wikisql, "prepare", "--folder", official, "--out", built / "wikisql")
    file = write_triviaqa(tmp_path / "official", questions=6)
    pages = ("--evidence", tmp_path / "official/evidence")
    call(triviaqa, "prepare", "--qa-file", file, *pages, "--out", spans, *bert)
    file = write_squad_layout(tmp_path / "squad.json", questions=5)
    call(multi_span, "prepare", "--file", file, "--out", sets, *bert)

    rows = tabulate(capsys, built / "drop", built / "wikisql", spans, sets)
    of_drop, of_wikisql = (open_build(built / name) for name in ("drop", "wikisql"))
    equations = map(to_numeric_question, of_drop.records("train"))
    found = [len(question.equations) for question in equations]
    for split, used in (("train", [size for size in found if size]), ("dev", found)):
        left_out = len(of_drop.index(split)["left_out"])
        assert left_out and 0 in found
        assert rows[f"{built / 'drop'}, {split}"] == expected(left_out, used)
    queries = map(to_query_question, of_wikisql.records("train"))
    found = [question.num_queries for question in queries]
    assert len({*found}) > 1 and rows[f"{built / 'wikisql'}, train"] == expected(0, found)
    for folder, questions in ((spans, 6), (sets, 5)):
        with open(folder / "questions.jsonl", encoding="utf-8") as lines:
            found = [json.loads(line)["num_solutions"] for line in lines]
        assert len(found) == questions and rows[str(folder)] == expected(0, found)
    assert rows["paper: DROP, numbers, train"] == ["", "46973", "", "8.2", "3", ""]
    assert rows["paper: WikiSQL, train"][3:5] == ["346.1", "5"]
