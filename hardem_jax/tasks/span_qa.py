"""Multi-mention reading (Min et al., 2019, section 4.1): from batches to answers.

window -> batch -> SpanReader -> SpanDistribution -> log P(z) of every mention -> objective
at test:  windows of a question -> the one the selector likes best -> its likeliest span -> text
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from hardem_jax.data.prepared.spans import Question
from hardem_jax.data.prepared.windows import Window
from hardem_jax.distributions.span import SpanDistribution
from hardem_jax.metrics import rouge, squad, triviaqa
from hardem_jax.metrics.text import COUNTS
from hardem_jax.models.encoders.packing import real_token_share
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import Objective
from hardem_jax.tasks.shared import Progress, size_group
from hardem_jax.tasks.span_config import InferenceConfig, LatentConfig
from hardem_jax.tasks.span_reading import Answer, AnswerPool, SpanQA

__all__ = [
    "METRICS",
    "Answer",
    "InferenceConfig",
    "LatentConfig",
    "SpanQA",
    "evaluate",
    "make_loss",
]

Array = jax.Array
METRICS = {"squad": squad, "triviaqa": triviaqa, "rouge": rouge}
#: Groups of |Z|, see `tasks.shared.size_group`.
SIZE_BOUNDS = (0, 1, 2, 4, 8)
_PER_WINDOW = LatentConfig()


def make_loss(
    graphdef: nnx.GraphDef,
    objective: Objective,
    latent: LatentConfig = _PER_WINDOW,
    *,
    negatives: int = 0,
) -> Callable[..., tuple[Array, dict]]:
    """The loss of a training batch as a function of the reader's parameters.

    An item costs the objective over its mentions plus the selector's cross-entropy on each of its
    windows. The batch costs the mean over items.

    Args:
        graphdef: of a `SpanReader`, from `nnx.split`.
        objective: decides which mentions are trusted.
        latent: what they are the mentions of. Scope "window" takes rows in any order; the others
            take items of ``group_size + negatives`` rows (`data.batching.grouped`).
        negatives: number of trailing rows per item that only contribute to the selector loss.

    Returns:
        ``loss(params, batch, *, step, key, dropout_key) -> (loss, metrics)``, see
        `tasks.shared.make_loss`; ``items`` counts windows or groups with a mention.
    """

    def of_groups(rows: Array) -> Array:
        """The rows of all groups, one group after the other."""
        if latent.scope == "window":
            return rows
        items = rows.reshape(-1, latent.rows + negatives, *rows.shape[1:])
        return items[:, : latent.rows].reshape(-1, *rows.shape[1:])

    def loss(
        params: Any, batch: Mapping[str, Array], *, step: Array, key: Array, dropout_key: Array
    ):
        reader: SpanReader = nnx.merge(graphdef, params)
        reading = reader(batch, rngs=nnx.Rngs(dropout=dropout_key))
        where = of_groups(batch["solutions_where"])
        spans = jax.tree.map(of_groups, reading.spans)
        if latent.rows > 1:
            spans = spans.shared(latent.rows)
        variables = _latent_variables(
            spans, of_groups(batch["solutions"]), where, latent.likelihood
        )
        span_loss, metrics = 0.0, {}
        for log_probs, possible in variables:
            shape = (-1, latent.rows * log_probs.shape[-1])
            # The same key, hence the same draw, for all of them.
            loss_of_one, metrics = objective(
                log_probs.reshape(shape), step=step, key=key, where=possible.reshape(shape)
            )
            span_loss += loss_of_one
        answerable = jnp.any(where.reshape(-1, latent.rows * where.shape[-1]), axis=-1)
        num_items = jnp.maximum(jnp.sum(answerable), 1)
        selector_loss = optax.softmax_cross_entropy_with_integer_labels(
            reading.selector_logits,
            jnp.any(batch["solutions_where"], axis=-1).astype(jnp.int32),
        )
        selector_loss = jnp.sum(selector_loss, where=batch["row_where"]) / num_items
        metrics |= {
            "span_loss": span_loss,
            "selector_loss": selector_loss,
            "z_size": jnp.sum(where) / num_items,
            "items": num_items.astype(jnp.float32),
            "real_tokens": real_token_share(batch),
        }
        return span_loss + selector_loss, metrics

    return loss


def _latent_variables(
    spans: SpanDistribution, solutions: Array, where: Array, likelihood: str
) -> Iterator[tuple[Array, Array]]:
    """``[R, K]`` log-probabilities and which of them are solutions, for each latent variable."""
    if likelihood == "span":
        yield spans.log_prob(solutions), where
        return
    for side, log_probs in enumerate((spans.start, spans.end)):
        nothing = jnp.zeros(log_probs.shape, bool)
        rows = jnp.arange(len(nothing))[:, None]
        yield log_probs, nothing.at[rows, solutions[..., side]].max(where)


def evaluate(
    task: SpanQA,
    params: Any,
    windows: Sequence[Window],
    sizes: np.ndarray,
    questions: Mapping[str, Question],
    *,
    metric: str,
    left_out: Collection[str] = (),
    progress: Progress = iter,
) -> tuple[dict[str, float], dict[str, Answer]]:
    """Scores of a split, and the answer to each question.

    Args:
        task: a reader and how to read it.
        params: of the reader.
        windows: of the questions.
        sizes: ``[N, 2]`` int, tokens and solutions of each window.
        questions: with their golds, by id.
        metric: key of `METRICS`.
        left_out: ids of questions of the data set that are not in ``questions``; each counts 0.
        progress: wraps the iterator over windows.

    Returns:
        The metric's own scores (``em`` and ``f1``, or ``rouge_l`` and others) in percent of all
        questions, those left out and those without an answer counting 0. The first of them by
        number of mentions, ``em |Z|=...``, in percent of the questions read. ``selector``, percent
        of windows whose selector is right. Where the true mention is annotated, ``true z``, percent
        of windows with several mentions where the most likely is the true one, and ``true z, not
        first``, the same where the true mention is not the first. With a ``sweep``, the metric's
        first score from the first n documents, ``em n=...``, and ``recall n=...``, percent of all
        questions with a mention in one of them.
    """
    # What is kept of a question does not grow with its windows.
    pools = defaultdict(lambda: defaultdict(lambda: AnswerPool(task.config, keep=1)))
    first_mention: dict[str, int] = {}
    rights = defaultdict(list)
    for _, window, reading in progress(task.read(params, windows, sizes)):
        for limit in (None, *task.config.sweep):
            if limit is None or window.document < limit:
                pools[limit][window.example_id].add(reading)
        if len(window.solutions):
            earliest = first_mention.get(window.example_id, window.document)
            first_mention[window.example_id] = min(earliest, window.document)
        likely = reading.log_prob_answerable > np.log(0.5)
        rights["selector"].append(likely == bool(len(window.solutions)))
        if window.true_solution >= 0 and len(window.solutions) > 1:
            right = reading.best_solution == window.true_solution
            rights["true z"].append(right)
            if window.true_solution > 0:
                rights["true z, not first"].append(right)
    answers = {limit: _first_answers(pools[limit]) for limit in (None, *task.config.sweep)}
    golds: dict[str, Sequence[str]] = dict.fromkeys(left_out, ())
    golds |= {question.id: question.golds for question in questions.values()}
    texts = {limit: {i: a.text for i, a in found.items()} for limit, found in answers.items()}
    total = METRICS[metric].score(texts[None], golds)
    scores: dict[str, float] = {n: value for n, value in total.items() if n not in COUNTS}
    main = next(iter(scores))
    for limit in task.config.sweep:
        scores[f"{main} n={limit}"] = METRICS[metric].score(texts[limit], golds)[main]
        within = sum(document < limit for document in first_mention.values())
        scores[f"recall n={limit}"] = 100 * within / len(golds)
    scores |= _by_set_size(texts[None], questions, metric)
    scores |= {name: 100 * float(np.mean(right)) for name, right in rights.items()}
    return scores, answers[None]


def metric_names(
    questions: Mapping[str, Question], *, metric: str, sweep: Sequence[int] = ()
) -> set[str]:
    """The names of all scores that `evaluate` can return for these questions."""
    golds = {question.id: question.golds for question in questions.values()}
    names = [name for name in METRICS[metric].score({}, golds) if name not in COUNTS]
    swept = [f"{name} n={limit}" for name in (names[0], "recall") for limit in sweep]
    by_size = _by_set_size({}, questions, metric)
    return {*names, *swept, *by_size, "selector", "true z", "true z, not first"}


def _first_answers(pools: Mapping[str, AnswerPool]) -> dict[str, Answer]:
    """The best answer to each question that has any."""
    ranked = {example_id: pool.answers() for example_id, pool in pools.items()}
    return {example_id: answers[0] for example_id, answers in ranked.items() if answers}


def _by_set_size(
    texts: Mapping[str, str], questions: Mapping[str, Question], metric: str
) -> dict[str, float]:
    """The metric's first score by |Z|, in ascending order."""
    groups = defaultdict(dict)
    for question in sorted(questions.values(), key=lambda question: question.num_solutions):
        group = size_group(question.num_solutions, SIZE_BOUNDS)
        groups[group][question.id] = question.golds
    scores = {}
    for group, golds in groups.items():
        own = {example_id: text for example_id, text in texts.items() if example_id in golds}
        name, value = next(iter(METRICS[metric].score(own, golds).items()))
        scores[f"{name} |Z|={group}"] = value
    return scores
