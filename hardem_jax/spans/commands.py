"""Reading documents: ``train``, ``compare``, ``evaluate`` and ``predict``.

The module of a data set adds its own ``prepare`` and shares everything here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console

from hardem_jax.cli import asking
from hardem_jax.cli.compare import CompareCommand
from hardem_jax.cli.evaluate import EvaluateCommand
from hardem_jax.cli.train import Setting, TrainCommand
from hardem_jax.data.batching.grouped import Scope
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.files import json_text, write_text
from hardem_jax.documents.examples import is_unknown
from hardem_jax.documents.prepared import Question
from hardem_jax.documents.windows import Window, WindowConfig
from hardem_jax.errors import InputError, printable, require
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.show.record import View
from hardem_jax.spans.config import LatentConfig, ReaderConfig, SpanInference
from hardem_jax.spans.show import mention
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from hardem_jax.documents import questions
    from hardem_jax.spans import reader as answering
    from hardem_jax.spans import task as tasks
    from hardem_jax.spans.answers import Answer
    from hardem_jax.spans.reader import FoundAnswer


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanSetting(Setting):
    """All flags of a span reader's run except its objective.

    Attributes:
        data: prepared training splits; their windows are mixed.
        dev: prepared split to evaluate on.
        latent: what the latent variable ranges over in training; at test it is
            ``inference.scope``.
    """

    data: tuple[Path, ...] = may_change("identified by contents")
    model: ReaderConfig = ReaderConfig()
    batches: BatchConfig = BatchConfig()
    latent: LatentConfig = LatentConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: SpanInference = SpanInference()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data:
            raise InputError("data: expected at least one prepared split, found none")

    TASK = "spans"

    def open_data(self) -> questions.ReadingQuestions:
        from hardem_jax.documents import questions

        return questions.ReadingQuestions.open(*self.data)

    def open_dev(self, count: int | None) -> questions.ReadingQuestions:
        return self._read(self.dev, count)

    def task(self, data: Any, dev: Any) -> tasks.SpanTask:
        from hardem_jax.spans import task as tasks

        del dev
        windows = WindowConfig(**data.window_sizes)
        return tasks.SpanTask(self.inference, self.latent, windows)

    def views(
        self, task: Any, data: Any, inputs: Any, readings: Sequence[tuple[int, Any]]
    ) -> list[View]:
        """One view per question.

        P(z), also that of the prediction, is within a window; where windows overlap, the larger
        counts.
        """
        own: list[list[tuple[Window, Any]]] = [[] for _ in data.questions]
        for index, reading in sorted(readings, key=lambda pair: pair[0]):
            own[data.places[index, 0]].append((inputs[index], reading))
        pairs = zip(data.questions, own, strict=True)
        return [self._view(task, question, windows) for question, windows in pairs]

    def _view(self, task: Any, question: Question, own: list[tuple[Window, Any]]) -> View:
        found: dict[tuple[int, int, int], float] = {}
        texts, true = {}, None
        for window, reading in own:
            for z, log_prob in enumerate(reading.solutions):
                span, text = mention(window, z)
                texts.setdefault(span, text)
                found[span] = max(found.get(span, 0.0), float(np.exp(log_prob)))
                true = span if z == window.true_solution else true
        spans = list(found)
        answer = next(iter(task.answers(reading for _, reading in own)), None)
        likely = [
            float(np.exp(log_prob))
            for _, reading in own
            for span, log_prob in zip(reading.spans, reading.log_probs, strict=True)
            if answer is not None and span == answer.span
        ]
        return View(
            id=question.id,
            question=question.question,
            answer=question.golds[0] if question.golds else "",  # of a test set, unknown
            solutions=[texts[span] for span in spans],
            probabilities=[found[span] for span in spans],
            true=spans.index(true) if true in found else -1,
            prediction="" if answer is None else answer.text,
            probability=max(likely, default=0.0),
            predicted=spans.index(answer.span) if answer and answer.span in found else -1,
        )

    def _read(self, folder: Path, count: int | None) -> questions.ReadingQuestions:
        from hardem_jax.documents import questions

        data = questions.ReadingQuestions.open(folder).first(count)
        return data.from_documents(self.inference.num_documents)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(SpanSetting, TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        objective: which mentions are trusted.
    """

    objective: AnyObjective = HardEM()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compare(SpanSetting, CompareCommand):
    """Train First-only, MML, hard EM and the released MML, and tabulate them.

    Attributes:
        train_questions: also score the first N training questions after training (how often
            the most likely mention is the annotated one); 0 for none.
    """

    TRAIN = Train
    CURVES = {"span_loss": "training loss over Z", "f1": "F1 (%)", "em": "exact match (%)"}

    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1", patience=None)
    objectives: tuple[str, ...] = may_change(
        "each run has one", default=("first-only", "mml", "hard-em", "released-mml")
    )
    train_questions: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "train_questions", at_least=0)

    def more_scores(self, run_dir: Path) -> dict[str, float]:
        """Scores of a run on the first training questions, by split."""
        scores = {}
        if self.train_questions:
            trained = self.trained(run_dir)
            for folder, split in zip(self.data, split_names(self.data), strict=True):
                on_train, _ = trained.evaluate(self._read(folder, self.train_questions))
                scores |= {f"{split}: {name}": value for name, value in on_train.items()}
        return scores


