"""First-only, MML and hard EM on a corpus whose true solutions are known: no download needed.

``python -m experiments.quickstart`` generates the corpus of `hardem_jax.data.planted`, trains a
small reader from scratch with each objective through the same code as the real tasks, prints a
table and saves the learning curves. Beside exact match it tells how often the likeliest
mention in Z is the true one, which no real data set can tell for sure.
"""

import dataclasses
import functools
import math
import tempfile
import time
from pathlib import Path

import numpy as np
from flax import nnx
from rich.console import Console
from rich.table import Table

from experiments.cli import run_command
from experiments.span_qa import Subset
from hardem_jax.analysis.plots import History, learning_curves
from hardem_jax.data.batches import BatchConfig, TrainingPlan, training_batches
from hardem_jax.data.examples import ExclusionCounts
from hardem_jax.data.planted import PlantedConfig, planted_examples, planted_tokenizer
from hardem_jax.data.prepared import PreparedSplit, prepare_split
from hardem_jax.data.windows import WindowConfig, pad_windows
from hardem_jax.models.bert import Bert, BertConfig
from hardem_jax.models.span_reader import SpanReader
from hardem_jax.objectives import MML, FirstOnly, HardEM, Objective
from hardem_jax.tasks.span_qa import InferenceConfig, SpanQA, make_loss
from hardem_jax.training.loop import LoopConfig, train
from hardem_jax.training.mesh import data_mesh
from hardem_jax.training.optimizer import OptimizerConfig

SCORES = {"em": "exact match (%)", "true z": "likeliest mention is the true one (%)"}


