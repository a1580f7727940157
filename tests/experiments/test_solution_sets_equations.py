"""The table of Z on DROP at a tiny size: what it counts."""

import json

import pytest

from experiments.solution_sets import equations

BLANK = {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": []}


@pytest.fixture
def file(tmp_path):
    """Four questions on two passages: three numeric, of which one has no solution."""
    answers = ["3", "79", "50000"]
    pairs = [
        {"query_id": f"q{n}", "question": "How many yards?", "answer": BLANK | {"number": answer}}
        for n, answer in enumerate(answers)
    ]
    pairs += [{"query_id": "q3", "question": "Who?", "answer": BLANK | {"spans": ["Bironas"]}}]
    passage = "A 41-yard and a 38-yard field goal, and the twenty-first."
    entries = {
        "nfl_1": {"passage": passage, "qa_pairs": pairs[:1]},
        "nfl_2": {"passage": passage, "qa_pairs": pairs[1:]},
    }
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(entries))
    return path


def test_counts_every_variant(file, tmp_path, capsys):
    out = tmp_path / "out.json"
    equations.main(["--file", str(file), str(file), "--out", str(out)])
    content = json.loads(out.read_text())
    assert (content["read"], content["numeric"]) == (8, 6)
    assert content["left_out"] == {"answer is a text span": 2}
    rows = {row["name"]: row for row in content["rows"]}
    assert list(rows) == [variant.name for variant in equations.VARIANTS]
    assert all(row["coverage"] == 2 / 3 for row in rows.values())  # 41 - 38 and 41 + 38
    assert rows["P, two numbers"]["mean"] == rows["P, two numbers"]["median"] == 1
    assert rows["default, counts 0 to 9"]["mean"] == 1 + 1 / 2
    # 3 alone, 1 + 2, 4 - 1, 5 - 2, 7 - 4 and 10 - 7.
    assert rows["P+Q+S, everything"]["mean"] == (1 + 1 + 6) / 2
    assert rows["P+Q+S, no SxS"]["median"] == (1 + 2) / 2
    printed = capsys.readouterr().out
    for text in ("answer is a text span: 2", "66.7", "93.0", "6 numeric of 8 questions"):
        assert text in " ".join(printed.split())


def test_no_solution_at_all_has_no_mean():
    assert equations.size_of([0, 0]) == {"coverage": 0, "mean": None, "median": None}


@pytest.mark.parametrize("content", ['{"nfl_1": {"passage": "7", "qa_pairs": []}}', None])
def test_nothing_to_measure_is_one_line(content, tmp_path, capsys):
    path = tmp_path / "dev.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit) as stop:
        equations.main(["--file", str(path)])
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert str(path) in line
