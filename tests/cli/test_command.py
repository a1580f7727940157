"""How a command ends when something is wrong."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import drop, triviaqa
from experiments.inspect.__main__ import Inspect
from hardem_jax.cli.command import parse, run_command
from hardem_jax.data.tokenizer import load_tokenizer
from hardem_jax.errors import InputError, MissingPackageError, Stopped
from hardem_jax.objectives import MML
from hardem_jax.settings import from_json, to_json
from hardem_jax.training.loop import NonFiniteLossError
from tests import commands
from tests.marks import needs_hangup
from tests.processes import python
from tests.robustness.flags import COMMANDS, valid_instance

NAN = NonFiniteLossError(7, ["q1", "q2"], {"loss": float("nan"), "grad_norm": float("inf")})


ERRORS = {
    "input": InputError("a.json:\n  line 3"),
    "nan": NAN,
    "package": MissingPackageError("bm25s: not installed"),
    "full": OSError(errno.ENOSPC, "No space left on device", "runs/x"),
    "read-only": OSError(errno.EROFS, "Read-only file system"),
    "ctrl-c": KeyboardInterrupt(),
    "stopped": Stopped(signal.SIGTERM, "stopped by SIGTERM after step 3"),
    "bug": KeyError("x"),
    "missing": FileNotFoundError(errno.ENOENT, "No such file or directory", "x"),
}


class Signalling:
    """Gets a signal where Python ignores exceptions."""

    def __init__(self, signum):
        self.signum = signum

    def __del__(self):
        signal.raise_signal(self.signum)
        time.sleep(0)  # the handler runs before this


@dataclasses.dataclass(frozen=True)
class Failing:
    """Raises.

    Attributes:
        how: which error.
    """

    how: str

    def run(self) -> None:
        if self.how.startswith("SIG"):
            signal.raise_signal(getattr(signal, self.how))
        if self.how.startswith("finalizer"):
            Signalling(getattr(signal, self.how.split()[1]))
            time.sleep(20)
        raise ERRORS[self.how]


@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("input", 2, "error: a.json: line 3"),
        ("nan", 1, "error: step 7: loss nan, gradient norm inf; examples in the batch: q1, q2"),
        ("package", 1, "error: bm25s: not installed"),
        ("full", 1, "error: runs/x: No space left on device; make room and repeat the command"),
        ("read-only", 1, "error: Read-only file system"),
        ("ctrl-c", 130, "stopped by SIGINT"),
        ("SIGTERM", 143, "stopped by SIGTERM"),
        ("SIGUSR1", 138, "stopped by SIGUSR1"),
        pytest.param("SIGHUP", 129, "stopped by SIGHUP", marks=needs_hangup),
        ("stopped", 143, "stopped by SIGTERM after step 3"),
        ("finalizer SIGINT", 130, "stopped by SIGINT"),
        ("finalizer SIGTERM", 143, "stopped by SIGTERM"),
    ],
)
def test_what_a_person_can_act_on_is_one_line(how, code, line, capsys):
    # A shell makes its background jobs deaf to SIGINT, and they hand that on.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as stop:
            run_command(Failing, prog="test", argv=["--how", how])
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.code == code and capsys.readouterr().err == line + "\n"


@pytest.mark.parametrize(("how", "error"), [("bug", KeyError), ("missing", FileNotFoundError)])
def test_a_bug_of_ours_keeps_its_traceback(how, error):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(error):
        run_command(Failing, prog="test", argv=["--how", how])
    assert signal.getsignal(signal.SIGTERM) is before


TALKATIVE = """
import dataclasses
from experiments import triviaqa
from hardem_jax.cli.command import parse, run_command
from hardem_jax.settings import from_json, to_json

@dataclasses.dataclass(frozen=True)
class Talkative:
    lines: int = 100_000

    def run(self):
        for number in range(self.lines):
            print(number)

