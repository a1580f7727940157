"""A model of P(question | query) that is trained on Z, and scores it."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

import jax
import numpy as np
from flax import nnx
from rich.progress import track

from hardem_jax.data.examples import QueryQuestion
from hardem_jax.data.inputs.reconstruction import (
    MAX_TOKENS,
    Explain,
    Texts,
    Vocabulary,
    texts,
)
from hardem_jax.models.decoder import Decoder, DecoderConfig
from hardem_jax.objectives import MutualInformation
from hardem_jax.tasks.tables.queries import TableQuestions
from hardem_jax.training.config import OptimizerConfig
from hardem_jax.training.devices.mesh import data_mesh
from hardem_jax.training.optimizer import make_optimizer
from hardem_jax.training.state import init_state
from hardem_jax.training.step import make_train_step

if TYPE_CHECKING:
    from experiments.reconstruction.command import Reconstruction

Array = jax.Array
# Lengths of texts are rounded up to these multiples, for few compilations.
_MULTIPLE = 16
_SCORED_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class Phase:
    """Epochs over the questions under one E-step.

    Attributes:
        name: for people.
        epochs: their number.
        inverse_temperature: of q in the E-step: 0 trusts the given posterior alone, 1 is EM.
        draws: queries of a question in a step.
    """

    name: str
    epochs: int
    inverse_temperature: float
    draws: int


class Reconstructor:
    """A model of P(question | query), trained and used on the parts of a split.

    Args:
        flags: of the command.
        data: for its tables.
        questions: with Z; their words make the vocabulary.

    Attributes:
        vocabulary: of its texts.
        graphdef, params: of the module, before training.
        phases: of training, in their order.
    """

    def __init__(
        self, flags: "Reconstruction", data: TableQuestions, questions: Sequence[QueryQuestion]
    ):
        self._flags, self._tables, self._questions = flags, data.tables, questions
        phases = (
            Phase("given posterior", flags.epochs, 0.0, 1),
            Phase("EM", flags.em_epochs, 1.0, flags.draws),
        )
        self.phases = [phase for phase in phases if phase.epochs]
        self.vocabulary = Vocabulary.of(questions, data.tables, min_count=flags.min_count)
        sizes = DecoderConfig(
            vocab_size=len(self.vocabulary),
            max_tokens=-(-MAX_TOKENS // _MULTIPLE) * _MULTIPLE,
            width=flags.width,
            layers=flags.layers,
            dropout=0.1,
        )
        decoder = Decoder(sizes, rngs=nnx.Rngs(flags.seed))
        self.graphdef, self.params = nnx.split(decoder, nnx.Param)
        self._log_probs = jax.jit(make_log_probs(self.graphdef))

    def fit_and_score(self, fold: int) -> Iterator[tuple[str, dict[Explain, dict[str, Any]]]]:
        """After each phase of training on the other folds, this one's log q(x | z) of all of Z."""
        flags = self._flags
        parts: tuple[list[QueryQuestion], list[QueryQuestion]] = [], []
        for place, question in enumerate(self._questions):
            parts[place % flags.folds == fold].append(question)
        others, own = parts if flags.folds > 1 else (parts[1], parts[1])
        rng, params = np.random.default_rng([flags.seed, fold]), self.params
        for phase in self.phases:
            params = self._fit(params, others, phase, rng, f"{phase.name}, fold {fold}")
            yield phase.name, self.score(params, own, rng)

    def _fit(
        self,
        params: Any,
        questions: Sequence[QueryQuestion],
        phase: Phase,
        rng: np.random.Generator,
        label: str,
    ) -> Any:
        flags = self._flags
        steps = phase.epochs * -(-len(questions) // flags.batch_size)
        config = OptimizerConfig(learning_rate=flags.learning_rate, warmup_fraction=0.05)
        optimizer = make_optimizer(config, params, steps)
        objective = MutualInformation(inverse_temperature=phase.inverse_temperature)
        loss = make_loss(self.graphdef, objective)
        step = jax.jit(make_train_step(loss, optimizer), donate_argnums=0)
        state = init_state(params, optimizer, flags.seed, data_mesh(1))
        batches = self._batches(questions, phase, rng)
        for batch in track(batches, label, total=steps, transient=True):
            state, _ = step(state, batch)
        return state.params

    def _batches(
        self, questions: Sequence[QueryQuestion], phase: Phase, rng: np.random.Generator
    ) -> Iterator[dict[str, np.ndarray]]:
        size = self._flags.batch_size
        # Questions of similar length are padded less.
        lengths = np.array([len(question.words) for question in questions])
        for _ in range(phase.epochs):
            order = np.argsort(lengths + rng.normal(0.0, 1.0, len(lengths)))
            for begin in rng.permutation(np.arange(0, len(order), size)):
                chosen = [questions[place] for place in order[begin : begin + size]]
                rows = [self._drawn(question, phase.draws, rng) for question in chosen]
                yield pad(rows, size, phase.draws)

    def _drawn(
        self, question: QueryQuestion, draws: int, rng: np.random.Generator
    ) -> tuple[Texts, np.ndarray]:
        places, log_weights = chosen(question, draws, rng)
        return self.write(question, question.queries[places], rng, "question"), log_weights

    def write(
        self,
        question: QueryQuestion,
        queries: np.ndarray,
        rng: np.random.Generator,
        explain: Explain,
    ) -> Texts:
        """Queries of a question as texts, see `texts`."""
        table = self._tables[question.table_id]
        return texts(question, queries, table, self.vocabulary, rng, explain=explain)

    def score(
        self, params: Any, questions: Sequence[QueryQuestion], rng: np.random.Generator
    ) -> dict[Explain, dict[str, np.ndarray]]:
        """Log q(x | z) of all of Z, ``[Z]`` float32 by question id, for both sets of words."""
        made = [self.write(one, one.queries, rng, "context") for one in questions]
        counts = [len(one.tokens) for one in made]
        width = max(one.tokens.shape[1] for one in made)
        tokens = np.zeros((sum(counts), -(-width // _MULTIPLE) * _MULTIPLE), np.int32)
        context = np.zeros(tokens.shape, bool)
        for one, begin in zip(made, np.cumsum([0, *counts]), strict=False):
            place = slice(begin, begin + len(one.tokens)), slice(one.tokens.shape[1])
            tokens[place], context[place] = one.tokens, one.explained
        asks = self.vocabulary.id("[question]")
        target = (np.cumsum(tokens == asks, axis=1) > 0) & (tokens != asks) & (tokens > 0)
        found = {explain: np.zeros(len(tokens), np.float32) for explain in get_args(Explain)}
        order = np.argsort((tokens > 0).sum(axis=1))
        for begin in track(range(0, len(order), _SCORED_AT_ONCE), "scoring", transient=True):
            rows = order[begin : begin + _SCORED_AT_ONCE]
            length = -(-int((tokens[rows[-1]] > 0).sum()) // _MULTIPLE) * _MULTIPLE
            full = np.resize(rows, _SCORED_AT_ONCE)
            values = self._log_probs(params, tokens[full, :length], target[full, :length])
            values = np.asarray(values)[: len(rows)]
            found["question"][rows] = values.sum(axis=1)
            found["context"][rows] = values.sum(axis=1, where=context[rows, :length])
        ends = np.cumsum(counts)[:-1]
        return {
            explain: dict(zip((one.id for one in questions), np.split(scores, ends), strict=True))
            for explain, scores in found.items()
        }


def chosen(
    question: QueryQuestion, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Queries to train on, and the log-weight of each: all of Z, or draws from it.

    Both make log sum_z p(z) q(x | z), exactly or as an estimate from below.

    Returns:
        Their places in Z and log p, ``[K]`` each, with K at most ``draws``.
    """
    count = len(question.queries)
    scores = np.zeros(count) if question.log_weights is None else question.log_weights
    prior = np.exp(scores - scores.max(), dtype=np.float64)
    prior /= prior.sum()
    if count <= draws:
        with np.errstate(divide="ignore"):
            return np.arange(count), np.log(prior)
    return rng.choice(count, draws, p=prior), np.full(draws, -np.log(draws))


def make_log_probs(graphdef: nnx.GraphDef) -> Any:
    """``(params, tokens, target) -> [B, T]``, log-probs of the tokens of the target."""

    def log_probs(params: Any, tokens: Array, target: Array) -> Array:
        model = nnx.merge(graphdef, params)
        return model.log_probs(tokens, target=target, where=tokens > 0)

    return log_probs


def make_loss(graphdef: nnx.GraphDef, objective: MutualInformation, *, dropout: bool = True) -> Any:
    """The loss of a reconstructor: EM in which q(x | z) and the posterior have changed places."""

    def loss(params: Any, batch: Any, *, step: Array, key: Array, dropout_key: Array):
        model = nnx.merge(graphdef, params)
        where = batch["solutions_where"]
        tokens, explained = (
            batch[name].reshape(where.size, -1) for name in ("tokens", "explained")
        )
        rngs = nnx.Rngs(dropout=dropout_key) if dropout else None
        log_q = model.sequence_log_prob(tokens, target=explained, where=tokens > 0, rngs=rngs)
        return objective(
            log_q.reshape(where.shape),
            step=step,
            key=key,
            where=where,
            log_weights=batch["log_weights"],
        )

    return loss


def pad(
    rows: Sequence[tuple[Texts, np.ndarray]], batch_size: int, num_solutions: int
) -> dict[str, np.ndarray]:
    """A batch of questions: ``[B, Z, T]`` tokens and what counts, ``[B, Z]`` weights and mask."""
    width = max(made.tokens.shape[1] for made, _ in rows)
    shape = batch_size, num_solutions, -(-width // _MULTIPLE) * _MULTIPLE
    batch = {
        "tokens": np.zeros(shape, np.int32),
        "explained": np.zeros(shape, bool),
        "log_weights": np.zeros(shape[:2], np.float32),
        "solutions_where": np.zeros(shape[:2], bool),
    }
    for row, (made, log_weights) in enumerate(rows):
        count, length = made.tokens.shape
        batch["tokens"][row, :count, :length] = made.tokens
        batch["explained"][row, :count, :length] = made.explained
        batch["log_weights"][row, :count] = log_weights
        batch["solutions_where"][row, :count] = True
    return batch
