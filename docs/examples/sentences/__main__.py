"""Which sentence of a paragraph answers the question? On files in SQuAD's layout."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Literal

from docs.examples.sentences import commands
from docs.examples.sentences.config import FORMAT
from experiments.inspect.__main__ import Inspect
from hardem_jax import find_spans
from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import ExclusionCounts, reasons, size_summary, sizes
from hardem_jax.data.files import new_folder, write_json
from hardem_jax.documents.examples import ReadingExample
from hardem_jax.documents.prepared import NOT_IN_DOCUMENTS, determined_by
from hardem_jax.documents.squad import read_squad_layout


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Cut paragraphs into sentences, and find those that mention the answer.

    Attributes:
        file: the questions, in SQuAD's layout.
        out: folder to write.
        split: "train" leaves out questions without such a sentence, "dev" keeps them.
        force: replace the split in ``out``.
    """

    file: Path
    out: Path
    split: Literal["train", "dev"] = "train"
    force: bool = False

    def run(self) -> None:
        skips = ExclusionCounts()
        kept = []
        for example in read_squad_layout(self.file, skips=skips):
            question = solve(example)
            if question["solutions"] or self.split == "dev":
                kept.append(question)
            else:
                skips.add(NOT_IN_DOCUMENTS, example.id)
        meta = {
            "format": FORMAT,
            "sources": determined_by(self),
            "left out": reasons(skips.left_out, {question["id"] for question in kept}),
        }
        with new_folder(self.out, format=FORMAT, replace=self.force) as folder:
            lines = "".join(json.dumps(question) + "\n" for question in kept)
            (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
            write_json(folder / "meta.json", meta)
        size = size_summary([len(question["solutions"]) for question in kept])
        print(f"{len(kept):>9}  questions\n{sizes(size)}\n{skips}")


def solve(example: ReadingExample) -> dict:
    """A question with Z: the sentences that mention an alias of the answer."""
    text = example.documents[0].text
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)|$", text)]
    starts = [0, *ends]
    sentences = [text[a:b] for a, b in zip(starts, ends, strict=False)]
    mentions = find_spans(text, list(example.aliases))

    def sentence_at(position: int) -> int:
        return next(i for i, end in enumerate(ends) if position < end)

    return {
        "id": example.id,
        "question": example.question,
        "sentences": [sentence.strip() for sentence in sentences],
        "solutions": sorted({sentence_at(mention.start) for mention in mentions}),
        "true": -1 if example.true_mention is None else sentence_at(example.true_mention[1]),
    }


COMMANDS = {"prepare": Prepare, **commands.COMMANDS, "inspect": Inspect}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m docs.examples.sentences")