@dataclasses.dataclass(frozen=True)
class Quickstart:
    """Train a small reader with three objectives on generated questions and compare them.

    Attributes:
        corpus: size and difficulty of the corpus.
        seeds: one run of every objective for each.
        steps: training steps of a run.
        batch_size: questions of a step.
        learning_rate: peak of the schedule.
        width: of the encoder, which has two layers of two heads; even.
        out: folder for the figure.
    """

    corpus: PlantedConfig = PlantedConfig()
    seeds: tuple[int, ...] = (0,)
    steps: int = 300
    batch_size: int = 32
    learning_rate: float = 2e-3
    width: int = 64
    out: Path = Path("quickstart")

    def run(self) -> None:
        objectives = {
            "First-only": FirstOnly(),
            "MML": MML(),
            "Hard EM": HardEM(tau=self.steps / 2),
        }
        histories: dict[str, list[History]] = {name: [] for name in objectives}
        seconds: dict[str, float] = {name: 0.0 for name in objectives}
        with tempfile.TemporaryDirectory() as folder:
            splits = self._prepare(Path(folder))
            for seed in self.seeds:
                for name, objective in objectives.items():
                    print(f"{name}, seed {seed}")
                    began = time.monotonic()
                    run_dir = Path(folder) / f"{name}-{seed}"
                    histories[name].append(self._train(splits, objective, seed, run_dir))
                    seconds[name] += time.monotonic() - began
        self._report(histories, seconds)

    def _prepare(self, folder: Path) -> dict[str, PreparedSplit]:
        for split in ("train", "dev"):
            meta = prepare_split(
                planted_examples(self.corpus, split),
                folder / split,
                tokenizer=planted_tokenizer(),
                config=WindowConfig(max_tokens=64, stride=32, max_question_tokens=8),
                metric="squad",
                sources={},
                exclusions=ExclusionCounts(),
                keep_without_mention=split == "dev",
            )
            sizes = meta["solutions per question"]
            count = meta["counts"]["questions"]
            print(f"{split}: {count} questions, |Z| mean {sizes['mean']}, at most {sizes['max']}")
        return {split: PreparedSplit(folder / split) for split in ("train", "dev")}

    def _train(
        self, splits: dict[str, PreparedSplit], objective: Objective, seed: int, run_dir: Path
    ) -> History:
        data, dev = splits["train"], splits["dev"]
        longest = int(max(data.windows().sizes[:, 0].max(), dev.windows().sizes[:, 0].max()))
        shapes = BatchConfig(batch_size=self.batch_size, buckets=(longest,), negatives=0)
        graphdef, params = nnx.split(self._new_reader(data, seed), nnx.Param)
        plan = TrainingPlan(
            data.positives.sizes[:, 0],
            data.negatives.sizes[:, 0],
            shapes,
            num_steps=self.steps,
            seed=seed,
        )
        batches = training_batches(
            data.positives,
            data.negatives,
            plan,
            pad=functools.partial(
                pad_windows,
                num_solutions=shapes.num_solutions(data.positives.sizes),
                pad_id=data.tokenizer.pad_id,
            ),
        )
        task = SpanQA(
            graphdef,
            InferenceConfig(batch_size=100, top=1),
            batches=shapes,
            pad_id=dev.tokenizer.pad_id,
        )
        subset = Subset(dev)
        eval_every = max(1, self.steps // 6)
        result = train(
            loss_fn=make_loss(graphdef, objective),
            params=params,
            optimizer=OptimizerConfig(learning_rate=self.learning_rate, b2=0.98),
            batches=iter(batches),
            evaluate=lambda params: subset.evaluate(task, params)[0],
            config=LoopConfig(
                num_steps=self.steps,
                monitor="em",
                eval_every=eval_every,
                checkpoint_every=self.steps,
                log_every=eval_every,
                patience=None,
                seed=seed,
            ),
            directory=run_dir,
            mesh=data_mesh(1),
        )
        return result.history

    def _new_reader(self, data: PreparedSplit, seed: int) -> SpanReader:
        config = BertConfig(
            vocab_size=data.tokenizer.vocab_size,
            hidden_size=self.width,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=2 * self.width,
            max_position_embeddings=64,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
        reader = SpanReader(Bert(config, rngs=nnx.Rngs(seed)), rngs=nnx.Rngs(seed + 1))
        start_by_matching(reader.encoder, seed=seed)
        return reader

    def _report(self, histories: dict[str, list[History]], seconds: dict[str, float]) -> None:
        table = Table(title=f"{self.corpus.num_dev} unseen questions, after the last step")
        table.add_column("objective")
        for label in (*SCORES.values(), "seconds per run"):
            table.add_column(label, justify="right")
        for name, runs in histories.items():
            last = {metric: [run[-1][metric] for run in runs] for metric in SCORES}
            cells = [f"{np.mean(v):.1f} ({min(v):.1f} to {max(v):.1f})" for v in last.values()]
            table.add_row(name, *cells, f"{seconds[name] / len(runs):.0f}")
        Console().print(table)
        people = self.corpus.num_people
        print(f"Guessing one of the {people} people would be right in {100 / people:.0f} %.")
        self.out.mkdir(parents=True, exist_ok=True)
        figure = self.out / "learning_curves.png"
        learning_curves(histories, metrics=SCORES, file=figure)
        print(f"Learning curves: {figure}")


def start_by_matching(encoder: Bert, *, seed: int, gain: float = 1.3) -> None:
    """Initial values, in place, from which a small encoder learns to read within minutes.

    BERT's own initial values leave attention uniform, and a reader this small takes thousands of
    steps, how many varies with the seed, to find out that it has to compare words at all: what
    pretraining has long settled when a real task begins. So it is settled here by "mimetic"
    initialisation (Trockman and Kolter, 2023). Words take one half of the hidden units, positions
    as sines and cosines and token types the other; queries and keys are multiples of the identity,
    but for a rotation, and values are copied. The first head then looks for the same word, in the
    question too, the second at the next word. Nothing says which mention to trust, and all
    weights are trained.

    Args:
        encoder: two heads, unrolled layers.
        seed: of the random part.
        gain: scale of queries and keys; larger means sharper attention.
    """
    width = encoder.config.hidden_size
    rng = np.random.default_rng(seed)
    # Hidden units: words, sines, cosines, token types.
    words, sines, cosines, types = np.split(
        np.arange(width), np.cumsum([width // 2, 3 * width // 16, 3 * width // 16])
    )
    tables = encoder.embeddings
    frequencies = np.linspace(0.1, 0.9 * np.pi, len(sines))
    angles = np.arange(tables.position.shape[0])[:, None] * frequencies
    _fill(tables.word, words, rng.normal(size=(tables.word.shape[0], len(words))))
    _fill(tables.token_type, types, rng.normal(size=(tables.token_type.shape[0], len(types))))
    waves = math.sqrt(2) * np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    _fill(tables.position, np.concatenate([sines, cosines]), waves)

    same = np.zeros((width, width))
    same[words, words] = same[sines, sines] = same[cosines, cosines] = 1
    # From sine and cosine at one position to those at the next: the angle sum identities.
    following = same.copy()
    following[sines, sines] = following[cosines, cosines] = np.cos(frequencies)
    following[cosines, sines] = np.sin(frequencies)
    following[sines, cosines] = -np.sin(frequencies)
    for layer in encoder.layers:
        layer.key.kernel[...] = np.float32(gain) * same.astype(np.float32)
        layer.query.kernel[...] = np.float32(gain) * following.astype(np.float32)
        for part, copied, noise in (
            (layer.value, 0.8, 0.2),
            (layer.attention_output, 0.8, 0.2),
            (layer.intermediate, 0.0, 0.3),
            (layer.output, 0.0, 0.3),
        ):
            shape = part.kernel.shape
            kernel = copied * np.eye(*shape) + rng.normal(
                scale=noise / math.sqrt(width), size=shape
            )
            part.kernel[...] = kernel.astype(np.float32)


def _fill(table: nnx.Param, units: np.ndarray, values: np.ndarray) -> None:
    """Set an embedding table to ``values`` in the hidden ``units``, 0 elsewhere."""
    start = np.zeros(table.shape, np.float32)
    start[:, units] = 0.15 * values
    table[...] = start


if __name__ == "__main__":
    run_command(Quickstart, prog="python -m experiments.quickstart")
