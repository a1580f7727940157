"""TriviaQA-open (Joshi et al., 2017): ``python -m experiments.triviaqa_open --help``.

From a passage file and the official questions to exact match::

    python -m experiments.retrieve index --passages psgs_w100.tsv.gz --out index
    python -m experiments.retrieve retrieve --index index --questions qa/wikipedia-train.json \
        --out train.jsonl --retriever.passages 20 --layout triviaqa
    python -m experiments.triviaqa_open prepare --contexts train.jsonl --out prepared/train
    python -m experiments.triviaqa_open train --data prepared/train --dev prepared/dev \
        --out runs/hard-em objective:hard-em --objective.tau 4000
    python -m experiments.triviaqa_open evaluate --run-dir runs/hard-em --data prepared/dev \
        --sweep 10 20 40 80

The development split is retrieved with ``--retriever.passages 80`` and prepared with
``--split dev``. Files that another retriever wrote in the layout of DPR or FiD are prepared
as they are.
"""

from experiments import open_qa
from hardem_jax.cli.command import run_command

COMMANDS = open_qa.COMMANDS

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m experiments.triviaqa_open")
