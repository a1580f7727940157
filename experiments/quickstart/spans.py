"""The quickstart's first problem: finding the true mention of the answer."""

import functools
from pathlib import Path

from flax import nnx

from experiments.quickstart.problem import Problem, small_encoder
from experiments.quickstart.settings import Settings
from hardem_jax.data.batching.padding import Inputs, Pad
from hardem_jax.data.exclusions import ExclusionCounts
from hardem_jax.documents.inputs import pad_windows
from hardem_jax.documents.planted import PlantedConfig, planted_examples, planted_tokenizer
from hardem_jax.documents.prepared import prepare_split
from hardem_jax.documents.questions import ReadingQuestions
from hardem_jax.documents.windows import WindowConfig
from hardem_jax.spans.config import SpanInference
from hardem_jax.spans.model import SpanReader
from hardem_jax.spans.task import SpanTask, make_span_loss


def span_problem(corpus: PlantedConfig, settings: Settings, folder: Path) -> Problem:
    """Prepares the corpus of `hardem_jax.documents.planted` in ``folder``."""
    data, dev = (_prepare(corpus, split, folder) for split in ("train", "dev"))
    tokenizer, windows = data.tokenizer, data.windows

    def pad(inputs: Inputs, num_solutions: int) -> Pad:
        return functools.partial(pad_windows, num_solutions=num_solutions, pad_id=tokenizer.pad_id)

    people = corpus.num_people
    return Problem(
        name="spans",
        title=f"Which mention? {corpus.num_dev} unseen questions",
        scores={"em": "exact match (%)", "true z": "most likely mention is true (%)"},
        settings=settings,
        note=f"Guessing one of the {people} people is correct {100 / people:.0f} % of the time.",
        start=lambda seed: start_reader(tokenizer.vocab_size, settings.width, seed=seed),
        make_loss=make_span_loss,
        task=SpanTask(SpanInference(batch_size=100, top=1)),
        inputs=windows,
        dev=dev,
        dev_inputs=dev.windows,
        sizes=windows.sizes,
        pad=pad,
    )


def start_reader(vocab_size: int, width: int, *, seed: int) -> tuple[nnx.GraphDef, nnx.State]:
    """Returns the small reader, split into its module and its parameters."""
    encoder = small_encoder(vocab_size, width, seed=seed)
    return nnx.split(SpanReader(encoder, rngs=nnx.Rngs(seed + 1)), nnx.Param)


def _prepare(corpus: PlantedConfig, split: str, folder: Path) -> ReadingQuestions:
    meta = prepare_split(
        planted_examples(corpus, "dev" if split == "dev" else "train"),
        folder / split,
        tokenizer=planted_tokenizer(),
        config=WindowConfig(max_tokens=64, stride=32, max_question_tokens=8),
        metric="squad",
        sources={},
        exclusions=ExclusionCounts(),
        keep_without_mention=split == "dev",
    )
    sizes, count = meta["solutions per question"], meta["counts"]["questions"]
    print(f"spans, {split}: {count} questions, |Z| mean {sizes['mean']}, at most {sizes['max']}")
    return ReadingQuestions.open(folder / split)
