"""The tutorial's commands, from the data to answers, on a generated corpus and a tiny encoder."""

import doctest
import json
import re
import shutil

import pytest

from experiments.download.__main__ import DATASETS
from experiments.reproduce.__main__ import PLANS
from hardem_jax.documents.mentions import execute_span
from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.shell import run_shell
from tests.docs.test_guides import run_python
from tests.processes import python
from tests.tiny import write_checkpoint


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which the tutorial was followed, and what its commands printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    # The corpus of step 2, by its own command, smaller.
    [make] = [block for block in blocks("tutorial.md", "bash") if "invented_lives" in block]
    script, *flags = make.replace("$DATA", "data/lives").split()[1:]
    python(ROOT / script, *flags, "--train", 16, "--dev", 8, folder=folder)
    encoder = write_checkpoint(folder / "bert", positions=192, layers=3)
    variables = {"DATA": "data/lives", "ENCODER": str(encoder), "STEPS": "4"}
    return folder, run_shell("tutorial.md", folder, variables, leave_out="pip install")


@pytest.mark.slow
def test_the_commands_lead_to_a_reader_that_answers(finished):
    folder, printed = finished
    assert "16  questions with a mention" in printed and "8  examples read" in printed
    page = (folder / "page.txt").read_text()
    assert page.count("\n") == 1 and "Bertolt Brecht" in page
    places = re.findall(r"%  (.*)\n.*\(page.txt, characters (\d+)-(\d+)\)", printed)
    assert len(places) == 2
    assert [execute_span(page, int(a), int(b)) for _, a, b in places] == [x for x, _, _ in places]
    comparison = json.loads((folder / "runs" / "compared" / "comparison.json").read_text())
    assert comparison and (folder / "runs" / "compared" / "predictions.md").is_file()
    page = (folder / "compared.html").read_text()
    assert "compared.html: 8 questions" in printed and page.count('id="q') >= 8


@pytest.mark.slow
def test_the_reader_answers_from_python_as_on_the_command_line(finished, tmp_path):
    folder, printed = finished
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    found = run_python(blocks("tutorial.md", "python")[-1], tmp_path / "copy")
    answers = re.findall(r"%  (.*)\n.*\(page.txt", printed)
    assert [line.partition(" ")[2] for line in found.splitlines()] == answers


def test_examples_print_what_they_show():
    found = doctest.testfile(str(DOCS / "tutorial.md"), module_relative=False)
    assert found.attempted >= 3 and found.failed == 0


def test_the_commands_at_full_size_are_plans_and_name_data_sets():
    lines = "".join(blocks("full_size.md", "sh")).splitlines()
    planned = set()
    for line in lines:
        if found := re.search(r"experiments.reproduce (\w+)(?: --tasks (\S+))? --out full", line):
            table, task = found.groups()
            assert task is None or task in PLANS[table], line
            planned |= {(table, task)} if task else {(table, name) for name in PLANS[table]}
        else:
            names = re.fullmatch(r"python -m experiments.download (.*) --out full/data", line)
            assert names and set(names[1].split()) <= set(DATASETS), line
    assert planned == {(table, task) for table, tasks in PLANS.items() for task in tasks}
