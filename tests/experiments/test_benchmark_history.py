"""The step by commit, in a small repository whose commits say how long their step takes."""

import json
import subprocess

import pytest

from experiments.benchmark import history
from tests.commands import said

MEASURES_ITSELF = """
import json, sys
from pathlib import Path

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
calls = Path("calls")
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
assert options["--variants"] == "ours" and options["--tokens"] == "48"
wall = {{"median": {seconds} * len(calls.read_text())}}
own = {{"wall_s": wall, "first_step_s": 2, "peak_mib": 9}}
Path(options["--out"]).write_text(json.dumps({{"results": [{{"variants": {{"ours": own}}}}]}}))
"""


@pytest.fixture
def repository(tmp_path):
    """Commits tagged `slow`, `fast` and `broken`; a step takes 8, 2 and no seconds."""
    root = tmp_path / "project"
    module = root / "experiments" / "benchmark" / "__main__.py"
    module.parent.mkdir(parents=True)
    # Found before the checkout that may be installed, which a folder without them would not be.
    (module.parents[1] / "__init__.py").touch()
    (module.parent / "__init__.py").touch()

    def git(*arguments):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True)

    git("init")
    for tag, text in {
        "slow": MEASURES_ITSELF.format(seconds=8),
        "fast": MEASURES_ITSELF.format(seconds=2),
        "broken": "raise ValueError('no such step')",
    }.items():
        module.write_text(text)
        git("add", ".")
        git("commit", "--message", f"The {tag} one")
        git("tag", tag)
    return root


def test_each_commit_is_measured_by_its_own_benchmark(repository, tmp_path, capsys):
    out = tmp_path / "history.json"
    run = ["--repository", str(repository), "--tokens", "48", "--rounds", "3", "--out", str(out)]
    history.main([*run, "--commits", "slow", "fast"])
    slow, fast = json.loads(out.read_text())["results"]
    # The n-th turn takes n times as long in both, which the ratio within rounds does not see.
    assert slow["wall_s"] == {"low": 12, "median": 16, "high": 20}
    assert fast["wall_s"]["median"] == 4
    assert fast["speed"] == {"low": 4, "median": 4, "high": 4}
    assert fast["first_step_s"] == 2 and fast["peak_mib"] == 9
    assert "The fast one" in fast["title"] and "The slow one" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (["--commits", "fast", "broken"], "broken: its benchmark failed: ValueError: no such step"),
        (["--commits", "never"], "never"),
        (["--commits"], "commits: expected at least one value, found none"),
        (["--commits", "fast", "fast"], "expected distinct commits"),
        (["--commits", "fast", "--rounds", "0"], "rounds: expected at least 1, found 0"),
    ],
)
def test_what_cannot_be_measured_is_one_line(repository, capsys, flags, culprit):
    with pytest.raises(SystemExit) as stop:
        history.main(["--repository", str(repository), "--tokens", "48", *flags])
    assert stop.value.code == 2
    assert culprit in said(capsys)
