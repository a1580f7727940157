"""The commands for WikiSQL, from official files to an answer, on a tiny stand-in."""

import dataclasses
import functools
import itertools
import json
import re
import shutil
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from flax import nnx

from experiments import wikisql
from hardem_jax.cli.command import parse
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.encoders.pretrained import flat_params, read_config
from hardem_jax.errors import InputError
from hardem_jax.objectives import HardEM
from hardem_jax.queries.checkpoint import load_sqlova
from hardem_jax.queries.commands import Evaluate
from hardem_jax.queries.reader import TableReader
from hardem_jax.queries.readers import read_answers
from hardem_jax.queries.reward_features import QUERY_FEATURES
from hardem_jax.queries.solutions.types import Query
from hardem_jax.queries.task import QuerySplit, QueryTask
from hardem_jax.search.objectives import MAPO, MERL, AnySearchObjective, IterativeML
from hardem_jax.tables.examples import TableQuestion
from hardem_jax.task.trained import Trained
from hardem_jax.training.checkpoints import RunCheckpoints
from hardem_jax.training.state import named_leaves
from tests import commands
from tests.queries.sqlova_files import state_dicts, write
from tests.tables.search_runs import assert_learns_a_reward
from tests.tiny import write_checkpoint, write_table_questions, write_wikisql

NUM_TABLES = 6

# All but one of them need a run, which takes longer to compile than most tests take.
pytestmark = pytest.mark.slow


call = functools.partial(commands.call, wikisql)
fails = functools.partial(commands.fails, wikisql)
output_of = functools.partial(commands.output_of, wikisql)


def train_flags(root, out):
    return [
        *("train", "--data", root / "built", "--dev", root / "built", "--dev-split", "train"),
        *("--out", out),
        *("--gold", root / "official", "--gold-split", "train", "--num-devices", 2),
        *("--batches.batch-size", 4, "--batches.buckets", 32, "--model.encoder", root / "bert"),
        # One layer of everything: compiling takes most of the time.
        *("--model.num-layers", 1, "--model.num-target-layers", 1, "--model.num-lstm-layers", 1),
        *("--model.hidden-size", 8, "--model.max-tokens", 32, "--model.max-header-tokens", 3),
        *("--loop.num-steps", 2, "--loop.eval-every", 2, "--loop.log-every", 1),
        *("--loop.no-progress", "objective:hard-em"),
    ]


