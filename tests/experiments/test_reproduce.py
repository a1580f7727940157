"""The plans are commands that exist, and a runner that continues."""

import json
import time

import pytest

from experiments import drop, narrativeqa, nq_open, retrieve, triviaqa, triviaqa_open, wikisql
from experiments.download.__main__ import DATASETS, Download
from experiments.paper.set_sizes import SetSizes
from experiments.reproduce.__main__ import PLANS, Reproduce, Stage, plan, run_stages
from experiments.tabulate import Tabulate
from hardem_jax.cli.command import parse
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.errors import InputError

MODULES = (drop, narrativeqa, nq_open, retrieve, triviaqa, triviaqa_open, wikisql)
COMMANDS = {
    **{module.__name__: module.COMMANDS for module in MODULES},
    "experiments.download": Download,
    "experiments.paper.set_sizes": SetSizes,
    "experiments.tabulate": Tabulate,
}
TASKS = [(table, task) for table, tasks in PLANS.items() for task in tasks]


@pytest.mark.parametrize(("table", "task"), TASKS)
def test_every_stage_is_a_command_that_reads_what_others_wrote(table, task, tmp_path):
    written = set()
    for stage in Reproduce(table=table, tasks=(task,), out=tmp_path).stages():
        module, *argv = stage.command
        command = parse(COMMANDS[module], prog=module, argv=argv)
        if isinstance(command, Download):
            written |= {str(command.out / name) for name in command.datasets}
        else:
            out = dict(zip(argv[1:], argv[2:], strict=False)).get("--out")
            read = {word for word in argv if word.startswith(str(tmp_path)) and word != out}
            unknown = {x for x in read if not any(x.startswith(folder) for folder in written)}
            assert not unknown, stage.shell
            written |= {out} if out else set()
        if isinstance(command, CompareCommand) and stage.name != "runs/wikisql-annotated":
            assert "mml" in command.objectives or table == "table6" or task == "search"


def test_the_plan_of_all_tasks_downloads_and_indexes_once(tmp_path):
    names = [stage.name for stage in Reproduce(table="table3", out=tmp_path).stages()]
    assert len(set(names)) == len(names)
    assert names.index("index") < names.index("runs/nq-open")
    downloads = {name.partition("/")[2] for name in names if name.startswith("data/")}
    assert downloads == {"triviaqa", "narrativeqa", "triviaqa-open", "nq-open", "drop", "glove"} | {
        "dpr-wikipedia"
    }
    assert downloads <= set(DATASETS)


def test_hours_follow_from_the_tokens():
    stage = Stage("runs/x", ("x",), tokens=10**12)
    # 6 FLOPs x 86 million parameters x 1e12 tokens, at 0.3 x 989 TFLOP/s
    assert stage.hours("1 x H200") == pytest.approx(6 * 86e6 * 1e12 / (0.3 * 989e12) / 3600)
    text = plan([stage, Stage("data/x", ("y",), bytes=None)])
    assert (
        "# in all: 1 downloads of unknown size, 303.2 h on 8 x TPU v5e, 483.1 h on 1 x H200" in text
    )
    assert "estimated" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"compare": "--model.encoder 'a b"},
            "compare: expected flags of a training, found No closing quotation",
        ),
        ({"seeds": (1, 1)}, "seeds: expected different values, at least one"),
        ({"tasks": ("drop-bert",)}, "expected some of wikisql, search, found 'drop-bert'"),
    ],
)
def test_what_cannot_be_run_is_refused_at_once(flags, message, tmp_path):
    with pytest.raises(InputError, match=message):
        Reproduce(**{"table": "table4", "tasks": ("wikisql",), "out": tmp_path} | flags).stages()


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Stages that append their name to a file; ``slow`` waits until it is stopped."""
    log = tmp_path / "log"
    for name, more in {"first": "", "slow": "", "failing": "raise SystemExit(3)"}.items():
        text = f"open({str(log)!r}, 'a').write('{name} ')\n{more}\n"
        if name == "slow":
            text += (
                "import os, signal, sys, time\n"
                "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
                f"if not os.path.exists({str(tmp_path / 'quick')!r}): time.sleep(60)\n"
            )
        (tmp_path / f"{name}_stage.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return log


def stages_of(*names):
    return [Stage(name, (f"{name}_stage",)) for name in names]


def test_a_run_that_is_out_of_time_continues(scripts, tmp_path, capsys):
    stages, record = stages_of("first", "slow"), tmp_path / "stages.json"
    began = time.monotonic()
    run_stages(stages, record, began + 10)
    assert time.monotonic() - began < 30
    assert "the same command continues" in capsys.readouterr().out
    assert scripts.read_text() == "first slow "
    assert json.loads(record.read_text()) == {"first": [["first_stage"]]}
    (tmp_path / "quick").write_text("")
    run_stages(stages, record, None)
    run_stages([Stage("first", ("first_stage", "--processes", "2")), *stages], record, None)
    assert scripts.read_text() == "first slow slow "
    run_stages([Stage("first", ("first_stage",), always=True)], record, None)
    assert scripts.read_text() == "first slow slow first "


def test_a_stage_whose_output_is_gone_runs_again(scripts, tmp_path):
    out, record = tmp_path / "out", tmp_path / "stages.json"
    stages = [Stage("first", ("first_stage", "--out", str(out)))]
    for exists in (False, True, True, False):
        out.touch() if exists else out.unlink(missing_ok=True)
        run_stages(stages, record, None)
    assert scripts.read_text() == "first first "


def test_a_stage_that_fails_stops_those_after_it(scripts, tmp_path):
    record = tmp_path / "stages.json"
    with pytest.raises(InputError, match="failing: expected the command to end well, found code 3"):
        run_stages(stages_of("failing", "first"), record, None)
    assert scripts.read_text() == "failing "
    assert not record.exists()
