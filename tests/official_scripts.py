"""The official evaluators, run on files as their authors run them.

None is part of the project. Those of DROP and Quoref come with the package ``allennlp-models``
(``pip install --no-deps allennlp-models``). For the others, `HARDEM_OFFICIAL` names a folder with
the released code:

- ``triviaqa``: a clone of ``mandarjoshi90/triviaqa``,
- ``squad``: SQuAD's ``evaluate-v1.1.py`` and ``evaluate-v2.0.py``,
- ``orqa``: ``language/orqa/evaluation`` and ``language/orqa/utils/eval_utils.py`` of a clone of
  ``google-research/language``, with the `answer_field` that they disagree about left out, and a
  package ``tensorflow`` whose ``compat.v1.io.gfile.GFile`` is `open`,
- ``WikiSQL``: a clone of ``salesforce/WikiSQL``, and in it the libraries that it was written for,
  ``pip install --target site records==0.5.2 "sqlalchemy<1.4" babel tqdm``,
- ``WikiTableQuestions``: a clone of ``ppasupat/WikiTableQuestions``, with its ``evaluator.py``
  converted by ``2to3``.
"""

import ast
import importlib.util
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.processes import python

RELEASED = {
    "squad": "squad/evaluate-v1.1.py",
    "squad2": "squad/evaluate-v2.0.py",
    "triviaqa": "triviaqa/evaluation/triviaqa_evaluation.py",
    "nq_open": "orqa/language/orqa/evaluation/evaluate_predictions.py",
    "wikisql": "WikiSQL/evaluate.py",
    "wikitablequestions": "WikiTableQuestions/evaluator.py",
}


def released(name):
    """The script of this function below; skips the test without it, so ask before you train."""
    script = Path(os.environ.get("HARDEM_OFFICIAL", "")) / RELEASED[name]
    if "HARDEM_OFFICIAL" not in os.environ or not script.exists():
        pytest.skip(f"needs the official script {RELEASED[name]} (HARDEM_OFFICIAL)")
    return script


def drop(gold, predictions, out):
    """Exact match and F1, in percent."""
    return _allennlp("drop", gold, predictions, out)


def quoref(gold, predictions, out):
    """Exact match and F1, in percent."""
    return _allennlp("quoref", gold, predictions, out)


def squad(gold, predictions):
    """Exact match and F1, in percent."""
    scores = json.loads(_output(released("squad"), gold, predictions))
    return scores["exact_match"], scores["f1"]


def squad2(gold, predictions, chances, threshold):
    """Every score in percent, by name; of the best ones also the thresholds."""
    script = released("squad2")
    printed = _output(
        *(script, gold, predictions, "--na-prob-file", chances, "--na-prob-thresh", threshold)
    )
    return json.loads(printed)


def triviaqa(gold, predictions):
    """Exact match and F1, in percent."""
    script = released("triviaqa")
    printed = _output(
        *(script, "--dataset_file", gold, "--prediction_file", predictions),
        PYTHONPATH=str(script.parents[1]),
    )
    scores = ast.literal_eval(printed.splitlines()[-1])
    return scores["exact_match"], scores["f1"]


def nq_open(gold, predictions):
    """Exact match in percent, of the questions in ``gold``."""
    script = released("nq_open")
    printed = _output(
        *(script, f"--references_path={gold}", f"--predictions_path={predictions}"),
        PYTHONPATH=str(script.parents[3]),
    )
    right, questions = re.findall(r"\((\d+)/(\d+)\)", printed)[0]
    return 100 * int(right) / int(questions)


def wikisql(folder, split, predictions):
    """Execution and logical-form accuracy, in percent."""
    files = (folder / f"{split}.jsonl", folder / f"{split}.db", predictions)
    script = released("wikisql")
    printed = _output(script, *files, PYTHONPATH=str(script.with_name("site")))
    # Before the scores, the released script may list the questions that were wrong.
    scores = json.loads(printed[printed.index("{") :])
    return 100 * scores["ex_accuracy"], 100 * scores["lf_accuracy"]


def wikitablequestions(tagged, predictions):
    """Denotation accuracy in percent, of the questions in ``predictions``."""
    printed = _output(released("wikitablequestions"), "-t", tagged, predictions)
    verdicts = re.findall(r"^\S+\t(True|False)$", printed, re.MULTILINE)
    assert len(verdicts) == len(predictions.read_text().splitlines())
    return 100 * verdicts.count("True") / len(verdicts)


def _allennlp(name, gold, predictions, out):
    found = importlib.util.find_spec("allennlp_models")
    if found is None or found.origin is None:
        pytest.skip("needs the official script in the package allennlp-models")
    # The scripts alone: importing their package would import all of AllenNLP.
    tools = out.with_name("scripts") / "allennlp_models" / "rc" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    for folder in (tools, *tools.parents[:2]):
        (folder / "__init__.py").touch()
    for each in ("drop", "quoref"):
        shutil.copy(Path(found.origin).parent / "rc" / "tools" / f"{each}.py", tools)
    _output(
        *(tools / f"{name}.py", "--gold_path", gold, "--prediction_path", predictions),
        *("--output_path", out),
        PYTHONPATH=str(tools.parents[2]),
    )
    scores = json.loads(out.read_text())
    return 100 * scores["global_em"], 100 * scores["global_f1"]


def _output(script, *arguments, **environment):
    return python(script, *arguments, **environment).stdout
