"""Answers of several spans: ``train``, ``compare``, ``evaluate`` and ``predict``."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from hardem_jax.cli import asking
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.cli.evaluate import EvaluateCommand
from hardem_jax.cli.train import Setting, TrainCommand
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text
from hardem_jax.documents.examples import Document, ReadingExample
from hardem_jax.documents.prepared import Question
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.errors import InputError, printable, require
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.show.record import View
from hardem_jax.span_sets.config import TaggedReaderConfig, TaggingInference
from hardem_jax.span_sets.inputs import marked_text, marked_tokens, window_with_z
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from hardem_jax.span_sets import task as tasks


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingSetting(Setting):
    """All flags of a reader's run except its objective.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
    """

    data: tuple[Path, ...] = may_change("identified by contents")
    model: TaggedReaderConfig = TaggedReaderConfig()
    batches: BatchConfig = BatchConfig(buckets=(128, 256, 384, 512))
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: TaggingInference = TaggingInference()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise InputError("data: expected at least one prepared split, found none")

    TASK = "taggings"

    def open_data(self) -> tasks.TaggingQuestions:
        from hardem_jax.span_sets import task as tasks

        return tasks.TaggingQuestions.open(*self.data)

    def open_dev(self, count: int | None) -> tasks.TaggingQuestions:
        from hardem_jax.span_sets import task as tasks

        return tasks.TaggingQuestions.open(self.dev).first(count)

    def task(self, data: Any, dev: Any) -> tasks.TaggingTask:
        from hardem_jax.span_sets import task as tasks

        del dev
        return tasks.TaggingTask(self.inference, WindowConfig(**data.window_sizes))

    def views(
        self, task: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
    ) -> list[View]:
        """One view per question, with the largest Z of its windows.

        P(z) is that in this window; that of the prediction is its answer's, see
        `hardem_jax.span_sets.task.TaggedAnswer`.
        """
        own: list[dict[int, Any]] = [{} for _ in data.questions]
        for index, reading in sorted(readings, key=lambda pair: pair[0]):
            own[data.places[index, 0]][index] = reading
        pairs = zip(data.questions, own, strict=True)
        return [self._view(task, question, inputs, found) for question, found in pairs]

    def _view(self, task: Any, question: Question, inputs: Any, found: dict[int, Any]) -> View:
        windows = [inputs[index] for index in found]
        texts, places, probabilities = [], [], ()
        if (chosen := window_with_z(windows)) is not None:
            window, reading = windows[chosen], [*found.values()][chosen]
            marked = marked_tokens(
                window,
                max_mentions=self.model.max_mentions,
                max_taggings=self.model.max_taggings,
            )[: len(reading.solutions)]
            texts = [marked_text(window, spans) for spans in marked]
            places = [{window.place(*span) for span in spans} for spans in marked]
            probabilities = [math.exp(log_prob) for log_prob in reading.solutions]
        answer = task.answer(found.values())
        predicted = set(answer.spans) if answer else None
        return View(
            id=question.id,
            question=question.question,
            answer=", ".join(dict.fromkeys(question.golds)),
            solutions=texts,
            probabilities=probabilities,
            true=-1,
            prediction=" | ".join(answer.texts) if answer else "",
            probability=answer.probability if answer else 0.0,
            predicted=places.index(predicted) if predicted in places else -1,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TaggingSetting, TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which sets of mentions are trusted.
    """

    objective: AnyObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(TaggingSetting, CompareCommand):
    """Train First-only, MML, hard EM and the released MML, and tabulate them."""

    TRAIN = Train
    CURVES = {"tag_loss": "training loss over Z", "f1": "F1 (%)", "em": "exact match (%)"}

    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1", patience=None)
    objectives: tuple[str, ...] = may_change(
        "each run has one", default=("first-only", "mml", "hard-em", "released-mml")
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained reader with the official metric.

    Attributes:
        predictions: write the answers here, as a JSON object from question id to the list of its
            spans, which Quoref's evaluator reads.
    """

    predictions: Path | None = may_change("what is written", default=None)

    TASK = "taggings"

    def open(self) -> tasks.TaggingQuestions:
        from hardem_jax.span_sets import task as tasks

        return tasks.TaggingQuestions.open(self.data)

    def predictions_text(self, data: Any, answers: Any) -> str:
        del data
        return json_text({id: list(answer.texts) for id, answer in answers.items()})


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained reader questions about a document of your own.

    Attributes:
        run_dir: folder of the run.
        document: text files to read the answer from; each answer is read from one of them.
        question: the question; None to read questions from the standard input, one per line; typed
            ones end with an empty line.
        checkpoint: "best" or "last".
        top: answers to print, best first, at most one of each window.
        json: print a JSON object for each question instead, on one line.
    """

    run_dir: Path
    document: tuple[Path, ...]
    question: str | None = None
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5
    json: bool = False

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)
        if not self.document:
            raise InputError("document: expected at least one file, found none")

    def run(self) -> None:
        from hardem_jax.documents.model import WindowInputs
        from hardem_jax.span_sets import task as tasks
        from hardem_jax.task import trained as runs

        texts = [asking.read_document(path) for path in self.document]
        trained = runs.Trained(tasks.TaggingTask, self.run_dir, self.checkpoint)
        documents = tuple(
            Document(str(path), text) for path, text in zip(self.document, texts, strict=True)
        )
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for question in asking.asked(self.question, None if self.json else console):
            example = ReadingExample("", question, documents, aliases=(), golds=())
            windows = make_windows(example, trained.model.tokenizer, trained.task.windows)
            inputs = WindowInputs(windows)
            readings = (reading for _, reading in trained.reader.read(trained.params, inputs))
            answers = trained.task.answers(readings)[: self.top]
            if self.json:
                found = [self._as_json(answer) for answer in answers]
                print(json.dumps({"question": question, "answers": found}), flush=True)
                continue
            for answer in answers:
                self._print(self._as_json(answer), console)
            if not answers:
                console.print("        (no answer)", markup=False)

    def _as_json(self, answer: Any) -> dict[str, Any]:
        spans = [
            {"document": str(self.document[document]), "start": start, "end": end}
            for document, start, end in answer.spans
        ]
        return {"texts": list(answer.texts), "probability": answer.probability, "spans": spans}

    @staticmethod
    def _print(found: Mapping[str, Any], console: Console) -> None:
        texts = " | ".join(" ".join(text.split()) for text in found["texts"])
        line = f"{found['probability']:6.1%}  {printable(texts)}"
        console.print(line, style="bold", markup=False)
        for span in found["spans"]:
            place = "{document}, characters {start}-{end}".format(**span)
            console.print(f"        ({printable(place)})", markup=False)
