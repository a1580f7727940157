"""Questions about your own documents: ``python -m docs.examples.own_questions --help``.

A file of JSON lines, each ``{"id", "question", "document", "answers"}``.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from hardem_jax.cli.command import run_command
from hardem_jax.data.exclusions import EMPTY_DOCUMENT, NO_ANSWER, ExclusionCounts
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.prepared import PrepareCommand
from hardem_jax.errors import InputError, check_texts
from hardem_jax.spans import commands as spans


def read_questions(file: Path, *, skips: ExclusionCounts) -> Iterator[ReadingExample]:
    """Yields the questions of a file, and counts in ``skips`` those that cannot be used."""
    with open(file, "rb") as lines:  # which need not be UTF-8
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                name, question, text = (record[key] for key in ("id", "question", "document"))
                check_texts((name, question, text), "id, question and document")
                answers = check_texts(record["answers"], "answers")
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{file}, line {number}: expected a question, found {line!r} ({error})"
                ) from error
            if not text.strip():
                skips.add(EMPTY_DOCUMENT, name)
            elif not answers:
                skips.add(NO_ANSWER, name)
            else:
                yield ReadingExample(
                    id=name,
                    question=question,
                    documents=(Document(f"{name}#0", text),),
                    aliases=answers,  # what to look for in the document
                    golds=answers,  # what counts as correct at test
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareCommand):
    """Find every mention and cut the documents into windows.

    Attributes:
        file: the questions.
    """

    METRIC = "squad"

    file: Path
    split: Literal["train", "dev"] = "train"

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        return read_questions(self.file, skips=skips)


COMMANDS = spans.COMMANDS | {"prepare": Prepare}

if __name__ == "__main__":
    run_command(COMMANDS, prog="python -m docs.examples.own_questions")
