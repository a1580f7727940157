"""The models of discrete reasoning, each with the inputs it takes and the files it needs.

An `EquationModel` is started from its configuration (`start`) or found again in the folder of a
run (`restore`). `experiments.equation_runs.MODELS` says which model a configuration is of; nothing
else knows which one it has.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from flax import nnx

from experiments.encoder import load_encoder, untrained_encoder
from experiments.model_configs import TaggerConfig
from experiments.runs import RunConfig
from hardem_jax.data.batching.padding import Pad
from hardem_jax.data.inputs.tagger import TaggerInputs, pad_inputs
from hardem_jax.data.prepared.equations import NumericQuestion
from hardem_jax.data.tokenizer import Wordpieces, load_tokenizer
from hardem_jax.errors import InputError, require
from hardem_jax.models.encoders.bert import Bert, BertConfig
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.solutions.equations.enumeration import EquationRules


class Inputs(Protocol):
    """Questions as one model takes them.

    Attributes:
        sizes: ``[N, 2]`` int32, tokens and solutions of each; a question whose Z lost all of its
            equations when the text was cut has none.
    """

    sizes: np.ndarray

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


@dataclasses.dataclass(frozen=True)
class EquationModel(abc.ABC):
    """A model and the way from questions to its batches.

    Attributes:
        graphdef: of the module.
        params: values, or shapes where the run's checkpoint has the values.
    """

    graphdef: nnx.GraphDef
    params: Any

    @classmethod
    @abc.abstractmethod
    def start(
        cls, config: Any, train: Sequence[NumericQuestion], *, rules: EquationRules, seed: int
    ) -> Self:
        """A new model.

        Args:
            config: of the model.
            train: the training split.
            rules: that it was prepared with.
            seed: of the initial parameters.

        Raises:
            InputError: the model cannot express the rules, or a file that it needs is at fault.
        """

    @classmethod
    @abc.abstractmethod
    def restore(cls, config: Any, run_dir: Path, run: RunConfig, *, rules: EquationRules) -> Self:
        """The shape of a run's model, from what `save` wrote and returned."""

    @abc.abstractmethod
    def inputs(self, questions: Sequence[NumericQuestion]) -> Inputs:
        """The questions as inputs, by index."""

    @abc.abstractmethod
    def pad(self, inputs: Sequence[Inputs], num_solutions: int) -> Pad:
        """Makes batches of any of the given inputs with room for so many equations."""

    @abc.abstractmethod
    def save(self, run_dir: Path) -> dict[str, Any]:
        """Write the files that `restore` needs; returns what it needs of ``config.json``."""


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What `Tagger.save` returns."""

    bert: dict
    num_special: int

    def __post_init__(self) -> None:
        require(self, "num_special", at_least=0)


@dataclasses.dataclass(frozen=True)
class Tagger(EquationModel):
    """See `TaggerConfig`."""

    tokenizer: Wordpieces
    config: TaggerConfig
    num_special: int

    @classmethod
    def start(
        cls,
        config: TaggerConfig,
        train: Sequence[NumericQuestion],
        *,
        rules: EquationRules,
        seed: int,
    ) -> Self:
        """The pretrained encoder with fresh heads."""
        if rules.max_count is not None:
            raise InputError(
                "data: expected equations that a tagger can express, found a count (0 to "
                f"{rules.max_count}); prepare the data without counts (max_count)"
            )
        tokenizer, num_special = load_tokenizer(config.encoder), _num_special(train)
        module = _module(config, load_encoder(config, tokenizer), num_special, rules, seed)
        return cls(*nnx.split(module, nnx.Param), tokenizer, config, num_special)

    @classmethod
    def restore(
        cls, config: TaggerConfig, run_dir: Path, run: RunConfig, *, rules: EquationRules
    ) -> Self:
        saved = run.restore(_Saved, run.part, "equation_model")
        bert = run.restore(BertConfig, saved.bert, "equation_model.bert")
        num_special = saved.num_special
        abstract = nnx.eval_shape(
            lambda: _module(config, untrained_encoder(config, bert), num_special, rules, seed=0)
        )
        split = nnx.split(abstract, nnx.Param)
        return cls(*split, load_tokenizer(run_dir), config, num_special)

    def inputs(self, questions: Sequence[NumericQuestion]) -> TaggerInputs:
        return TaggerInputs(
            questions,
            self.tokenizer,
            max_tokens=self.config.max_tokens,
            max_question_tokens=self.config.max_question_tokens,
        )

    def pad(self, inputs: Sequence[Any], num_solutions: int) -> Pad:
        return functools.partial(
            pad_inputs,
            num_numbers=max(part.num_numbers for part in inputs),
            num_special=self.num_special,
            num_solutions=num_solutions,
            pad_id=self.tokenizer.pad_id,
        )

    def save(self, run_dir: Path) -> dict[str, Any]:
        self.tokenizer.save(run_dir)
        module: EquationTagger = nnx.merge(self.graphdef, self.params)
        bert = dataclasses.asdict(module.encoder.config)
        return {"bert": bert, "num_special": self.num_special}


def _module(
    config: TaggerConfig, encoder: Bert, num_special: int, rules: EquationRules, seed: int
) -> EquationTagger:
    return EquationTagger(
        encoder,
        num_special=num_special,
        product_over=config.product_over,
        no_tag_bias=config.no_tag_bias,
        rules=rules if config.normalize == "equations" else None,
        rngs=nnx.Rngs(seed),
    )


def _num_special(questions: Sequence[NumericQuestion]) -> int:
    """Special numbers of a data set; all of its questions have the same."""
    return len(questions[0].values) - len(questions[0].spans)
