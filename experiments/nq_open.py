"""NaturalQuestions-open (Lee et al., 2019): ``python -m experiments.nq_open --help``.

Passages are retrieved as for `experiments.triviaqa_open`, without ``--layout``, and then::

    python -m experiments.nq_open prepare --contexts train.jsonl --out prepared/train
    python -m experiments.nq_open train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 8000
    python -m experiments.nq_open evaluate --run-dir runs/hard-em --data prepared/dev \
        --sweep 10 20 40 80
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal

from experiments import triviaqa_open
from hardem_jax.cli.command import run_command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(triviaqa_open.Prepare):
    """Find every mention in the retrieved passages and cut them into windows.

    Attributes:
        metric: how answers are compared with the golds: as NQ-open's evaluator does, or SQuAD's,
            which differs where accents are written in two ways, or TriviaQA's.
    """

    metric: Literal["squad", "triviaqa", "nq_open"] = "nq_open"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(triviaqa_open.Evaluate):
    """Score a trained reader, and choose how many passages to read.

    On the development split, ``--sweep 10 20 40 80`` scores every number out of one reading and
    names the best; on the test split, ``--num-documents`` reads that many.

    Attributes:
        predictions: write the answers here, as JSON lines with the ``question`` and its
            ``prediction``, which the official evaluator reads, and the ``id`` of the split.
    """

    def predictions_text(self, data: Any, answers: Any) -> str:
        questions = {question.id: question.question for question in data.questions}
        # The official files have no ids: their evaluator finds a question by its text.
        rows = [
            {"id": id, "question": questions[id], "prediction": answer.text}
            for id, answer in answers.items()
        ]
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


COMMANDS = triviaqa_open.COMMANDS | {"prepare": Prepare, "evaluate": Evaluate}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.nq_open")
