"""SQLova with the inputs it takes and the files it needs, as an experiment's configuration."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flax import nnx

from experiments.reader import EncoderConfig
from experiments.runs import RunConfig
from hardem_jax.data.batches import Batch, Pad
from hardem_jax.data.queries import QueryQuestion
from hardem_jax.data.query_inputs import QueryInputs, pad_query_inputs
from hardem_jax.data.tokenizer import Wordpieces, load_tokenizer
from hardem_jax.errors import InputError, require
from hardem_jax.models.bert import Bert, BertConfig
from hardem_jax.models.sqlova import SQLova
from hardem_jax.solutions.sql import MAX_CONDITIONS, Table


@dataclasses.dataclass(frozen=True)
class SQLovaConfig(EncoderConfig):
    """SQLova (Hwang et al., 2019); sizes as released.

    Attributes:
        hidden_size: width of LSTMs and heads.
        num_lstm_layers: of every LSTM.
        num_target_layers: layers of the encoder that are read, from the last one down.
        dropout: between the layers of an LSTM; the encoder has its own.
        max_tokens: wordpieces of an input; headers, then the question, then columns are cut.
        max_header_tokens: longer headers are cut.
    """

    hidden_size: int = 100
    num_lstm_layers: int = 2
    num_target_layers: int = 2
    dropout: float = 0.3
    max_tokens: int = 180
    max_header_tokens: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("num_lstm_layers", "num_target_layers", "max_header_tokens")
        require(self, *counts, at_least=1)
        require(self, "hidden_size", at_least=2)
        if self.hidden_size % 2:
            raise InputError(
                "hidden_size: expected an even number, half of it for each direction of an LSTM, "
                f"found {self.hidden_size}"
            )
        require(self, "dropout", at_least=0, below=1)
        require(self, "max_tokens", at_least=8)

    def start(self, *, seed: int) -> "Parser":
        """The pretrained encoder with everything else fresh.

        Raises:
            InputError: see `EncoderConfig.load`.
        """
        tokenizer = load_tokenizer(self.encoder)
        return self._parser(self._module(self.load(tokenizer), seed), tokenizer)

    def restore(self, run_dir: Path, config: RunConfig) -> "Parser":
        """The shape of a run's model, from what its `Parser.save` returned."""
        bert = config.restore(BertConfig, config.part.get("bert") or {}, "parser.bert")
        abstract = nnx.eval_shape(lambda: self._module(self.untrained(bert), seed=0))
        return self._parser(abstract, load_tokenizer(run_dir))

    def _module(self, encoder: Bert, seed: int) -> SQLova:
        return SQLova(
            encoder,
            hidden_size=self.hidden_size,
            num_lstm_layers=self.num_lstm_layers,
            num_target_layers=self.num_target_layers,
            dropout=self.dropout,
            max_conditions=MAX_CONDITIONS,
            rngs=nnx.Rngs(seed),
        )

    def _parser(self, module: SQLova, tokenizer: Wordpieces) -> "Parser":
        bert = dataclasses.asdict(module.encoder.config)
        return Parser(*nnx.split(module, nnx.Param), tokenizer, self, bert)


@dataclasses.dataclass(frozen=True)
class Parser:
    """A model and the way from questions to its batches.

    Attributes:
        graphdef: of the module.
        params: values, or shapes where the run's checkpoint has the values.
        tokenizer: of the encoder.
        config: see `SQLovaConfig`.
        bert: configuration of the encoder.
    """

    graphdef: nnx.GraphDef
    params: Any
    tokenizer: Wordpieces
    config: SQLovaConfig
    bert: dict[str, Any]

    def inputs(
        self, questions: Sequence[QueryQuestion], tables: Mapping[str, Table]
    ) -> QueryInputs:
        """The questions as inputs, by index."""
        return QueryInputs(
            questions,
            tables,
            self.tokenizer,
            max_tokens=self.config.max_tokens,
            max_header_tokens=self.config.max_header_tokens,
        )

    def pad(self, inputs: QueryInputs, num_solutions: int) -> Pad:
        """Makes batches of these inputs with room for so many queries."""

        def pad(rows: Sequence[Any], num_tokens: int) -> Batch:
            return pad_query_inputs(
                rows,
                num_tokens,
                **inputs.shape(num_tokens),
                num_solutions=num_solutions,
                pad_id=self.tokenizer.pad_id,
            )

        return pad

    def save(self, run_dir: Path) -> dict[str, Any]:
        """Write the files that `SQLovaConfig.restore` needs; returns what else it needs."""
        self.tokenizer.save(run_dir)
        return {"bert": self.bert}
