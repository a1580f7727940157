"""Which sentence answers a question: Z is every sentence that mentions the answer."""

import dataclasses
import functools
import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from docs.examples.sentences.config import FORMAT, SentenceInference, SentenceModelConfig
from hardem_jax.data.batching.padding import Arrays, Inputs, Pad
from hardem_jax.data.batching.plans import Plan
from hardem_jax.data.files import read_meta
from hardem_jax.objectives import Objective
from hardem_jax.task.base import LossFn, Model, Questions, ShownAnswer, Task, make_loss
from hardem_jax.task.run_config import RunConfig

#: What a score of "the most likely sentence is in Z", and one of "is the annotated one", is called.
IN_Z, TRUE = "in Z", "true z"


@dataclasses.dataclass(frozen=True)
class SentenceQuestion:
    """A question with the sentences of its document.

    Attributes:
        id: of the question.
        question: its text.
        sentences: of the document, in order.
        solutions: Z, indices of the sentences that mention the answer.
        true: index of the annotated sentence; -1 if unknown. Only measured with.
    """

    id: str
    question: str
    sentences: Sequence[str]
    solutions: Sequence[int]
    true: int = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceQuestions(Questions):
    """A split, as `prepare` writes it."""

    questions: Sequence[SentenceQuestion]

    @classmethod
    def open(cls, folder: Path) -> Self:
        meta = read_meta(folder, format=FORMAT)
        lines = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        questions = [SentenceQuestion(**json.loads(line)) for line in lines]
        return cls(questions=questions, left_out=meta["left out"], place=str(folder), meta=meta)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["scores"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class SentenceDistribution:
    """P(z | x) over the sentences of a document.

    Attributes:
        scores: ``[B, S]`` float32, -inf where there is no sentence.
    """

    scores: jax.Array

    def log_prob(self, solutions: jax.Array) -> jax.Array:
        """log P of sentences, ``[B, Z]`` int32 -> ``[B, Z]`` float32."""
        return jnp.take_along_axis(jax.nn.log_softmax(self.scores), solutions, axis=-1)

    def mode(self) -> jax.Array:
        """The most likely sentence, ``[B]``."""
        return jnp.argmax(self.scores, axis=-1)


class SentenceScorer(nnx.Module):
    """Compares the mean vector of a question's words with that of each sentence's."""

    def __init__(self, config: SentenceModelConfig, *, rngs: nnx.Rngs):
        self.embed = nnx.Embed(config.num_words, config.width, rngs=rngs)

    def __call__(self, batch: Mapping[str, jax.Array], *, rngs: Any = None):
        del rngs  # no dropout
        asked = self._mean(batch["question_words"])  # [B, D]
        read = self._mean(batch["sentence_words"])  # [B, S, D]
        scores = jnp.einsum("bd,bsd->bs", asked, read)
        real = jnp.any(batch["sentence_words"] >= 0, axis=-1)
        # A row of padding has no sentence; its first stands in, so that nothing is NaN.
        real = real | (jnp.arange(real.shape[1]) == 0)[None]
        return SentenceDistribution(jnp.where(real, scores, -jnp.inf))

    def _mean(self, words: jax.Array) -> jax.Array:
        where = (words >= 0)[..., None]
        vectors = jnp.where(where, self.embed(jnp.maximum(words, 0)), 0.0)
        return vectors.sum(axis=-2) / jnp.maximum(where.sum(axis=-2), 1)


class SentenceInputs(Sequence[SentenceQuestion]):
    """Questions as a model's inputs.

    Attributes:
        sizes: ``[N, 2]`` int32, words of the longest sentence or question, and |Z|.
        num_sentences: S, the most of any document.
    """

    def __init__(self, questions: Sequence[SentenceQuestion]):
        self._questions = questions
        lengths = [max(len(words(t)) for t in (q.question, *q.sentences)) for q in questions]
        sizes = [(n, len(q.solutions)) for n, q in zip(lengths, questions, strict=True)]
        self.sizes = np.array(sizes, np.int32).reshape(-1, 2)
        self.num_sentences = max((len(q.sentences) for q in questions), default=1)

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, index: Any) -> Any:
        return self._questions[index]


def words(text: str) -> list[str]:
    """Words in lower case."""
    return re.findall(r"\w+", text.lower())


def pad_questions(
    rows: Sequence[SentenceQuestion | None],
    num_tokens: int,
    *,
    num_sentences: int,
    num_solutions: int,
    num_words: int,
) -> Arrays:
    """A batch; None is a row of padding.

    Returns:
        ``question_words`` ``[R, T]`` and ``sentence_words`` ``[R, S, T]`` int32, -1 at padding;
        ``solutions`` ``[R, Z]`` int32, ``solutions_where`` ``[R, Z]`` bool, ``true_solution``
        ``[R]`` int32, ``row_where`` ``[R]`` bool.
    """
    batch: Arrays = {
        "question_words": np.full((len(rows), num_tokens), -1, np.int32),
        "sentence_words": np.full((len(rows), num_sentences, num_tokens), -1, np.int32),
        "solutions": np.zeros((len(rows), num_solutions), np.int32),
        "solutions_where": np.zeros((len(rows), num_solutions), bool),
        "true_solution": np.full(len(rows), -1, np.int32),
        "row_where": np.array([row is not None for row in rows]),
    }

    def fill(into: np.ndarray, text: str) -> None:
        ids = [zlib.crc32(word.encode()) % num_words for word in words(text)]
        into[: len(ids)] = ids

    for i, row in enumerate(rows):
        if row is None:
            continue
        fill(batch["question_words"][i], row.question)
        for s, sentence in enumerate(row.sentences):
            fill(batch["sentence_words"][i, s], sentence)
        found = list(row.solutions)[:num_solutions]
        batch["solutions"][i, : len(found)] = found
        batch["solutions_where"][i, : len(found)] = True
        batch["true_solution"][i] = found.index(row.true) if row.true in found else -1
    return batch


