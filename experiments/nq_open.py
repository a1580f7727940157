"""NaturalQuestions-open (Lee et al., 2019): ``python -m experiments.nq_open --help``.

From a passage file and the official questions to exact match::

    python -m experiments.retrieve index --passages psgs_w100.tsv.gz --out index
    python -m experiments.retrieve retrieve --index index --questions NQ-open.train.jsonl \
        --out train.jsonl --retriever.passages 20
    python -m experiments.nq_open prepare --contexts train.jsonl --out prepared/train
    python -m experiments.nq_open train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 8000
    python -m experiments.nq_open evaluate --run-dir runs/hard-em --data prepared/dev \
        --sweep 10 20 40 80

The development split is retrieved with ``--retriever.passages 80`` and prepared with
``--split dev``. Files that another retriever wrote in the layout of DPR or FiD are prepared
as they are.
"""

from experiments.cli import run_command
from experiments.open_qa import Compare, Evaluate, Prepare, Train
from experiments.span_files import Predict

COMMANDS = {
    "prepare": Prepare,
    "train": Train,
    "compare": Compare,
    "evaluate": Evaluate,
    "predict": Predict,
}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.nq_open")
