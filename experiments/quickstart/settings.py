"""Training settings of the quickstart."""

import dataclasses

from hardem_jax.equations.config import Normalize, TaggerConfig
from hardem_jax.errors import InputError, require
from hardem_jax.training.config import OptimizerConfig


@dataclasses.dataclass(frozen=True)
class Settings:
    """Training settings for the corpus of mentions.

    Attributes:
        steps: training steps per run.
        batch_size: questions per step.
        learning_rate: peak learning rate.
        width: hidden size of the encoder; even.
    """

    steps: int = 300
    batch_size: int = 32
    learning_rate: float = 2e-3
    width: int = 64

    def __post_init__(self) -> None:
        require(self, "steps", "batch_size", at_least=1)
        require(self, "learning_rate", above=0)
        require(self, "width", at_least=2)
        if self.width % 2:
            raise InputError(f"width: expected an even number, found {self.width}")

    @property
    def optimizer(self) -> OptimizerConfig:
        """The optimiser of these runs."""
        return OptimizerConfig(learning_rate=self.learning_rate, b2=0.98)


@dataclasses.dataclass(frozen=True)
class EquationSettings(Settings):
    """Training settings for the corpus of equations.

    Attributes:
        normalize: what the probabilities of the tagger sum to 1 over.
        no_tag_bias: added to the score of "no tag" before the first step.
    """

    steps: int = 600
    normalize: Normalize = TaggerConfig.normalize
    no_tag_bias: float = TaggerConfig.no_tag_bias

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "no_tag_bias")