run_command(Talkative, prog="talkative")
"""


@pytest.mark.parametrize("lines", [100_000, 1], ids=["while it writes", "at the end"])
def test_a_reader_that_has_enough_ends_the_program_quietly(lines):
    command = [sys.executable, "-c", TALKATIVE, "--lines", str(lines)]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "Expected one of {prepare, train, "),
        ("train --data x --devv y --out z", "Missing from test train: --dev PATH"),
        ("train --data x --dev y --out z objective:hardem", "objective:hard-em"),
        # A flag of another command is not suggested for itself.
        ("evaluate --run-dir x --data y --split dev", "options: --split, dev For full"),
    ],
)
def test_what_is_no_flag_ends_with_code_2(line, told, capsys):
    assert told in commands.fails(triviaqa, capsys, *line.split())


#: Folders of a project of one's own, by a file that tells what they are.
PLACES = ("prepared/train/meta.json", "runs/mml/best/1", "built/drop/1/1.0.0/build.json")
PLACES += ("exported/config.json",)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("spans export --run-dir mml --out o", "found no config.json in it"),
        ("spans export --run-dir runs --out o", "no config.json in it; there is runs/mml"),
        ("spans predict --run-dir runs/x --document {file} --question q", "there is runs/mml"),
        ("spans export --run-dir exported --out o", "expected a run of spans, found no run"),
        ("spans export --run-dir prepared/train --out o", "found a prepared split, which"),
        ("spans train --data nope --dev d --out o", "found none or an incomplete one"),
        ("spans train --data prepared/dev --dev d --out o", "there is prepared/train"),
        ("spans train --data built --dev d --out o", "expected a prepared split (run `prepare` "),
        ("spans train --data built --dev d --out o", "found a build, which commands of numbers"),
        ("drop train --data prepared/train --dev d --out o", "found a prepared split, which"),
        ("drop train --data nope --dev d --out o", "expected one complete build (run `prepare`"),
        ("inspect runs/mmm --out o.html", "found nothing; there is runs/mml"),
        ("spans export --run-dir rnus/mml --out o", "no config.json in it (perhaps you meant runs"),
        ("spans train --data prepard/a --dev y --out z", "incomplete one (perhaps you meant prep"),
        ("spans prepare --qa-file fil --evidence e --out o", "that name (perhaps you meant file)"),
        ("spans evaluate --run-dir memory://x --data d", "gs:// or s3://, found memory://"),
        ("spans train --data d --dev d --out memory://x", "gs:// or s3://, found memory://"),
        ("spans prepare --qa-file {file} --evidence . --tokenizer ./x --out o", "none"),
        ("spans train --data d d --dev d --out o", "--data: expected different values, found d d"),
        ("spans evaluate --run-dir r --data d --predictions p --by-question p", "p: expected one"),
        ("spans train --dev d --out o --data d --loop.num-step 3", "--loop.num-steps"),
        ("spans train --dev d --out o --data d --loop.num-steps 0", "--loop.num-steps: expected"),
        ("spans compare --dev d --out o --data d --objectives mll", "'mll' (Unrecognized options"),
        ("spans compare --dev d --out o --data d --objectives mll", "first-only, em, "),
    ],
)
def test_a_wrong_turn_ends_with_what_to_do(command, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for place in PLACES:
        Path(place).parent.mkdir(parents=True)
        Path(place).write_text('{"flags": {}}')
    Path("file").write_text("{}")
    name, *words = command.format(file="file").split()
    kinds = {"spans": triviaqa.COMMANDS, "drop": drop.COMMANDS, "inspect": Inspect}[name]
    with pytest.raises(SystemExit, match="^2$"):
        run_command(kinds, prog="test", argv=words)
    assert told in commands.said(capsys)


def test_an_encoder_on_the_hub_needs_a_network(monkeypatch, capsys):
    import huggingface_hub

    def refuse(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(InputError, match="no route.; without a network, name a folder that holds"):
        load_tokenizer("me/bert")


def test_what_needs_an_extra_says_so():
    code = "import sys; sys.modules['flax'] = None; from hardem_jax import Reader"
    told = "Reader needs flax: not installed (pip install '.[all]' in a checkout)\n"
    assert python("-c", code, code=1).stderr.endswith(told)


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_command_comes_back_from_the_flags_that_it_saves(kind):
    command = valid_instance(kind)
    assert from_json(kind, json.loads(json.dumps(to_json(command))), "config.json") == command


def saved_run(tmp_path, command="train --data x --dev y --out z objective:hard-em"):
    file = tmp_path / "config.json"
    train = parse(triviaqa.COMMANDS, prog="x", argv=[*command.split(), "--objective.tau", "7"])
    file.write_text(json.dumps({"version": "0.2.0", "flags": to_json(train)}))
    return file, train


def test_a_run_is_repeated_from_its_file_with_other_flags(tmp_path):
    file, train = saved_run(tmp_path)

    def again(*argv):
        return parse(triviaqa.COMMANDS, prog="x", argv=["train", *argv])

    assert again("--config", str(file)) == train
    found = again(f"--config={file}", "--loop.seed", "4", "--data", str(file))
    loop = dataclasses.replace(train.loop, seed=4)
    assert found == dataclasses.replace(train, loop=loop, data=(file,))
    assert again("--out", "a", "--config", str(file), "objective:mml").objective == MML()


@pytest.mark.parametrize(
    ("argv", "changes", "message"),
    [
        (["evaluate"], {}, "expected flags of 'Evaluate', found those of 'Train'"),
        ([], {}, "expected one of prepare, .*, found none"),
        (["train"], {"dev": None}, "config.json: flags.dev: expected a value, found none"),
        (["train"], {"objective": {"type": "HardEM", "x": 1}}, "x: expected a field of HardEM"),
        (["train"], {"objective": {"type": "SoftEM"}}, "objective: expected one of .*HardEM.*Soft"),
    ],
)
def test_a_file_that_holds_no_flags_of_the_command_is_refused(argv, changes, message, tmp_path):
    file, _ = saved_run(tmp_path)
    content = json.loads(file.read_text())
    flags = {name: x for name, x in (content["flags"] | changes).items() if x is not None}
    file.write_text(json.dumps(content | {"flags": flags}))
    with pytest.raises(InputError, match=message):
        parse(triviaqa.COMMANDS, prog="x", argv=[*argv, "--config", str(file)])


def test_a_file_of_flags_that_is_not_there_is_named():
    with pytest.raises(InputError, match="--config: expected a file, found none"):
        parse(triviaqa.COMMANDS, prog="x", argv=["train", "--config", "--out", "z"])
    with pytest.raises(InputError, match="absent.json: cannot be read"):
        parse(triviaqa.COMMANDS, prog="x", argv=["train", "--config", "absent.json"])
