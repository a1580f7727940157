"""The models of discrete reasoning, each with the inputs it takes and the files it needs.

A model's configuration starts it (`start`) or finds it again in the folder of a run
(`restore`); either way the result is an `EquationModel`, and nothing beyond this module
knows which model it has.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from flax import nnx

from experiments.reader import EncoderConfig
from experiments.runs import RunConfig
from hardem_jax.data.batches import Pad
from hardem_jax.data.equation_inputs import NUM_SPECIAL_TOKENS, TaggerInputs, pad_inputs
from hardem_jax.data.equations import NumericQuestion
from hardem_jax.data.tokenizer import Wordpieces, load_tokenizer
from hardem_jax.errors import InputError, require
from hardem_jax.models.bert import Bert, BertConfig
from hardem_jax.models.equation_tagger import EquationTagger
from hardem_jax.solutions.equations import EquationRules

#: What the probabilities of a question add up to 1 over.
Normalize = Literal["tags", "equations"]


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
class TaggerConfig(EncoderConfig):
    """BERT that tags every number with its operator (Min et al., 2019, appendix A).

    Attributes:
        product_over: "numbers" (default), or all "tokens" as the paper's formula has it.
        normalize: P(z | x) is a product over the "tags" of all numbers (the paper), most of whose
            outcomes are no equation, or a softmax over all "equations" of Z_tot.
        no_tag_bias: initial bias of a number towards no tag; 0 for heads without bias (the paper).
        max_tokens: wordpieces of an input; longer passages are cut.
        max_question_tokens: longer questions are cut.
    """

    product_over: Literal["numbers", "tokens"] = "numbers"
    normalize: Normalize = "tags"
    no_tag_bias: float = 2.0
    max_tokens: int = 512
    max_question_tokens: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "max_question_tokens", at_least=1)
        require(self, "max_tokens", above=self.max_question_tokens + NUM_SPECIAL_TOKENS)
        require(self, "no_tag_bias")
        if self.normalize == "equations" and self.product_over == "tokens":
            raise InputError(
                "product_over: expected numbers, found tokens, which changes nothing where "
                "P(z | x) is normalized over equations"
            )

    def start(
        self, train: Sequence[NumericQuestion], *, rules: EquationRules, seed: int
    ) -> "Tagger":
        """The pretrained encoder with fresh heads.

        Args:
            train: the training split.
            rules: that it was prepared with.
            seed: of the initial parameters.

        Raises:
            InputError: the rules have counts, or see `EncoderConfig.load`.
        """
        if rules.max_count is not None:
            raise InputError(
                "data: expected equations that a tagger can express, found a count (0 to "
                f"{rules.max_count}); prepare the data without counts (max_count)"
            )
        tokenizer = load_tokenizer(self.encoder)
        module = self._module(self.load(tokenizer), _num_special(train), rules, seed)
        return Tagger(*nnx.split(module, nnx.Param), tokenizer, self, _num_special(train))

    def restore(self, run_dir: Path, config: RunConfig, *, rules: EquationRules) -> "Tagger":
        """The shape of a run's model, from what its `Tagger.save` returned."""
        saved = config.restore(_Saved, config.part, "equation_model")
        bert = config.restore(BertConfig, saved.bert, "equation_model.bert")
        num_special = saved.num_special
        abstract = nnx.eval_shape(
            lambda: self._module(self.untrained(bert), num_special, rules, seed=0)
        )
        split = nnx.split(abstract, nnx.Param)
        return Tagger(*split, load_tokenizer(run_dir), self, num_special)

    def _module(
        self, encoder: Bert, num_special: int, rules: EquationRules, seed: int
    ) -> EquationTagger:
        return EquationTagger(
            encoder,
            num_special=num_special,
            product_over=self.product_over,
            no_tag_bias=self.no_tag_bias,
            rules=rules if self.normalize == "equations" else None,
            rngs=nnx.Rngs(seed),
        )


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


def _num_special(questions: Sequence[NumericQuestion]) -> int:
    """Special numbers of a data set; all of its questions have the same."""
    return len(questions[0].values) - len(questions[0].spans)