@dataclasses.dataclass(frozen=True)
class SentenceModel(Model):
    """The scorer, and how questions become its batches."""

    config: SentenceModelConfig

    @classmethod
    def start(cls, config: SentenceModelConfig, data: Any, *, seed: int) -> Self:
        del data  # words are hashed: no vocabulary
        module = SentenceScorer(config, rngs=nnx.Rngs(seed))
        return cls(*nnx.split(module, nnx.Param), config)

    @classmethod
    def restore(cls, config: SentenceModelConfig, run: RunConfig) -> Self:
        del run
        abstract = nnx.eval_shape(lambda: SentenceScorer(config, rngs=nnx.Rngs(0)))
        return cls(*nnx.split(abstract, nnx.Param), config)

    def inputs(self, data: SentenceQuestions) -> SentenceInputs:
        return SentenceInputs(data.questions)

    def pad(self, inputs: SentenceInputs, num_solutions: int) -> Pad:
        return functools.partial(
            pad_questions,
            num_sentences=inputs.num_sentences,
            num_solutions=num_solutions,
            num_words=self.config.num_words,
        )

    def save(self, run_dir: Path) -> dict[str, Any]:
        del run_dir
        return {}


@dataclasses.dataclass(frozen=True)
class SentenceReading:
    """What the model says about a question: its choice, and log P of it and of each z, ``[Z]``."""

    choice: int
    log_prob: float
    solutions: np.ndarray


@dataclasses.dataclass(frozen=True)
class SentenceTask(Task[SentenceQuestions, SentenceReading, list[int]]):
    """Answers are indices of sentences."""

    NAME = "sentences"
    QUESTIONS = SentenceQuestions
    MODELS = {SentenceModelConfig: SentenceModel}
    SHARES = {TRUE: "questions with a known true sentence"}

    inference: SentenceInference = SentenceInference()

    @classmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        own = run.flags("inference", SentenceInference)
        return cls(dataclasses.replace(own, **inference))

    def save(self, data: SentenceQuestions) -> dict[str, Any]:
        del data
        return {}

    def check(self, data: SentenceQuestions, model: Any, other: str) -> None:
        del data, model, other  # any split goes with any other

    def loss(self, graphdef: nnx.GraphDef, objective: Objective, plan: Plan) -> LossFn:
        del plan
        return make_loss(graphdef, objective)

    def decode(self, found: Any, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        choice = found.mode()
        return {
            "choice": choice,
            "log_prob": found.log_prob(choice[:, None])[:, 0],
            "log_probs": found.log_prob(batch["solutions"]),
        }

    def reading(
        self, inputs: Any, index: int, out: Mapping[str, Any], entries: Mapping[str, Any]
    ) -> SentenceReading:
        in_z = out["log_probs"][entries["solutions_where"]]
        return SentenceReading(int(out["choice"]), float(out["log_prob"]), in_z)

    def score(
        self, data: SentenceQuestions, readings: Iterator[tuple[int, SentenceReading]]
    ) -> tuple[dict[str, float], list[int]]:
        found = dict(readings)
        answers = [found[index].choice for index in range(len(data.questions))]
        scores = self.by_question(data, answers)
        # Of some questions only, so it is no score of every question.
        known = [(q, a) for q, a in zip(data.questions, answers, strict=True) if q.true >= 0]
        true = {TRUE: 100 * float(np.mean([q.true == a for q, a in known]))} if known else {}
        return {name: float(values.mean()) for name, values in scores.items()} | true, answers

    def by_question(self, data: SentenceQuestions, answers: list[int]) -> dict[str, np.ndarray]:
        correct = [a in q.solutions for q, a in zip(data.questions, answers, strict=True)]
        return {IN_Z: 100.0 * np.array([*correct, *[False] * len(data.left_out)])}

    def metric_names(self, data: SentenceQuestions) -> Collection[str]:
        return {IN_Z, TRUE}

    def describe(self, data: SentenceQuestions, inputs: Inputs) -> str:
        return f"{len(data.questions)} questions"

    def shown(self, data: SentenceQuestions, answers: list[int]) -> list[ShownAnswer]:
        return [
            ShownAnswer(
                question=q.question,
                gold=q.sentences[q.true] if q.true >= 0 else "",
                answer=q.sentences[answer],
                correct=answer in q.solutions,
            )
            for q, answer in zip(data.questions, answers, strict=True)
        ]


TASK = SentenceTask