def data(root):
    return "--data", root / "built", "--split", "train"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkpoint, a build and a finished run."""
    root = tmp_path_factory.mktemp("wikisql")
    write_checkpoint(root / "bert")
    official = write_wikisql(root / "official", tables=NUM_TABLES)
    call("prepare", "--folder", official, "--out", root / "built")
    call(*train_flags(root, root / "run"))
    return root


def test_everything_after_building_works_from_answers_alone(root, tmp_path):
    """The same questions, tables and answers, in files that never held a query."""
    questions = [
        TableQuestion(example.id, example.question, example.table, example.answer)
        for example in read_answers(root / "official", "train", skips=ExclusionCounts())
    ]
    (tmp_path / "files").mkdir()
    write_table_questions(tmp_path / "files" / "train.jsonl", questions)
    files, built = tmp_path / "files", tmp_path / "built"
    call("prepare", "--layout", "jsonl", "--folder", files, "--out", built)
    one, other = (QuerySplit(folder / "built", "train") for folder in (root, tmp_path))
    assert one.meta["counts"] == other.meta["counts"] and len(one.questions) == 3 * NUM_TABLES
    assert dict(one.tables) == dict(other.tables)
    for mine, theirs in zip(one.questions, other.questions, strict=True):
        np.testing.assert_array_equal(mine.queries, theirs.queries)


def test_first_only_may_train_on_a_drawn_query(root):
    *flags, objective = map(str, train_flags(root, root / "drawn"))
    flags += ["--first", "drawn", "--loop.seed", "3", objective]
    command = parse(wikisql.COMMANDS, prog="test", argv=flags)
    drawn = QuerySplit(root / "built", "train", drawn=3)
    first = QuerySplit(root / "built", "train").questions
    found = command.open_data().questions
    for ours, theirs in zip(found, drawn.questions, strict=True):
        np.testing.assert_array_equal(ours.queries, theirs.queries)
    assert any(np.any(x.queries[0] != y.queries[0]) for x, y in zip(found, first, strict=True))


def test_evaluation_measures_with_annotated_queries(root, capsys):
    predictions = root / "predictions.json"
    command = ["evaluate", "--num-devices", 1, "--run-dir", root / "run", *data(root)]
    call(*command, "--predictions", predictions, "--official", root / "official.jsonl")
    assert "logical form" not in capsys.readouterr().out
    gold = ["--gold", root / "official", "--gold-split", "train"]
    printed = output_of(capsys, *command, *gold, "--decoding", "greedy")
    for name in ("accuracy", "non-empty accuracy", "logical form", "hit@1", "gold in Z"):
        assert name in printed
    of_all, of_some = printed.split("what the last column names")
    assert "logical form" in of_all and "hit@1" not in of_all
    assert all(name in of_some for name in ("in Z", "accuracy |Z|=", "questions with a Z"))
    assert commands.evaluation(printed)["scores"]["gold in Z"] == 100
    rows = json.loads(predictions.read_text())
    assert len(rows) == 3 * NUM_TABLES
    assert set(rows[0]) == {"id", "question", "sql", "result"} and rows[0]["id"] == "train-0"
    assert set(rows[0]["sql"]) == {"sel", "agg", "conds"}
    # The official evaluator reads both files line by line.
    lines = (root / "official.jsonl").read_text().splitlines()
    assert [json.loads(line).get("query") for line in lines] == [row["sql"] for row in rows]


def test_the_official_file_has_a_line_for_each_line_of_the_data(tmp_path):
    query = Query(1, 0, ())
    asked = [SimpleNamespace(id=f"dev-{n}", match="execution") for n in (10, 2, 0)]
    data = SimpleNamespace(questions=asked, left_out={"dev-1": "no query gives the answer"})
    answers = [SimpleNamespace(query=query), None, SimpleNamespace(query=query)]
    evaluate = Evaluate(run_dir=tmp_path, data=tmp_path)
    lines = map(json.loads, evaluate.official_text(data, answers).splitlines())
    right = {"query": {"sel": 1, "agg": 0, "conds": []}}
    none, left_out = {"error": "no query was found"}, {"error": "left out of the split"}
    assert [*lines] == [right, left_out, none, right]
    asked[0] = SimpleNamespace(id="mine", match="execution")
    with pytest.raises(InputError, match="expected ids of WikiSQL, such as dev-7, found 'mine'"):
        evaluate.official_text(data, answers)
    asked[:] = [SimpleNamespace(id=f"nt-{n}", match="denotation") for n in range(3)]
    answers = [SimpleNamespace(result=["a\tb", 2.0]), SimpleNamespace(result=None), None]
    assert evaluate.official_text(data, answers) == "nt-0\ta b\t2\nnt-1\nnt-2\ndev-1\n"


def test_annotated_queries_are_those_of_the_questions(root, tmp_path, capsys):
    official = tmp_path / "official"
    shutil.copytree(root / "official", official)
    for kind in ("jsonl", "tables.jsonl"):
        (official / f"dev.{kind}").write_text((official / f"train.{kind}").read_text())
    evaluate = ["evaluate", "--run-dir", root / "run", *data(root), "--num-devices", 1]
    line = fails(capsys, *evaluate, "--gold", official)
    assert "split dev: expected queries of questions such as train-0, found those of dev-0" in line
    lines = (official / "train.jsonl").read_text().splitlines()
    # Of the last question there is none: its logical form counts 0.
    (official / "train.jsonl").write_text("\n".join(lines[:-1]))
    flags = ["--gold", official, "--gold-split", "train", "--by-question", tmp_path / "scores.json"]
    call(*evaluate, *flags)
    found = json.loads((tmp_path / "scores.json").read_text())
    last = found["ids"].index(f"train-{len(lines) - 1}")
    assert found["scores"]["logical form"][last] == 0
    assert {len(values) for values in found["scores"].values()} == {len(lines)}
    (official / "train.jsonl").write_text("\n".join(lines[1:] + lines[:1]))
    line = fails(capsys, *evaluate, "--gold", official, "--gold-split", "train")
    assert "question train-0, found" in line


def test_results_are_shown_as_the_table_has_them(root, tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text("Who,Lives in,Yards\nADA,OSLO,1234567\nBO,ROME,2500000.25\n")
    command = ["predict", "--run-dir", root / "run", "--table", table, "--top", 40]
    lines = output_of(capsys, *command, "--question", "Who lives in rome?").splitlines()
    assert all("%  SELECT" in line and ' FROM "mine"' in line for line in lines[::2])
    results = lines[1::2]
    assert any("ADA" in result or "OSLO" in result for result in results)
    assert any("1234567" in result for result in results)
    cells = {cell for result in results for cell in result.strip().split(", ")}
    known = {"ADA", "BO", "OSLO", "ROME", "1234567", "2500000.25", "3734567.25", "1867283.625"}
    assert cells <= known | {"0", "1", "2", "-", "(no row)", "no result"}
    table.write_text(f"{','.join(f'yards {i}' for i in range(200))}\n{','.join('7' * 200)}\n")
    call(*command, "--question", "How many yards?")
    assert "note: only the first" in capsys.readouterr().err


def test_questions_of_a_file_are_answered_about_their_own_tables(root, tmp_path, capsys):
    (tmp_path / "tables").mkdir()
    rows = [["Who", "Lives in"], ["Ada", "Oslo"], ["Bo", "Rome"]]
    for name, table in {"a.csv": rows, "b.csv": rows[:2]}.items():
        (tmp_path / "tables" / name).write_text("".join(",".join(row) + "\n" for row in table))
    file = tmp_path / "new.jsonl"
    asked = [("q1", "Who lives in rome?", "a.csv"), ("q2", "Who lives in oslo?", "b.csv")]
    keys = ("id", "question", "table")
    file.write_text("\n".join(json.dumps(dict(zip(keys, one, strict=True))) for one in asked))
    command = ("predict", "--run-dir", root / "run", "--questions", file)
    lines = [*map(json.loads, output_of(capsys, *command, "--json", "--top", 3).splitlines())]
    assert [(line["id"], line["question"]) for line in lines] == [one[:2] for one in asked]
    reader = TableReader.from_run(root / "run")
    for line, table in zip(lines, (rows, rows[:2]), strict=True):
        alone = reader.answer(line["question"], table, top=3)
        assert [one["text"] for one in line["answers"]] == [one.text for one in alone]
        shown = [one["probability"] for one in line["answers"]]
        np.testing.assert_allclose(shown, [one.probability for one in alone], rtol=1e-4)
    file.write_text(json.dumps({"id": "q1", "question": "Who?", "table": "../a.csv"}))
    told = output_of(capsys, *command)
    assert "line 1 (q1): " in told and "expected a path inside the data set, found '../a" in told


def test_inputs_beyond_the_buckets_of_a_run_are_read(root, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(root / "run", run)
    config = json.loads((run / "config.json").read_text())
    config["flags"]["batches"]["buckets"] = [4, 8]
    (run / "config.json").write_text(json.dumps(config))
    (run / "checksums.json").unlink()
    evaluate = ["evaluate", "--num-devices", 1, *data(root), "--run-dir"]
    tables = []
    for folder in (run, root / "run"):
        call(*evaluate, folder, "--predictions", tmp_path / "predictions.json")
        tables.append(json.loads((tmp_path / "predictions.json").read_text()))
    assert tables[0] == tables[1]


def test_training_says_what_was_cut(root):
    flags = [str(flag) for flag in train_flags(root, root / "cut")]
    command = parse(wikisql.COMMANDS, prog="test", argv=flags)
    about = command.start(command.mesh()).about
    assert about.endswith("to evaluate on: 18 questions, 18 with a solution")
    model = dataclasses.replace(command.model, max_tokens=12, max_header_tokens=1)
    command = dataclasses.replace(command, model=model)
    about = command.start(command.mesh()).about
    cuts = ", 18 have shortened column names, 6 are cut, 12 lack columns"
    assert about.endswith(cuts) and about.count(cuts) == 2
    assert "lost all of their solutions to cuts" in about


def test_objectives_that_search_are_chosen_like_others(root, capsys):
    flags = [str(flag) for flag in train_flags(root, root / "search")][:-1]
    chosen = {kind: {} for kind in get_args(AnySearchObjective)}
    chosen |= {IterativeML: {"memory": 4}, MAPO: {"alpha": 0.5}, MERL: {"held_out": 5}}
    for kind, fields in chosen.items():
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()
        options = [(f"--objective.{n.replace('_', '-')}", str(x)) for n, x in fields.items()]
        argv = [*flags, f"objective:{name}", *itertools.chain(*options)]
        assert parse(wikisql.COMMANDS, prog="test", argv=argv).objective == kind(**fields)
    argv = ["compare", *flags[1:], "--objectives", "hard-em", "mapo --alpha 0.5", "merl"]
    rows = parse(wikisql.COMMANDS, prog="test", argv=argv).rows()
    assert rows == {"Hard EM": HardEM(), "MAPO, alpha 0.5": MAPO(alpha=0.5), "MeRL": MERL()}
    line = fails(capsys, *flags, "--conditions", "mean", "objective:mapo")
    assert "conditions: expected sum for MAPO" in line


def test_a_reward_is_learned_with_a_parser_that_reads_without_it(root, tmp_path):
    """The step is only traced, which takes a fraction of compiling it."""
    flags = [str(flag) for flag in train_flags(root, tmp_path / "run")][:-1]
    run = assert_learns_a_reward(wikisql, flags, num_features=len(QUERY_FEATURES))
    shutil.copytree(root / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "best")
    with RunCheckpoints(tmp_path / "run", {}) as checkpoints:
        checkpoints.save_best(run.params, 0, {})
    found = named_leaves(Trained(QueryTask, tmp_path / "run").params)
    wanted = named_leaves(run.params)
    assert {*wanted} - {*found} == {"learned_reward.weights"} and {*found} < {*wanted}
    for name, value in found.items():
        np.testing.assert_array_equal(value, wanted[name])


def test_a_parser_starts_from_an_earlier_run_and_searches_on(root, tmp_path, capsys):
    """The objective is another one, and so is its part of the parameters."""
    earlier = ["--init-from", str(root / "run")]
    *flags, _ = map(str, train_flags(root, tmp_path / "run"))
    command = parse(wikisql.COMMANDS, prog="test", argv=[*flags, *earlier, "objective:merl"])
    run = command.start(command.mesh())
    initial, trained = (named_leaves(x.params) for x in (run, Trained(QueryTask, root / "run")))
    assert not np.any(initial.pop("learned_reward.weights"))
    assert {*initial} == {*trained}
    for name, value in initial.items():
        np.testing.assert_array_equal(value, trained[name])
    new = parse(wikisql.COMMANDS, prog="test", argv=[*flags, "objective:mml"])
    new = named_leaves(new.start(new.mesh()).params)
    assert any(np.any(value != trained[name]) for name, value in new.items())

    call(*flags, *earlier, "objective:hard-em")
    wider = [*flags, *earlier, "--model.hidden-size", "16", "objective:hard-em"]
    wider[wider.index("--out") + 1] = tmp_path / "wider"
    assert "checkpoint of a different model" in fails(capsys, *wider)
    # The same run in another place, and then another run.
    shutil.copytree(root / "run", tmp_path / "moved")
    flags[flags.index("--loop.num-steps") + 1] = "2"
    call(*flags, "--init-from", tmp_path / "moved", "objective:hard-em")
    assert "--init-from: " in fails(capsys, *flags, "objective:hard-em")


def test_a_parser_of_the_authors_of_sqlova_becomes_a_run(root, tmp_path, capsys):
    torch = pytest.importorskip("torch", reason="reading PyTorch's files needs torch")
    files = write(torch, tmp_path, *state_dicts(read_config(root / "bert")))
    run = tmp_path / "run"
    command = ["convert", "--folder", tmp_path, "--encoder", root / "bert", "--out", run]
    call(*command)
    trained = Trained(QueryTask, run)
    wanted = flat_params(load_sqlova(*files, read_config(root / "bert")))
    found = flat_params(nnx.merge(trained.model.graphdef, trained.params))
    assert found.keys() == wanted.keys()
    for path, value in found.items():
        np.testing.assert_array_equal(value, wanted[path], err_msg=path)
    config = trained.model.config
    assert (config.hidden_size, config.num_lstm_layers, config.num_target_layers) == (6, 2, 2)
    assert (config.max_tokens, config.value_units) == (64, "wordpieces")
    flags = ["--num-devices", 1, "--run-dir", run, *data(root), "--decoding", "greedy"]
    call("evaluate", *flags, "--gold", root / "official", "--gold-split", "train")
    assert 0 <= commands.evaluation(capsys.readouterr().out)["scores"]["logical form"] <= 100
    table = tmp_path / "mine.csv"
    table.write_text("who,yards\nada,3\nbo,5\n")
    call("predict", "--run-dir", run, "--table", table, "--question", "How many yards?")
    assert "SELECT" in capsys.readouterr().out
    assert "expected a new or an empty folder" in fails(capsys, *command)
    files[1].unlink()
    command[-1] = tmp_path / "other"
    assert "model_bert_best.pt: expected a file" in fails(capsys, *command)
    assert not command[-1].exists()


def test_bad_input_is_one_line(root, tmp_path, capsys):
    evaluate = ["evaluate", "--run-dir", root / "no-such", *data(root)]
    assert "no-such" in fails(capsys, *evaluate)
    files = tmp_path / "files"
    files.mkdir()
    file = files / "train.jsonl"
    table = {"id": "1-0", "header": ["who"], "types": ["text"], "rows": [["ada"], ["bo"]]}
    asked = {"id": "q", "question": "Who?", "table_id": "1-0", "answer": ["nowhere"]}
    file.write_text(f"{json.dumps({'table': table})}\n{json.dumps(asked)}")
    prepare = ["prepare", "--layout", "jsonl", "--folder", files, "--out", tmp_path / "built"]
    line = fails(capsys, *prepare)
    assert "expected questions in 'train', found none" in line
    assert "no query gives the answer: 1 (q: no cell is the text 'nowhere')" in line
    assert "--supervised: expected another --layout" in fails(capsys, *prepare, "--supervised")
    shared = ["--folder", root / "official", "--out", tmp_path / "shared"]
    call("prepare", *shared, "--rules.shared-columns")
    for place in (2, 4):  # to train on, and to evaluate on
        (flags := train_flags(root, tmp_path))[place] = tmp_path / "shared"
        assert f"{tmp_path}/shared: expected no two conditions on a" in fails(capsys, *flags)
