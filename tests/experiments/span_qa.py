"""A run of a span reader on a tiny stand-in of TriviaQA, from the official layout on."""

from experiments import triviaqa
from tests.commands import WINDOWS, call
from tests.tiny import write_checkpoint, write_triviaqa

SHAPES = ["--batches.batch-size", "4", "--batches.buckets", "16", "32"]


def train_flags(root, out, *, steps=4, seed=0):
    loop = ["--loop.num-steps", steps, "--loop.eval-every", 2, "--loop.log-every", 1]
    return [
        *("train", "--data", root / "train", "--dev", root / "dev", "--out", out),
        *("--model.encoder", root / "bert", "--model.num-layers", 1, "--num-devices", 2),
        *(*SHAPES, *loop),
        *("--loop.seed", seed, "--loop.no-progress", "--optimizer.learning-rate", "1e-3"),
        *("objective:hard-em", "--objective.tau", "2"),
    ]


def make_run(root):
    """Writes a checkpoint, prepared splits and a finished run to a folder."""
    bert, qa_file = write_checkpoint(root / "bert"), write_triviaqa(root)
    for split in ("train", "dev"):
        call(
            triviaqa,
            *("prepare", "--qa-file", qa_file, "--evidence", root / "evidence"),
            *("--tokenizer", bert, "--out", root / split, "--split", split, *WINDOWS),
        )
    (root / "run").mkdir()
    log = root / "run" / "train.log"  # as "> run/train.log" makes it, before training begins
    log.write_text("begun\n")
    call(triviaqa, *train_flags(root, root / "run"))
    log.write_text("begun\nended\n")
