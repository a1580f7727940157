"""Every command that the documentation shows can be typed."""

import json
import re
import subprocess

import pytest

from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.shell import run_shell
from tests.processes import python

# What reads the command lines: words separated by one control character, commands by another.
SHELL = r"""
python() { printf '\x1d%s' "$(printf '%s\x1f' "$@")"; }  # at once, for some run side by side
for name in python3 pip hf git srun sbatch gcloud mkdir mktemp tail head pytest mkdocs sh; do
    eval "$name() { :; }"
done
for name in DATA TRAIN DEV ENCODER MINILM FEW QUESTIONS RUN; do declare $name=$name; done
STEPS=10
SLURM_JOB_ID=1
"""
UNTYPABLE = "compare --data x --dev x --out y --objectives mmm"


def code_of(page):
    return "".join(b for language in ("sh", "bash") for b in blocks(page, language))


PAGES = ["../README.md", *sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))]
PAGES = [page for page in PAGES if "python -m" in code_of(page)]


def commands_of(page):
    """The words after ``python -m`` of every command that a page shows as a block."""
    code = re.sub(r"\.venv/bin/|> \S+", "", code_of(page)).replace("&& python", "; python")
    done = subprocess.run(["bash", "-c", SHELL + code], capture_output=True, text=True, check=False)
    found = [words.split("\x1f")[:-1] for words in done.stdout.split("\x1d")[1:]]
    found = [words[1:] for words in found if words[:1] == ["-m"]]
    assert len(found) >= len(re.findall(r"^python -m", code, re.MULTILINE))
    return [words for words in found if words[0].startswith(("experiments", "docs.", "tests."))]


@pytest.fixture(scope="module")
def errors():
    """Page -> (words, what is wrong with them) of every command; "" has one to be refused."""
    commands = {page: commands_of(page) for page in PAGES}
    commands[""] = [["experiments.drop", *UNTYPABLE.split()]]
    typed = [words for own in commands.values() for words in own]
    lines = json.dumps([[word for word in words if word != "..."] for words in typed])
    found = iter(json.loads(python("-m", "tests.docs.parsing", stdin=lines).stdout))
    return {page: [(words, next(found)) for words in own] for page, own in commands.items()}


@pytest.mark.parametrize("page", PAGES)
def test_every_command_can_be_typed(errors, page):
    for words, error in errors[page]:
        # "..." stands for flags of a command above.
        left_out = "..." in words and error and "Missing from" in error
        typed = error is None or (left_out and "Unrecognized" not in error)
        assert typed, f"{' '.join(words)}: {error}"


def test_one_that_cannot_is_seen(errors):
    [(_, error)] = errors[""]
    assert "expected what train takes after objective:" in error


def test_the_table_of_results_is_what_its_command_prints():
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    table = text.partition("## Scores")[2].partition("```sh")[0]
    scores = re.compile(r"[+-]?\d+\.\d \[[^]]*\]")  # with their intervals
    assert len(scores.findall(table)) > 80
    assert scores.findall(table) == scores.findall(run_shell("results.md", ROOT, {}))
