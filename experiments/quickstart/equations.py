"""The quickstart's second problem: finding the true equation over the numbers of a passage."""

import functools

import numpy as np
from flax import nnx

from experiments.quickstart.problem import Problem, small_encoder
from experiments.quickstart.settings import EquationSettings
from hardem_jax.data.batching.padding import Pad
from hardem_jax.data.exclusions import size_summary
from hardem_jax.equations.config import EquationInference
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.inputs import TaggerInputs, pad_inputs
from hardem_jax.equations.model import EquationTagger
from hardem_jax.equations.models import NumericQuestions
from hardem_jax.equations.planted import (
    RULES,
    PlantedEquationsConfig,
    planted_numeric_examples,
    planted_numeric_tokenizer,
)
from hardem_jax.equations.records import numeric_question
from hardem_jax.equations.solutions.numbers import NumberConfig
from hardem_jax.equations.task import EquationTask
from hardem_jax.task.base import make_loss


def equation_problem(corpus: PlantedEquationsConfig, settings: EquationSettings) -> Problem:
    """Generates the corpus of `hardem_jax.equations.planted`."""
    tokenizer = planted_numeric_tokenizer(corpus)
    questions, dev_questions = (_generate(corpus, split) for split in ("train", "dev"))
    inputs, dev_inputs = (
        TaggerInputs(part, tokenizer, max_tokens=64, max_question_tokens=12)
        for part in (questions, dev_questions)
    )

    def pad(inputs: TaggerInputs, num_solutions: int) -> Pad:
        return functools.partial(
            pad_inputs,
            num_numbers=corpus.num_people,
            num_special=0,
            num_solutions=num_solutions,
            pad_id=tokenizer.pad_id,
        )

    def start(seed: int):
        tagger = EquationTagger(
            small_encoder(tokenizer.vocab_size, settings.width, seed=seed, look=-1),
            num_special=0,
            no_tag_bias=settings.no_tag_bias,
            rules=RULES if settings.normalize == "equations" else None,
            rngs=nnx.Rngs(seed + 1),
        )
        return nnx.split(tagger, nnx.Param)

    return Problem(
        name="equations",
        title=f"Which equation? {corpus.num_dev} unseen questions",
        scores={"em": "exact match (%)", "true z": "most likely equation in Z is true (%)"},
        settings=settings,
        note="Without reading the question, the best guess is the most common difference.",
        start=start,
        make_loss=make_loss,
        task=EquationTask(EquationInference(batch_size=100, top=1), RULES),
        inputs=inputs,
        dev=NumericQuestions(questions=dev_questions, rules=RULES),
        dev_inputs=dev_inputs,
        sizes=np.concatenate([inputs.sizes, dev_inputs.sizes]),
        pad=pad,
    )


def _generate(corpus: PlantedEquationsConfig, split: str) -> list[NumericQuestion]:
    examples = planted_numeric_examples(corpus, "dev" if split == "dev" else "train")
    questions = [numeric_question(example, NumberConfig(), RULES) for example in examples]
    sizes = size_summary([len(question.equations) for question in questions])
    print(
        f"equations, {split}: {len(questions)} questions, |Z| mean {sizes['mean']}, "
        f"at most {sizes['max']}"
    )
    return questions
