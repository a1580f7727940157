"""The commands that get faults, their tiny corpus, and what to compare after them."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line in a folder next to the corpus, module first, and the file or folder that it
    writes there; "" for one that prints."""

    line: str
    result: str

    def argv(self, folder: Path) -> list[str]:
        """Returns the words of the command line."""
        places = {"folder": folder, "corpus": folder.parent / "corpus"}
        return [word.format(**places) for word in self.line.split()]

    def results(self, folder: Path, printed: bytes) -> dict[str, Any]:
        """What two runs of the command must have in common: parameters and metrics without timings
        of a training run; all other files; or what was printed."""
        if not self.result:
            return {"printed": printed}
        path = folder / self.result
        return trained(path) if self.result == "run" else file_contents(path)


def file_contents(path: Path) -> dict[str, bytes]:
    """Reads a file, or all files in a folder, by relative path."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return {str(f.relative_to(path)): f.read_bytes() for f in files if f.is_file()}


def trained(run: Path) -> dict[str, Any]:
    """Returns the parameters of a run and its metrics without timings."""
    import jax

    from hardem_jax.spans.task import SpanTask
    from hardem_jax.task.trained import Trained

    results: dict[str, Any] = {}
    for name in ("last", "best"):
        leaves = jax.tree.leaves(Trained(SpanTask, run, name, batch_size=4).params)
        results |= {f"{name} {i}": np.asarray(leaf).tobytes() for i, leaf in enumerate(leaves)}
    lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
    timed = ("steps_per_second", "items_per_second", "tokens_per_second", "input_wait")
    results["metrics"] = [
        {key: value for key, value in line.items() if key not in timed}
        for line in lines
        if line["kind"] != "start"
    ]
    return results


PREPARE = Command(
    "triviaqa prepare --qa-file {corpus}/triviaqa/qa/wikipedia-train.json"
    " --evidence {corpus}/triviaqa/evidence --tokenizer {corpus}/bert --out {folder}/prepared"
    " --force --windows.max-tokens 32 --windows.stride 8 --windows.max-question-tokens 8",
    "prepared",
)
TRAIN = Command(
    "triviaqa train --data {folder}/prepared --dev {folder}/prepared --out {folder}/run"
    " --model.encoder {corpus}/bert --num-devices 1 --batches.batch-size 4 --batches.buckets 32"
    " --loop.no-progress --loop.num-steps 15 --loop.eval-every 5 --loop.checkpoint-every 5"
    " --loop.log-every 5 --optimizer.learning-rate 1e-3 objective:hard-em --objective.tau 20",
    "run",
)
EVALUATE = Command(
    "triviaqa evaluate --run-dir {folder}/run --data {folder}/prepared --num-devices 1"
    " --predictions {folder}/predictions.json",
    "predictions.json",
)
INDEX = Command(
    "retrieve index --passages {corpus}/passages.tsv --out {folder}/index --force"
    " --articles.buckets 4096",
    "index",
)
RETRIEVE = Command(
    "retrieve retrieve --index {folder}/index --retriever.passages 5"
    " --questions {corpus}/NQ-open.dev.jsonl --out {folder}/dev.jsonl",
    "dev.jsonl",
)
BUILD = Command(
    "build build --out {folder}/built --folder {corpus}/triviaqa --shard-size 8 data-set:triviaqa",
    "built",
)
SHOW = Command("build show --folder {folder}/built --split train --count 24", "")


@dataclasses.dataclass(frozen=True)
class Subject:
    """A command under test.

    Attributes:
        make: the command.
        lock: pattern of a file in its folder that exists while it works; "" if there is none.
        needs: folders of the undisturbed state that it reads or resumes from.
        use: the command that reads its results, for damaged files.
        damaged: files that may be damaged, as patterns in the folder.
    """

    make: Command
    lock: str
    needs: tuple[str, ...]
    use: Command
    damaged: tuple[str, ...]


_RUN = ("run/last/*/**/*", "prepared/**/*")
_BEST = ("run/best/**/*", "run/config.json", "run/tokenizer.json")
SUBJECTS: Mapping[str, Subject] = {
    "train": Subject(TRAIN, "run/lock.json", ("prepared",), TRAIN, _RUN),
    "evaluate": Subject(EVALUATE, "", ("prepared", "run"), EVALUATE, _BEST),
    "prepare": Subject(PREPARE, "prepared.partial/lock.json", (), EVALUATE, ("prepared/**/*",)),
    "index": Subject(INDEX, "index.partial/lock.json", (), RETRIEVE, ("index/**/*",)),
    "build": Subject(BUILD, "built/*/*/lock.json", (), SHOW, ("built/**/*",)),
}


def write_corpus(folder: Path) -> None:
    """Writes TriviaQA's files, passages and questions for retrieval, and a tiny BERT."""
    from tests.tiny import write_checkpoint, write_triviaqa  # imports jax

    write_checkpoint(folder / "bert")
    questions = write_triviaqa(folder / "triviaqa")
    passages, asked = ["id\ttext\ttitle\n"], []
    for item in json.loads(questions.read_text("utf-8"))["Data"]:
        page = folder / "triviaqa/evidence/wikipedia" / item["EntityPages"][0]["Filename"]
        place = item["Question"].removeprefix("Who lives in ").removesuffix("?")
        passages.append(f"p{page.stem}\t{page.read_text('utf-8')}\t{place}\n")
        row = {"question": item["Question"], "answer": item["Answer"]["Aliases"]}
        asked.append(json.dumps(row) + "\n")
    (folder / "passages.tsv").write_text("".join(passages), encoding="utf-8")
    (folder / "NQ-open.dev.jsonl").write_text("".join(asked), encoding="utf-8")
