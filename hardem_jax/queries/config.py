"""What can be chosen for queries: SQLova and decoding."""

import dataclasses
from typing import Literal

from hardem_jax.encoders.config import ValueUnits
from hardem_jax.errors import InputError, require
from hardem_jax.task.config import EncoderConfig


@dataclasses.dataclass(frozen=True)
class SQLovaConfig(EncoderConfig):
    """SQLova (Hwang et al., 2019); sizes as released.

    Attributes:
        hidden_size: width of LSTMs and heads.
        num_lstm_layers: layers of every LSTM.
        num_target_layers: layers of the encoder that are read, from the last one down.
        dropout: between the layers of an LSTM; the encoder has its own.
        max_tokens: maximum input length in tokens. Inputs that are too long are shortened in this
            order: headers, then the question, then whole columns.
        max_header_tokens: longer headers are cut.
        value_units: the first and the last word of a value are drawn from the "words" of the
            question, each represented by its first wordpiece, or from all of its "wordpieces", as
            in the original, where pieces within a word have probability too.
    """

    hidden_size: int = 100
    num_lstm_layers: int = 2
    num_target_layers: int = 2
    dropout: float = 0.3
    max_tokens: int = 180
    max_header_tokens: int = 24
    value_units: ValueUnits = "words"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "num_lstm_layers", "num_target_layers", "max_header_tokens", at_least=1)
        require(self, "hidden_size", at_least=2)
        if self.hidden_size % 2:
            raise InputError(
                "hidden_size: expected an even number, half of it for each direction of an LSTM, "
                f"found {self.hidden_size}"
            )
        require(self, "dropout", at_least=0, below=1)
        require(self, "max_tokens", at_least=8)


#: How answers are read off a semantic parser, see `QueryInference`.
QueryDecoding = Literal["query", "result", "well-formed", "greedy", "execution-guided"]


@dataclasses.dataclass(frozen=True)
class QueryInference:
    """How answers are read off a semantic parser.

    Attributes:
        decoding: "query" takes the most likely query of Z_tot, "result" the most likely result,
            whose probability is the sum over all queries of Z_tot that lead to it; "well-formed"
            also considers queries outside Z_tot, where values may be any spans and no row need meet
            the conditions; "greedy" and "execution-guided" decide one by one, as SQLova does.
        top: queries or results to show for a question; one is the answer.
        batch_size: questions read at once.
    """

    decoding: QueryDecoding = "query"
    top: int = 5
    batch_size: int = 32

    def __post_init__(self) -> None:
        require(self, "top", "batch_size", at_least=1)