def split_names(folders: Sequence[Path]) -> list[str]:
    """As many of the last parts of each path as it takes to tell all of them apart.

    Example:
        >>> split_names([Path("squad/train"), Path("quoref/train")])
        ['squad-train', 'quoref-train']
        >>> split_names([Path("built/squad"), Path("built/quoref")])
        ['squad', 'quoref']
    """
    paths = list(dict.fromkeys(folders))
    longest = max(len(path.parts) for path in paths)
    for count in range(1, longest + 1):
        names = {path: "-".join(path.parts[-count:]) for path in paths}
        if len(set(names.values())) == len(paths):
            break
    return [names[path] for path in folders]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained reader with the official metric.

    Attributes:
        predictions: write the answers here, as a JSON object from question id to answer, which
            the evaluators of SQuAD and TriviaQA read (ids in TriviaQA's web domain are
            ``QuestionId--Filename``).
        nbest: write the best answers to each question here, as a JSON object from question id to a
            list of objects: ``text``, ``probability``, ``document``, counted from 0 in the order of
            the source, and ``start`` and ``end``, its characters there; null for a choice.
        top: answers to each question in ``nbest``.
        scope: what spans compete in, see `SpanInference`; None for that of the run.
        joint: with scope "window", rank by P(window has the answer) * P(span), see `SpanInference`;
            without the flag, as the run does.
        max_answer_tokens: longest answer; None for that of the run.
        no_answer_threshold: where "unknown" is a choice, answer "" if the probability that there is
            no answer is above this; None for that of the run.
        na_prob_file: write that probability of each question here, as a JSON object, which SQuAD
            2.0's evaluator reads. With a threshold of 1 the predictions are the best spans, which
            it needs to look for its best threshold.
        num_documents: read only the first N documents of each question; None for all.
        sweep: also score answers from the first N documents only, for each N given.
    """

    predictions: Path | None = may_change("what is written", default=None)
    nbest: Path | None = may_change("what is written", default=None)
    top: int = may_change("what is written", default=5)
    scope: Scope | None = None
    joint: bool = False
    max_answer_tokens: int | None = None
    no_answer_threshold: float | None = None
    na_prob_file: Path | None = may_change("what is written", default=None)
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("num_documents", "sweep", "max_answer_tokens", "top")
        require(self, *counts, at_least=1)
        require(self, "no_answer_threshold", at_least=0, at_most=1)

    def outputs(self) -> tuple[Path, ...]:
        own = (self.nbest, self.na_prob_file)
        return (*super().outputs(), *(path for path in own if path is not None))

    TASK = "spans"

    def open(self) -> questions.ReadingQuestions:
        from hardem_jax.documents import questions

        data = questions.ReadingQuestions.open(self.data).from_documents(self.num_documents)
        if self.na_prob_file is not None or self.no_answer_threshold is not None:
            _check_offers_unknown(questions.choices(data.window_sizes), str(self.data))
        return data

    def changes(self) -> dict[str, Any]:
        changes: dict[str, Any] = {"num_documents": self.num_documents, "sweep": self.sweep}
        if self.joint:
            changes |= {"scope": self.scope or "window", "joint": True}
        elif self.scope is not None:
            changes["scope"] = self.scope
            if self.scope != "window":  # the others have no joint ranking
                changes["joint"] = False
        if self.max_answer_tokens is not None:
            changes["max_answer_tokens"] = self.max_answer_tokens
        if self.no_answer_threshold is not None:
            changes["no_answer_threshold"] = self.no_answer_threshold
        if self.nbest is not None:
            changes["keep"] = self.top
        return changes

    def predictions_text(self, data: Any, answers: Any) -> str:
        del data
        return json_text({example_id: answer.text for example_id, answer in answers.items()})

    def report(self, data: Any, answers: Any, scores: Mapping[str, float]) -> None:
        super().report(data, answers, scores)
        if self.nbest is not None:
            best = {id: [_as_json(x) for x in (a, *a.runners_up)] for id, a in answers.items()}
            write_text(self.nbest, json_text(best))
        if self.na_prob_file is not None:
            chances = {id: answer.no_answer for id, answer in answers.items()}
            write_text(self.na_prob_file, json_text(chances))


def _as_json(answer: Answer) -> dict[str, Any]:
    """An answer with its place, which is null for a choice such as "yes"."""
    place = dict(zip(("document", "start", "end"), answer.span, strict=True))
    if answer.is_choice:
        place = dict.fromkeys(place)
    return {"text": answer.text, "probability": answer.probability, **place}


def _check_offers_unknown(choices: Sequence[str], place: str) -> None:
    """Raises `InputError` unless "there is no answer" is among the choices."""
    if not any(map(is_unknown, choices)):
        expected = 'the choice "unknown" (prepare --windows.choices unknown)'
        raise InputError(f"{place}: expected {expected}, found none")


@dataclasses.dataclass(frozen=True)
class Predict:
    """Ask a trained reader questions about documents of your own.

    Attributes:
        run_dir: folder of the run.
        document: text files to read the answer from; only the first ones if the run limits them by
            ``inference.num_documents``.
        question: the question; None to read questions from the standard input, one per line; typed
            ones end with an empty line.
        checkpoint: "best" or "last".
        top: answers to print.
        no_answer_threshold: where "unknown" is a choice, put "no answer" first if its probability
            is above this; None for that of the run.
        json: print a JSON object for each question instead, on one line.
    """

    run_dir: Path
    document: tuple[Path, ...]
    question: str | None = None
    checkpoint: Literal["best", "last"] = "best"
    top: int = 5
    no_answer_threshold: float | None = None
    json: bool = False

    def __post_init__(self) -> None:
        require(self, "top", at_least=1)
        require(self, "no_answer_threshold", at_least=0, at_most=1)
        if not self.document:
            raise InputError("document: expected at least one file, found none")

    def run(self) -> None:
        texts = [asking.read_document(path) for path in self.document]
        reader = self._reader()
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for question in asking.asked(self.question, None if self.json else console):
            found = self._answers(reader, question, texts)
            if self.json:
                best = [_as_json(x) for x in found]
                for x in best:
                    if x["document"] is not None:
                        x["document"] = str(self.document[x["document"]])
                print(json.dumps({"question": question, "answers": best}), flush=True)
                continue
            for answer in found:
                self._print(answer, console)

    def _reader(self) -> answering.Reader:
        from hardem_jax.spans import reader as answering

        changes: dict[str, Any] = {"keep": self.top}
        if self.no_answer_threshold is not None:
            changes["no_answer_threshold"] = self.no_answer_threshold
        reader = answering.Reader.from_run(self.run_dir, self.checkpoint, **changes)
        if self.no_answer_threshold is not None:
            _check_offers_unknown(reader.choices, str(self.run_dir))
        return reader

    def _answers(
        self, reader: answering.Reader, question: str, texts: Sequence[str]
    ) -> Sequence[FoundAnswer]:
        try:
            return reader.answer(question, texts, top=self.top)
        except InputError as error:
            names = ", ".join(map(str, self.document))
            raise InputError(f"{names}: {str(error).removeprefix('documents: ')}") from error

    def _print(self, answer: FoundAnswer, console: Console) -> None:
        before, text, after = answer.context
        one_line = printable(" ".join(answer.text.split()))
        line = f"{answer.probability:6.1%}  {one_line or '(no answer)'}"
        console.print(line, style="bold", markup=False)
        if answer.is_choice:
            console.print("        (in no document)", markup=False)
            return
        path = self.document[answer.document]
        place = printable(f"{path}, characters {answer.start}-{answer.end}")
        context = " ".join(f"...{before}[{text}]{after}...".split())
        console.print(f"        {printable(context)}  ({place})", markup=False)
