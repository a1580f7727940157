"""Reading documents: ``prepare``, ``train``, ``compare``, ``evaluate``, ``predict``, ``export``.

The module of a data set has its own ``prepare``, and shares everything else here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from hardem_jax.cli.compare import CompareCommand, comparison
from hardem_jax.cli.evaluate import EvaluateCommand, written
from hardem_jax.cli.predict import PredictOnDocuments
from hardem_jax.cli.train import TrainCommand
from hardem_jax.data.batching.grouped import Scope
from hardem_jax.data.batching.padding import BatchConfig
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.data.files import json_text, write_text
from hardem_jax.documents.commands import PrepareFile
from hardem_jax.documents.examples import ReadingExample, is_unknown
from hardem_jax.documents.records import annotated_mentions
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.errors import InputError, require
from hardem_jax.objectives import AnyObjective, HardEM
from hardem_jax.registry import task_type
from hardem_jax.spans.config import LatentConfig, ReaderConfig, SpanInference
from hardem_jax.spans.export.command import Export
from hardem_jax.training.config import LoopConfig
from hardem_jax.training.fingerprint import may_change

if TYPE_CHECKING:
    from hardem_jax.spans.answers import Answer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepare(PrepareFile):
    """Find every mention and cut the documents into windows.

    Attributes:
        answers_are: what several answers to a question mean: "alternatives" (SQuAD), or
            "all required" (Quoref). A single span cannot give them: such questions are left out
            of training, and scored by Quoref's metric, which counts the spans that are right.
        supervised: the annotated mention is all of Z: full supervision. Only for training.
    """

    answers_are: Literal["alternatives", "all required"] = "alternatives"
    supervised: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.supervised and self.split != "train":
            raise InputError(f"--supervised: expected --split train, found {self.split}")
        # Quoref's metric knows no empty answer.
        if self.answers_are == "all required" and any(map(is_unknown, self.windows.choices)):
            raise InputError("--windows.choices: expected no unknown where all are required")

    def sources(self) -> dict[str, Any]:
        sources = super().sources()
        if not self.supervised:  # as in splits from before this flag existed
            del sources["supervised"]
        return sources

    def official_metric(self) -> str:
        if self.answers_are == "all required":
            return "quoref"
        return "squad2" if any(map(is_unknown, self.windows.choices)) else "squad"

    def examples(self, skips: ExclusionCounts) -> Iterator[ReadingExample]:
        examples = self.read(skips, self.answers_are, keep_several=self.split != "train")
        if not self.supervised:
            return examples
        return annotated_mentions(examples, skips=skips, choices=self.windows.choices)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(TrainCommand):
    """Train a reader, or continue the run in ``out`` where it stopped.

    Attributes:
        data: prepared training splits; their windows are mixed.
        latent: what the latent variable ranges over in training; at test it is
            ``inference.scope``.
        objective: which mentions are trusted.
    """

    TASK = "spans"

    data: tuple[Path, ...] = may_change("identified by contents")
    model: ReaderConfig = ReaderConfig()
    batches: BatchConfig = BatchConfig()
    latent: LatentConfig = LatentConfig()
    loop: LoopConfig = LoopConfig(num_steps=10_000, monitor="f1")
    inference: SpanInference = SpanInference()
    objective: AnyObjective = HardEM()

    def task(self, data: Any, dev: Any) -> Any:
        return task_type(self.TASK)(self.inference, self.latent, WindowConfig(**data.window_sizes))

    def open_dev(self, count: int | None) -> Any:
        return self.open_split(self.dev, count)

    def open_split(self, folder: Path, count: int | None) -> Any:
        """The first questions of a split, as far as ``inference`` reads them."""
        data = task_type(self.TASK).QUESTIONS.open(folder).first(count)
        return data.from_documents(self.inference.num_documents)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Compare(CompareCommand):
    """Train First-only, MML, hard EM and the released MML, and tabulate them.

    Attributes:
        train_questions: also score the first N training questions after training (how often
            the most likely mention is the annotated one); 0 for none.
    """

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
            trained, train = self.trained(run_dir), cast(Train, self.any_run)
            names = [folder.name for folder in self.data]
            for folder in self.data:
                split = folder.name if names.count(folder.name) == 1 else folder
                on_train, _ = trained.evaluate(train.open_split(folder, self.train_questions))
                scores |= {f"{split}: {name}": value for name, value in on_train.items()}
        return scores


def compare(train: type[Train], **curves: str) -> Any:
    """The command ``compare``, with the curves of these scores beside that of the loss."""
    curves = {"span_loss": "training loss over Z"} | curves
    return comparison(train, curves=curves, base=_Compare)


Compare = compare(Train, f1="F1 (%)", em="exact match (%)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluate(EvaluateCommand):
    """Score a trained reader with the official metric.

    Attributes:
        predictions: write a JSON object from question id to answer here, which the evaluators of
            SQuAD and TriviaQA read (ids in TriviaQA's web domain: ``QuestionId--Filename``).
        nbest: write the best answers to each question here, as a JSON object from question id to a
            list of objects: ``text``, ``probability``, ``document``, counted from 0 among those
            that `prepare` kept, and ``start`` and ``end``, its characters there; null for a choice.
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

    nbest: Path | None = written()
    top: int = may_change("what is written", default=5)
    scope: Scope | None = None
    joint: bool = False
    max_answer_tokens: int | None = None
    no_answer_threshold: float | None = None
    na_prob_file: Path | None = written()
    num_documents: int | None = None
    sweep: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "num_documents", "sweep", "max_answer_tokens", "top", at_least=1)
        require(self, "no_answer_threshold", at_least=0, at_most=1)

    TASK = "spans"
    INFERENCE = ("max_answer_tokens", "no_answer_threshold")

    def open(self) -> Any:
        from hardem_jax.documents.questions import choices

        data: Any = super().open()
        data = data.from_documents(self.num_documents)
        most = int(data.places[:, 1].max(initial=-1)) + 1  # windows may all be of later documents
        if self.sweep and max(self.sweep) > most:
            expected = f"expected at most {most}, the documents that are read"
            raise InputError(f"--sweep: {expected}, found {max(self.sweep)}")
        if self.na_prob_file is not None or self.no_answer_threshold is not None:
            _check_offers_unknown(choices(data.window_sizes), str(self.data))
        return data

    def changes(self) -> dict[str, Any]:
        changes = super().changes()
        changes |= {"num_documents": self.num_documents, "sweep": self.sweep}
        if self.joint:
            changes |= {"scope": self.scope or "window", "joint": True}
        elif self.scope is not None:
            changes["scope"] = self.scope
            if self.scope != "window":  # the others have no joint ranking
                changes["joint"] = False
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict(PredictOnDocuments):
    """Ask a trained reader questions about documents of your own.

    Attributes:
        document: text files to read the answer from; only the first ones if the run limits them by
            ``inference.num_documents``.
        no_answer_threshold: where "unknown" is a choice, put "no answer" first if its probability
            is above this; None for that of the run.
    """

    TASK = "spans"

    no_answer_threshold: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "no_answer_threshold", at_least=0, at_most=1)

    def inference(self) -> dict[str, Any]:
        changes: dict[str, Any] = {"keep": self.top}
        if self.no_answer_threshold is not None:
            changes["no_answer_threshold"] = self.no_answer_threshold
        return changes

    def reader(self, batch_size: int) -> Any:
        # A document has several windows.
        reader = super().reader(max(batch_size, 8))
        if self.no_answer_threshold is not None:
            _check_offers_unknown(reader.choices, str(self.run_dir))
        return reader


# A data set has its own ``prepare``.
_KINDS = (Prepare, Train, Compare, Evaluate, Predict, Export)
COMMANDS = {kind.__name__.lower(): kind for kind in _KINDS}
