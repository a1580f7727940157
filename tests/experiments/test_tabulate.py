"""Runs of several folders and files become one table."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from experiments.tabulate import FinishedRun, Tabulate, read_runs, rows, table, wide_table
from hardem_jax.analysis.statistics import difference, interval
from hardem_jax.errors import InputError

RNG = np.random.default_rng(0)
SETTINGS = {"conditions": "sum", "contents of data": '{"content": "a", "supervised": false}'}


def finished(objective="MML", seed=0, share=0.5, **settings):
    right = 100.0 * (RNG.random(50) < share)
    return FinishedRun(
        objective,
        seed,
        SETTINGS | {"loop.seed": str(seed), "objective": objective} | settings,
        {"em": float(right.mean()), "hit@1": 7.0 + seed},
        {"em": right.tolist(), "f1": RNG.random(50).tolist()},
    )


def write_folder(folder, run):
    folder.mkdir(parents=True)
    content = {"objective": run.objective, "settings": run.settings}
    (folder / "final.json").write_text(json.dumps(content | {"scores": list(run.scores.items())}))
    content = {"settings": run.settings, "scores": run.by_question}
    (folder / "by_question.json").write_text(json.dumps(content))


def test_folders_and_files_hold_the_same_runs(tmp_path):
    runs = [finished(), finished("Hard EM", seed=1)]
    for run in runs:
        write_folder(tmp_path / "out" / f"{run.objective}-{run.seed}", run)
    (tmp_path / "out" / "figures").mkdir()  # not a run
    assert sorted(read_runs(tmp_path / "out"), key=lambda run: run.seed) == runs
    assert read_runs(tmp_path / "out" / "MML-0") == runs[:1]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(f"{run.line()}\n" for run in runs))
    assert read_runs(file) == runs


def test_rows_are_named_after_what_differs_beyond_objective_and_seed():
    supervised = {"contents of data": '{"content": "b", "supervised": true}'}
    runs = [finished(), finished(seed=1), finished(conditions="mean"), finished(**supervised)]
    found = rows([*runs, finished("Hard EM")])
    data = "contents of data.supervised true"
    assert list(found) == ["MML", "MML, conditions mean", f"MML, {data}", "Hard EM"]
    assert found["MML"] == dict(enumerate(runs[:2]))
    often = {"loop.eval_every": "5"}  # scores are those after the last step
    assert list(rows([runs[0], finished(seed=1, **often)])["MML"]) == [0, 1]


def begun(content, run="5f0c"):
    return {"contents of init_from": json.dumps({"content": content, "run": run})}


@pytest.mark.parametrize("contents", ["aa", "ab"])
def test_rows_are_named_after_the_run_that_they_start_from(contents):
    """All seeds from one run, or each from that of its own seed."""
    runs = [finished(), finished(seed=1)]
    runs += [finished(seed=seed, **begun(content)) for seed, content in enumerate(contents)]
    found = {name: list(seeds) for name, seeds in rows(runs).items()}
    assert found == {"MML": [0, 1], "MML, contents of init_from.run 5f0c": [0, 1]}


def test_differences_are_over_the_seeds_that_both_have():
    mml = [finished(seed=seed) for seed in (0, 1, 2)]
    hard = [finished("Hard EM", seed=seed, share=0.9) for seed in (1, 2, 3)]
    lines = table(rows([*mml, *hard]), ["em", "hit@1"], against="MML").splitlines()
    ours, theirs = ([run.by_question["em"] for run in runs] for runs in (hard[:2], mml[1:]))
    expected = difference(np.array(ours), np.array(theirs))
    cells = [cell.strip() for cell in lines[3].split("|")]
    mean, low, high = interval(np.array([run.by_question["em"] for run in hard]))
    assert cells[1:4] == ["Hard EM", "1 2 3", f"{mean:.1f} [{low:.1f}, {high:.1f}]"]
    bounds = f"[{expected.low:.1f}, {expected.high:.1f}]"
    assert cells[4:7] == [f"{expected.mean:+.1f} {bounds}", f"{expected.p:.2g}", "9.0 ± 1.0"]
    assert lines[0].startswith("| 50 questions | seeds | em |")
    assert lines[2].split("|")[4:6] == [" ", " "]


def table_cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_wide_tables_have_a_row_for_each_source_and_a_column_for_each_objective():
    length = {"loop.num_steps": "600"}
    gold = {"contents of data": '{"content": "b", "supervised": true}'}
    mml = [finished(seed=seed, **length) for seed in (0, 1)]
    annealed = [finished("Hard EM, tau 300", seed=1, **length)]
    wikisql = [*mml, *annealed, finished(**length, **gold), finished(seed=1, **length, **gold)]
    drop = [finished("Hard EM, tau 1e3, cap 0.8", **{"loop.num_steps": "700"})]
    subset = [finished(seed=3, **length, target="10.0")]
    sources = [("wikisql", [*wikisql, *subset]), ("drop", drop)]
    head, _, *lines = table_cells(wide_table(sources, ["hit", "f1", "em"], against="MML"))
    objectives = ["MML", "Hard EM, annealed", "Hard EM, annealed, cap 0.8", "supervised"]
    assert head == ["runs", "steps", "metric", "questions", "seeds", *objectives]
    assert [line[:5] for line in lines] == [
        ["wikisql", "600", "f1", "50", "0 1"],
        ["... - MML", "", "", "", ""],
        ["wikisql, target 10", "600", "f1", "50", "3"],
        ["drop", "700", "f1", "50", "0"],
    ]
    ours, theirs = (np.array([run.by_question["f1"] for run in x]) for x in (annealed, mml))
    ahead = difference(ours, theirs[1:])
    assert lines[0][5:7] == [str(interval(theirs)), f"{interval(ours)} (seeds 1)"]
    assert lines[1][5:7] == ["", f"{ahead}, p = {ahead.p:.2g}"]
    assert [line[8] != "" for line in lines] == [True, True, False, False]
    assert lines[3][5:] == ["", "", str(interval(np.array([drop[0].by_question["f1"]]))), ""]
    assert len(table_cells(wide_table(sources, ["em"]))) == 5


def test_what_would_share_a_column_keeps_its_name():
    steps = {"loop.num_steps": "600"}
    gold = steps | {"contents of data": '{"content": "b", "supervised": true}'}
    taus = [finished(f"Hard EM, tau {tau}", **steps) for tau in (100, 300)]
    golds = [finished("MML", **gold), finished("Hard EM", **gold)]
    head, _, line = table_cells(wide_table([("drop", [*taus, *golds, finished(**steps)])]))
    supervised = [f"{name}, contents of data.supervised true" for name in ("Hard EM", "MML")]
    columns = [supervised[0], "Hard EM, tau 100", "Hard EM, tau 300", "MML", supervised[1]]
    assert head[5:] == columns and all(line)


def test_two_taus_are_compared_within_their_length():
    objectives = ["MML", "Hard EM, tau 100", "Hard EM, tau 200"]
    runs = {
        steps: [finished(name, **{"loop.num_steps": steps}) for name in objectives]
        for steps in ("500", "1500")
    }
    every = [run for own in runs.values() for run in own]
    head, _, *lines = table_cells(wide_table([("drop", every)], ["em"], against="MML"))
    assert head[5:] == objectives
    first, _, longer, ahead = lines
    assert [first[:2], longer[:2]] == [["drop", "500"], ["drop, loop.num_steps 1500", "1500"]]
    scores = [np.array([run.by_question["em"]]) for run in runs["1500"]]
    assert longer[5:] == [str(interval(x)) for x in scores]
    assert [cell.split(",")[0] for cell in ahead[6:]] == [
        str(difference(x, scores[0])).split(",")[0] for x in scores[1:]
    ]


def test_rows_are_named_after_whole_folders(tmp_path, capsys, monkeypatch):
    folders = [tmp_path / "rate-0.1", tmp_path / "rate-0.2"]
    for folder in folders:
        write_folder(folder / "a", finished(**{"loop.num_steps": "600"}))
    Tabulate(runs=tuple(folders), wide=True).run()
    monkeypatch.chdir(folders[0])
    Tabulate(runs=(Path(),), wide=True).run()
    names = [line[0] for line in table_cells(capsys.readouterr().out) if "600" in line]
    assert names == ["rate-0.1", "rate-0.2", "rate-0.1"]


def test_wide_tables_refuse_what_they_cannot_place():
    both = [finished(f"Hard EM, tau {tau}", **{"loop.num_steps": "600"}) for tau in (100, 300)]
    with pytest.raises(InputError, match="drop: expected one row of Hard EM, annealed, found two"):
        wide_table([("drop", both[:1]), ("drop", both[1:])])
    splits = [finished(x, **{"contents of dev": f'{{"content": "{x}"}}'}) for x in ("MML", "EM")]
    with pytest.raises(InputError, match="drop: expected the same .*content, found MML and EM"):
        wide_table([("drop", splits[:1]), ("drop", splits[1:])])
    with pytest.raises(InputError, match=r"drop: metrics: expected one of em, f1, found none"):
        wide_table([("drop", both[:1])], ["rouge"])
    with pytest.raises(InputError, match="against: expected one of Hard EM, annealed, found 'MML'"):
        wide_table([("drop", both[:1])], against="MML")
    with pytest.raises(InputError, match="save: expected it without wide"):
        Tabulate(runs=(Path("a"),), save=Path("all.jsonl"), wide=True)


def test_sources_of_one_name_are_all_tabulated(tmp_path, capsys):
    for day in ("monday", "tuesday"):
        write_folder(tmp_path / day / "drop" / "a", finished(seed=len(day)))
    Tabulate(runs=tuple(tmp_path / day / "drop" for day in ("monday", "tuesday"))).run()
    assert "| MML | 6 7 |" in capsys.readouterr().out


def test_runs_scored_on_other_questions_are_not_compared():
    """Two splits may have equally many."""
    dev = "contents of dev"
    runs = [finished(**{dev: '{"content": "a"}'}), finished("Hard EM", **{dev: '{"content": "b"}'})]
    assert "Hard EM" in table(rows(runs), ["em"])
    expected = "Hard EM and MML: expected the same contents of dev.content, found b and a"
    with pytest.raises(InputError, match=expected):
        table(rows(runs), ["em"], against="MML")
    trained = {"contents of data": '{"content": "b", "supervised": false}'}
    with pytest.raises(InputError, match="the same contents of data.content, found b and a"):
        table(rows([finished(), finished("Hard EM", **trained)]), ["em"], against="MML")
    others = {"contents of data": '{"content": "c"}'}  # earlier ones do not say that they are not
    supervised = {"contents of data": '{"content": "b", "supervised": true}'}
    assert table(rows([finished(**others), finished(**supervised)]), ["em"], against="MML")


@pytest.mark.parametrize(
    ("ours", "theirs", "named"),
    [
        ({"number": 1}, {"number": 2}, "contents of dev.number, found 2 and 1"),
        ({"data set": "a"}, {"data set": "b"}, "contents of dev.data set, found b and a"),
        ({"documents": "4f"}, {"documents": "2a"}, "contents of dev.documents, found 2a and 4f"),
        (
            {"counts": [["questions read", 50], ["left out", 2]]},
            {"counts": [["questions read", 60], ["left out", 2]]},
            "contents of dev.counts.questions read, found 60 and 50",
        ),
        (
            {"counts": {"examples read": 50}},
            {"counts": {"examples read": 60}},
            "contents of dev.counts.examples read, found 60 and 50",
        ),
        (
            {"sources": {"file": {"dev.json": "4f"}}},
            {"sources": {"file": {"dev.json": "2a"}}},
            "contents of dev.sources.file.dev.json, found 2a and 4f",
        ),
    ],
)
def test_other_questions_are_not_compared_whatever_the_rules(ours, theirs, named):
    """Of two random splits, say, the first of which are equally many."""
    runs = []
    for objective, cap, own in (("MML", 4, ours), ("Hard EM", 8, theirs)):
        dev = {"content": str(cap), "rules": {"cap": cap}} | own
        runs.append(finished(objective, **{"contents of dev": json.dumps(dev)}))
    with pytest.raises(InputError, match=f"expected the same {named}"):
        table(rows(runs), (), "MML")


def test_what_cannot_be_tabulated_is_refused(tmp_path):
    short = dataclasses.replace(finished("Hard EM"), by_question={"em": [0.0, 100.0]})
    with pytest.raises(InputError, match="same questions, found 2 and 50"):
        table(rows([finished(), short]), ["em"], against="MML")
    with pytest.raises(InputError, match=r"expected one of em, f1, hit@1, found 'rouge'"):
        table(rows([finished()]), ["rouge"])
    with pytest.raises(InputError, match="runs: expected at least one folder or file, found none"):
        Tabulate(runs=())
    plain = [("a", [dataclasses.replace(finished(), by_question={}, settings={})])]
    with pytest.raises(InputError, match="one of the scores of single questions, found none"):
        wide_table(plain)
    with pytest.raises(InputError, match="against: expected one of MML, found 'mml'"):
        table(rows([finished()]), against="mml")
    with pytest.raises(InputError, match="that compare wrote, or a file from --save.*found none"):
        read_runs(tmp_path)
    for name in ("a", "b"):  # of train
        (tmp_path / "begun" / name).mkdir(parents=True)
        (tmp_path / "begun" / name / "config.json").write_text("{}")
    for folder, named in ((tmp_path / "begun", "a, b"), (tmp_path / "begun" / "a", "a")):
        with pytest.raises(InputError, match=f"found {named} without .*: compare with"):
            read_runs(folder)
    write_folder(tmp_path / "damaged", finished())
    (tmp_path / "damaged" / "final.json").write_text("[]")
    with pytest.raises(InputError, match="damaged: expected a run of compare, found TypeError"):
        read_runs(tmp_path / "damaged")
    with pytest.raises(InputError, match="expected a file, found"):
        read_runs(tmp_path / "absent.jsonl")
    one = json.loads(finished().line())
    wrong = [{"by_question": {"em": found}} for found in ("012", [], "", [1.0, np.nan])]
    wrong += [{"scores": None}, {"seed": "0"}, {"settings": []}, {"seed": {}, "scores": 0}]
    for line in ([], *(one | change for change in wrong)):
        (tmp_path / "runs.jsonl").write_text(f"{finished().line()}\n{json.dumps(line)}\n")
        with pytest.raises(InputError, match=r"runs.jsonl:2: expected a run"):
            read_runs(tmp_path / "runs.jsonl")


def test_thresholds_keep_their_digits():
    runs = [finished(), finished(seed=1)]
    for run, found in zip(runs, (0.0043, 0.0045), strict=True):
        run.scores["best_f1_thresh"] = found
    assert "| 0.004400 ± 0.000141 |" in table(rows(runs), ["best_f1_thresh"])
