"""One run of the grid: the quickstart's reader on a corpus with knobs, from start to scores.

All runs have batches of the same shapes, so a process compiles the training step once for each
hidden size and objective, and reading once for each hidden size.
"""

import dataclasses
import functools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.quickstart.settings import Settings
from experiments.quickstart.spans import start_reader
from experiments.regimes.grid import LARGEST_SET, Knobs, pack
from hardem_jax.data.batching.padding import Arrays, BatchConfig, Inputs, Pad
from hardem_jax.data.batching.plans import TrainingPlan
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.planted import PlantedConfig, planted_examples, planted_tokenizer
from hardem_jax.documents.prepared import Question
from hardem_jax.documents.questions import ReadingQuestions, WindowInputs
from hardem_jax.documents.windows import WindowConfig, make_windows
from hardem_jax.objectives import MML, Objective, label
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.task import SpanTask, make_span_loss
from hardem_jax.task.trained import BatchReader
from hardem_jax.training.mesh import data_mesh, replicated
from hardem_jax.training.optimizer import make_optimizer
from hardem_jax.training.state import TrainState
from hardem_jax.training.step import compile_train_step, make_train_step

#: Three special tokens, three of the question, and the two of every line of the longest document.
NUM_TOKENS = 6 + 2 * 4 * LARGEST_SET
WINDOWS = WindowConfig(max_tokens=NUM_TOKENS, stride=NUM_TOKENS - 6, max_question_tokens=3)
TASK = SpanTask(SpanInference(batch_size=100, top=1))


@dataclasses.dataclass(frozen=True)
class Run:
    """A run to make; the fields are those of a line in ``runs.jsonl``."""

    knobs: Knobs
    steps: int
    num_train: int
    num_dev: int
    objective: Objective
    seed: int

    def named(self) -> dict[str, Any]:
        """As JSON holds it."""
        knobs = dataclasses.asdict(self.knobs)
        return vars(self) | {"knobs": knobs, "objective": label(self.objective)}


def make(run: Run) -> dict[str, Any]:
    """Trains, reads the development split, and returns the line for ``runs.jsonl``."""
    began = time.monotonic()
    train, sizes, dev = _data(run.knobs.corpus(num_train=run.num_train, num_dev=run.num_dev))
    settings = Settings(steps=run.steps, width=run.knobs.width)
    params = _start(settings.width, run.knobs.warm, run.num_train, run.seed)
    params = _train(settings, run.objective, params, train, sizes, run.seed)
    readings = list(_reader(settings).read(params, dev.windows))
    true_z = np.zeros(run.num_dev, bool)
    for index, reading in readings:
        true_z[index] = reading.best_solution == reading.true_solution
    _, answers = TASK.score(dev, iter(readings))
    outcomes = {"true z": true_z, "answer": TASK.by_question(dev, answers)["em"] > 0}
    return run.named() | {
        "scores": {name: 100 * float(right.mean()) for name, right in outcomes.items()},
        "outcomes": {name: pack(right) for name, right in outcomes.items()},
        "seconds": round(time.monotonic() - began, 2),
    }


def make_until(run: Run, end: float) -> dict[str, Any] | None:
    """`make`, or None from ``end`` on, in seconds as `time.time` counts them."""
    return make(run) if time.time() < end else None


def _train(
    settings: Settings,
    objective: Objective,
    params: Any,
    train: Arrays,
    sizes: np.ndarray,
    seed: int,
) -> Any:
    """The parameters after all steps."""
    plan = TrainingPlan(sizes, _shapes(settings), num_steps=settings.steps, seed=seed)
    start, train_step = _compiled(settings, objective)
    state, finite = start(params, jax.random.key(seed)), []
    for step in plan:
        rows = step.items[:, 0]
        state, metrics = train_step(state, {name: array[rows] for name, array in train.items()})
        finite.append(metrics["finite"])
    if not np.all(jax.device_get(finite)):
        raise FloatingPointError(f"{label(objective)}, seed {seed}: the loss is not finite")
    return state.params


# All objectives of a regime start from the same parameters.
@functools.lru_cache(maxsize=16)
def _start(width: int, warm: int, num_train: int, seed: int) -> Any:
    """Parameters on the host, after ``warm`` steps on questions of one mention."""
    params = start_reader(planted_tokenizer().vocab_size, width, seed=seed)[1]
    if warm:
        train, sizes, _ = _data(Knobs(size=1).corpus(num_train=num_train, num_dev=1))
        params = _train(Settings(steps=warm, width=width), MML(), params, train, sizes, seed)
    return jax.device_get(params)


# The seeds of a grid come one after the other, and all read the same corpora: about 5 MB each.
@functools.lru_cache(maxsize=128)
def _data(corpus: PlantedConfig) -> tuple[Arrays, np.ndarray, ReadingQuestions]:
    """Training questions as one batch and their sizes, and the development split."""
    tokenizer = planted_tokenizer()
    train, dev = (list(planted_examples(corpus, split)) for split in ("train", "dev"))
    windows, dev_windows = (
        WindowInputs(
            window for example in part for window in make_windows(example, tokenizer, WINDOWS)
        )
        for part in (train, dev)
    )
    pad = functools.partial(pad_windows, num_solutions=LARGEST_SET, pad_id=tokenizer.pad_id)
    questions = ReadingQuestions(
        questions=[
            Question(example.id, example.question, example.golds, len(window.solutions))
            for example, window in zip(dev, dev_windows, strict=True)
        ],
        windows=dev_windows,
        places=np.array([(number, 0, 0) for number in range(len(dev))], np.int32),
        metric="squad",
        tokenizer=tokenizer,
        window_sizes=dataclasses.asdict(WINDOWS),
    )
    return pad(windows, NUM_TOKENS), windows.sizes, questions


def _shapes(settings: Settings) -> BatchConfig:
    return BatchConfig(
        batch_size=settings.batch_size,
        buckets=(NUM_TOKENS,),
        max_solutions=LARGEST_SET,
        negatives=0,
    )


@functools.cache
def _compiled(settings: Settings, objective: Objective) -> tuple[Any, Any]:
    """What makes a state of parameters and a key, and the training step."""
    graphdef, params = start_reader(planted_tokenizer().vocab_size, settings.width, seed=0)
    transform = make_optimizer(settings.optimizer, params, settings.steps)
    step = make_train_step(make_span_loss(graphdef, objective), transform)
    mesh = data_mesh(1)

    # A function of the key, for one that knew the seed would be compiled for each; and placed as
    # the step's own result is, without which the second step is compiled again.
    @functools.partial(jax.jit, out_shardings=replicated(mesh))
    def start(params: Any, key: jax.Array) -> TrainState:
        return TrainState(jnp.zeros((), jnp.int32), params, transform.init(params), key)

    return start, compile_train_step(step, mesh)


@functools.cache
def _reader(settings: Settings) -> BatchReader:
    graphdef, _ = start_reader(planted_tokenizer().vocab_size, settings.width, seed=0)

    def pad(inputs: Inputs, num_solutions: int) -> Pad:
        del inputs
        pad_id = planted_tokenizer().pad_id
        return functools.partial(pad_windows, num_solutions=num_solutions, pad_id=pad_id)

    return BatchReader(TASK, graphdef, pad, batches=_shapes(settings))
