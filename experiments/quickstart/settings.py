"""How the quickstart trains, as flags."""

import dataclasses

from hardem_jax.errors import require
from hardem_jax.tasks.config import Normalize, TaggerConfig


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the runs on a problem are trained.

    Attributes:
        steps: of a run.
        batch_size: questions of a step.
        learning_rate: peak of the schedule.
        width: of the encoder; even.
    """

    steps: int = 300
    batch_size: int = 32
    learning_rate: float = 2e-3
    width: int = 64

    def __post_init__(self) -> None:
        require(self, "steps", "batch_size", at_least=1)
        require(self, "learning_rate", above=0)
        require(self, "width", at_least=2)


@dataclasses.dataclass(frozen=True)
class EquationSettings(Settings):
    """How the runs on equations are trained.

    Attributes:
        normalize, no_tag_bias: of the tagger, see `hardem_jax.tasks.config.TaggerConfig`.
    """

    steps: int = 600
    normalize: Normalize = TaggerConfig.normalize
    no_tag_bias: float = TaggerConfig.no_tag_bias

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "no_tag_bias")
